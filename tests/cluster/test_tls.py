"""A cluster with certificates, through the options of the command."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

from bvsi.cluster import connect
from bvsi.cluster.client import threads_of
from bvsi.errors import BvsiError

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(words, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_certificates_reach_the_scheduler(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    names = ("scheduler", "worker", "client")
    pairs = {f"tls_{name}_cert": str(cert) for name in names} | {f"tls_{name}_key": str(key) for name in names}
    security = distributed.Security(tls_ca_file=str(cert), require_encryption=True, **pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=1, processes=False, protocol="tls", security=security, dashboard_address=None
        ) as cluster:
            address = cluster.scheduler.address
            assert address.startswith("tls://")
            with connect(address, tls=(cert, cert, key)) as client:
                assert len(threads_of(client)) == 1
            with pytest.raises(BvsiError, match="nothing answers"), connect(address, timeout=2.0):
                pass


def test_certificates_without_encryption_are_refused(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    from bvsi.cluster.address import Address
    from bvsi.cluster.client import _security

    cert, key = certificate
    with pytest.raises(BvsiError, match="write tls://"):
        _security(distributed, Address.parse("tcp://127.0.0.1:8786"), (cert, cert, key))
    with pytest.raises(BvsiError, match="there is no file"):
        _security(distributed, Address.parse("tls://127.0.0.1:8786"), (cert, tmp_path / "absent", key))
    with pytest.raises(BvsiError, match="--tls-ca is needed"):
        _security(distributed, Address.parse("tls://127.0.0.1:8786"), (None, cert, key))
