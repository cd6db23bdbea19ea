"""Fits by forward solves in files, reports and study files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from bvsi import Discovery, discover
from bvsi.app.cli.main import app
from bvsi.app.study import StudyError, load_study, run_study, simulation
from bvsi.app.study import run as engine
from bvsi.app.study.result_folder import load_with_result
from bvsi.app.study.settings import RefineSettings
from bvsi.app.study.simulation import refine_study
from bvsi.data import Data, Grid
from bvsi.discovery import refining
from bvsi.discovery.refined import Refined
from bvsi.discovery.refining import refine
from bvsi.errors import BvsiError, InfeasibleError, NotPositiveDefiniteError
from bvsi.forward.ensemble import simulator
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.noise import IID, from_counts
from bvsi.operators import Library, NoFlux
from bvsi.refine import fit_forward

X = np.linspace(0.0, 1.0, 24)
TIMES = np.linspace(0.0, 0.5, 12)
NAMES = ("laplacian(u)", "u", "u**2")
TRUTH = np.array([0.05, 2.0, -1.0])
SIGMA = 0.01

STUDY = """
[data]
file = "data.nc"
[library]
equations = {u = ["laplacian(u)", "u", "u**2"]}
keep = ["laplacian(u)", "u", "u**2"]
boundary = "no-flux"
[noise]
sigma = 0.01
[check]
enabled = false
[forecast]
enabled = false
[refine]
enabled = true
[output]
budget = 60.0
"""


def library():
    return Library({"u": list(NAMES)}, keep=list(NAMES), boundary=NoFlux())


@pytest.fixture(scope="module")
def data():
    u0 = 0.5 + 0.3 * np.cos(np.pi * X) + 0.1 * np.cos(2 * np.pi * X)
    first = Data(TIMES, {"u": np.tile(u0, (len(TIMES), 1))}, Grid(x=X))
    u, _ = simulator(first, library()).run(TRUTH, {"u": u0}, TIMES)
    noise = SIGMA * np.random.default_rng(0).standard_normal(u["u"].shape)
    return first.with_fields({"u": u["u"] + noise})


@pytest.fixture(scope="module")
def found(data):
    weak = discover(data, library(), noise=IID(SIGMA), check=False)
    return weak.refine(data, library(), noise=IID(SIGMA))


def test_both_spaces_agree_where_data_are_many(found):
    assert found.refined.agreement.p_value > 0.01
    assert found.refined.selected == pytest.approx(1.0)
    assert not found.refined.doubts
    assert str(found.refined) in found.details
    assert f"by forward solves: {found.refined.equation}" in str(found)
    fit = found.refined.best
    assert np.abs((fit.posterior.mean - TRUTH) / np.sqrt(fit.posterior.variance)).max() < 3.5


def test_a_disagreement_of_both_spaces_is_a_doubt_with_its_cause(data, found):
    """An estimate of the weak form ten standard deviations away; what was fitted is not fitted again."""
    off = GaussianPosterior(found.names, found.theta + 10 * found.sd, found.posterior.covariance)
    made = replace(found, posterior=off).refine(
        data, library(), noise=IID(SIGMA), structures=[NAMES], known=found.refined
    )
    assert made.refined.agreement.doubted
    (doubt,) = (one for one in made.doubts if "disagree" in one)
    assert "standard deviations" in doubt
    assert made.refined.agreement.cause in doubt
    assert "resolve" in made.refined.agreement.cause  # twelve frames, and the fit is good: space is left


def test_a_file_keeps_them(found, tmp_path):
    found.save(tmp_path / "found.nc")
    again = Discovery.load(tmp_path / "found.nc")
    assert str(again.refined) == str(found.refined)
    one, other = found.refined.best, again.refined.best
    np.testing.assert_array_equal(one.predictions[0], other.predictions[0])
    np.testing.assert_allclose(one.posterior.covariance, other.posterior.covariance, rtol=1e-12)
    assert other.status == one.status
    assert again.refined.average("u").mean == found.refined.average("u").mean


def test_the_report_has_a_section(found, tmp_path):
    page = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="refined"' in page
    assert "sd (structure)" in page


@pytest.fixture
def never_computed(monkeypatch):
    def computed(*_, **__):
        raise AssertionError("computed")

    monkeypatch.setattr(engine, "discover", computed)
    monkeypatch.setattr(refining, "fit_forward", computed)


IMPOSSIBLE = [
    (('boundary = "no-flux"\n', ""), "boundary condition of 'u' is unknown; declare it"),
    (("[refine]\n", "[refine]\nblur = {q = 0.1}\n"), "blur: the data have no axis 'q'; they have x"),
    (("[refine]\n", "[refine]\nbins = {z = 0.1}\n"), "bins: the data have no axis 'z'; they have x, time"),
    (("[refine]\n", "[refine]\nbins = {time = 0.2}\n"), "longer than the 0.0454545 between frames"),
    (
        (
            "[refine]\n",
            '[posterior]\nconstraints = ["u + u**2 == 0"]\n'
            '[posterior.priors]\n"u" = {distribution = "half-normal", scale = 1}\n[refine]\n',
        ),
        "is an equality, and forward solves need a Gaussian",
    ),
    (('"u**2"]}', '"u*k"]}\nunknown = {k = "x"}'), "the function k cannot be fitted"),
    (
        ("[refine]\n", '[posterior.priors]\n"u" = {distribution = "horseshoe", scale = 1}\n[refine]\n'),
        "forward solves need a density without a spike",
    ),
    (("[refine]\n", '[refine]\non = "data.nc"\n'), "data.nc"),
]


@pytest.mark.parametrize(("change", "words"), IMPOSSIBLE, ids=[words for _, words in IMPOSSIBLE])
def test_what_cannot_be_refined_is_refused_before_anything_is_computed(data, tmp_path, never_computed, change, words):
    data.to_xarray().to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    study = tmp_path / "study.toml"
    text = STUDY.replace('keep = ["laplacian(u)", "u", "u**2"]\n', "").replace(*change)
    study.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match=words) as refused:
        run_study(load_study(study))
    assert "refine: " in str(refused.value)
    assert not list(tmp_path.glob("result/*.nc"))


def test_what_cannot_be_refined_later_is_refused_too(data, tmp_path, never_computed):
    """``bvsi refine`` on a study that did not ask for it when it was run."""
    data.to_xarray().to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("enabled = true", "blur = {y = 0.1}"), encoding="utf-8")
    found = discover(data, library(), noise=IID(SIGMA), check=False)
    found.save(tmp_path / "result.nc")
    with pytest.raises(StudyError, match="blur: the data have no axis 'y'"):
        refine_study(load_study(study), tmp_path / "result.nc", tmp_path / "refined.nc", budget=1.0)


def test_a_study_refines(data, tmp_path):
    data.to_xarray().to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    study = tmp_path / "study.toml"
    study.write_text(STUDY, encoding="utf-8")
    finished = run_study(load_study(study))
    assert finished.found.refined is not None
    assert Discovery.load(tmp_path / "result" / "result.nc").refined is not None


def test_fits_that_follow_the_answer_keep_to_its_budget(data, tmp_path):
    data.to_xarray().to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("budget = 60.0", "budget = 0.0"), encoding="utf-8")
    finished = run_study(load_study(study))
    assert finished.found.refined is None
    assert "refine: none: 0 s were not enough; more time: bvsi refine --budget 600" in finished.notes


def test_without_time_the_first_structure_is_fitted_and_no_other(data):
    weak = discover(data, library(), noise=IID(SIGMA), check=False)
    one = weak.refine(data, Library({"u": list(NAMES)}, boundary=NoFlux()), noise=IID(SIGMA), budget=0.0)
    assert [fit.names for fit in one.refined.models] == [NAMES]
    assert len(one.refined.left_out) == len(NAMES)


def test_counts_of_replicates_have_one_law():
    rng = np.random.default_rng(1)
    mean = np.full((8, 30), 20.0)
    wells = [Data(np.arange(8.0), {"u": rng.poisson(mean).astype(float)}, Grid(x=np.arange(30.0))) for _ in range(4)]
    data, noise = from_counts(wells)
    assert noise.b == pytest.approx(1 / 4, rel=0.15)
    np.testing.assert_allclose(data.fields["u"], np.mean([one.fields["u"] for one in wells], axis=0))


def test_a_bad_estimate_of_the_weak_form_is_no_start(data, found, monkeypatch):
    """Where steps from it end nowhere, smoothed data are the start."""
    begun = []

    def fails(model, starts=(), like=None, *, rng=None):
        begun.append(len(starts))
        if starts:
            raise NotPositiveDefiniteError("P: the matrix is not positive definite.", "P", 0)
        return fit_forward(model, starts, like, rng=rng)

    monkeypatch.setattr(refining, "fit_forward", fails)
    made = refine(data, library(), found, noise=IID(SIGMA), structures=[NAMES])
    assert begun == [1, 0]
    np.testing.assert_allclose(made.best.theta, found.refined.best.theta, rtol=1e-2)


def test_a_larger_structure_never_fits_worse_whatever_the_order(data, monkeypatch):
    """One that ended in a local minimum is fitted again from a smaller one, also where that comes later."""

    def poor(model, starts, rng):
        fit = fit_forward(model, starts, rng=rng)
        return replace(fit, log_likelihood=fit.log_likelihood - 1e4) if len(model.names) == len(NAMES) else fit

    monkeypatch.setattr(refining, "_from_starts", poor)
    made = refine(data, library(), noise=IID(SIGMA), structures=[NAMES, ("laplacian(u)", "u")])
    fits = {len(fit.names): fit.log_likelihood for fit in made.models}
    assert fits[3] > fits[2]


def test_structures_that_were_fitted_are_not_fitted_again(data, found, monkeypatch):
    """Interrupted after some structures, it goes on with the others; all that was found stays."""
    kept: list[Refined] = []

    class InterruptedError(Exception):
        pass

    def stop(made: Refined) -> None:
        kept.append(made)
        if len(kept) == 2:
            raise InterruptedError

    structures = [NAMES, ("laplacian(u)", "u")]
    with pytest.raises(InterruptedError):
        refine(data, library(), noise=IID(SIGMA), structures=structures, keep=stop)
    assert [len(made.models) for made in kept] == [1, 2]
    begun = []
    monkeypatch.setattr(refining, "fit_forward", lambda *args: begun.append(args))
    whole = refine(data, library(), noise=IID(SIGMA), structures=structures, known=kept[-1])
    assert not begun
    assert {frozenset(fit.names) for fit in whole.models} == {frozenset(names) for names in structures}
    assert not whole.left_out
    np.testing.assert_allclose(whole.predicted()[0], kept[-1].predicted()[0])
    shown = whole.experiments[0]
    assert 0.8 < np.nanstd(shown.residual("u")) < 1.2
    assert np.mean(np.abs(shown.values["u"] - shown.mean["u"]) < 1.96 * shown.sd("u")) > 0.9


def test_the_command_writes_a_result_with_them(data, found, tmp_path, monkeypatch):
    data.to_xarray().to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    (tmp_path / "result").mkdir()
    found.save(tmp_path / "result" / "result.nc")
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["refine", "study.toml", "--out", "refined.nc", "--json"])
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert told["inclusion"]["u"] == pytest.approx(1.0)
    assert Discovery.load("refined.nc").refined.equation == told["equation"]
    monkeypatch.setattr(refining, "fit_forward", None)  # all is there
    again = CliRunner().invoke(app, ["refine", "study.toml", "--out", "refined.nc", "--json"])
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["equation"] == told["equation"]
    (tmp_path / "study.toml").write_text(STUDY.replace("sigma = 0.01", "sigma = 0.02"), encoding="utf-8")
    other = CliRunner().invoke(app, ["refine", "study.toml", "--out", "refined.nc"])
    assert "another study" in str(other.exception)


@pytest.mark.parametrize(
    ("folder", "where", "given"),
    [
        ("result", ".", ["result"]),
        ("result", ".", ["result/result.nc"]),
        ("runs/first", ".", ["runs/first/"]),
        ("moved", ".", ["moved"]),
        ("result", "result", []),
        ("result", "result", ["."]),
        ("result", "..", ["study"]),
    ],
)
def test_the_command_takes_the_folder_of_a_result(data, found, tmp_path, monkeypatch, folder, where, given):
    """The study file has another name, and the data are beside it."""
    home = tmp_path / "study"
    made = home / folder
    made.mkdir(parents=True)
    data.to_xarray().to_netcdf(home / "data.nc", engine="h5netcdf")
    name = "result" if folder == "moved" else folder
    (home / "ring.toml").write_text(text := STUDY + f'folder = "{name}"\n', encoding="utf-8")
    (made / "study.toml").write_text(text, encoding="utf-8")
    found.save(made / "result.nc")
    monkeypatch.chdir(home / where)
    monkeypatch.setattr(simulation, "refined", lambda inputs, weak, *_, **__: replace(weak, refined=found.refined))
    if given == ["study"]:  # the folder of a study
        (home / "ring.toml").rename(home / "study.toml")
    ran = CliRunner().invoke(app, ["refine", *given, "--out", str(tmp_path / "refined.nc"), "--json"])
    assert ran.exit_code == 0, (ran.output, ran.exception)
    assert json.loads(ran.stdout)["equation"] == found.refined.equation
    np.testing.assert_array_equal(Discovery.load(tmp_path / "refined.nc").theta, found.theta)


def test_a_result_whose_data_are_elsewhere_is_told_what_to_do(found, tmp_path):
    (made := tmp_path / "result").mkdir()
    (made / "study.toml").write_text(STUDY, encoding="utf-8")
    found.save(made / "result.nc")
    with pytest.raises(BvsiError, match=r"'data.nc', are not in the folder above it; .*STUDY.toml --result"):
        load_with_result(made)
    with pytest.raises(BvsiError, match="there is no study here"):
        load_with_result(tmp_path)


def test_a_mesh_where_the_equation_is_solved_is_looked_for_before_anything(data, tmp_path):
    data.to_xarray().to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("[refine]\n", '[refine]\non = "domain.msh"\n'), encoding="utf-8")
    with pytest.raises(BvsiError, match=r"there is no file .*domain.msh"):
        run_study(load_study(study))


def test_a_parameter_inside_of_an_operator_is_fitted(tmp_path):
    """u_t = D u_xx − a u/(K + u) from six frames, with K between bounds; a file keeps it."""
    t = np.linspace(0.0, 1.0, 6)
    u0 = 0.8 + 0.6 * np.cos(np.pi * X)
    true = Library({"u": ["laplacian(u)", "u/(0.5 + u)"]}, boundary=NoFlux())
    first = Data(t, {"u": np.tile(u0, (len(t), 1))}, Grid(x=X))
    u, _ = simulator(first, true).run(np.array([0.03, -0.8]), {"u": u0}, t)
    noisy = first.with_fields({"u": u["u"] + 0.003 * np.random.default_rng(5).standard_normal(u["u"].shape)})
    names = ("laplacian(u)", "u/(K + u)")
    looked = Library({"u": list(names)}, boundary=NoFlux(), parameters={"K": (0.05, 5.0)}, keep=list(names))
    made = refine(noisy, looked, noise=IID(0.003))
    assert made.parameters == ("K",)
    fit = made.best
    truth = [{"laplacian(u)": 0.03, "u/(K + u)": -0.8, "K": 0.5}[name] for name in fit.names]
    assert np.abs((fit.posterior.mean - truth) / np.sqrt(fit.posterior.variance)).max() < 4
    assert np.sqrt(fit.posterior.variance)[fit.names.index("K")] < 0.05
    assert made.equation.splitlines()[1].startswith("K = 0.")
    with pytest.raises(InfeasibleError, match="K > 6"):
        refine(noisy, looked, noise=IID(0.003), constraints=["K > 6"])


def test_a_domain_of_sensors_makes_forward_fits_the_default():
    assert not RefineSettings().wanted
    assert RefineSettings(on="domain.msh").wanted
    assert not RefineSettings(on="domain.msh", enabled=False).wanted
    assert RefineSettings(enabled=True).wanted


def test_sensors_begin_with_all_operators(data, found):
    """The weak form selects what it can; between sensors it is not the structure that is fitted first."""
    few = Data(TIMES, {"u": data.fields["u"][:, ::6]}, Grid(x=X[::6]))
    made = refine(few, library(), found, noise=IID(SIGMA), on=Grid(x=X), budget=0.0)
    assert set(made.best.names) == set(NAMES)
    assert made.few_sensors
    assert "sensors are too few" in made.agreement.cause


def test_saturated_values_are_not_fitted():
    """Growth of a cosine, of which an eighth is cut off."""
    t = np.linspace(0.0, 1.0, 6)
    library = Library({"u": ["laplacian(u)", "u"]}, boundary=NoFlux())
    u0 = 0.8 + 0.6 * np.cos(np.pi * X)
    first = Data(t, {"u": np.tile(u0, (len(t), 1))}, Grid(x=X))
    u, _ = simulator(first, library).run(np.array([0.03, 0.4]), {"u": u0}, t)
    noisy = u["u"] + 0.01 * np.random.default_rng(5).standard_normal(u["u"].shape)
    cut = np.minimum(noisy, np.quantile(noisy, 0.88))
    made = refine(first.with_fields({"u": cut}), library, structures=[library.names])
    assert made.best.count == np.count_nonzero(cut < cut.max())
    assert np.abs((made.best.posterior.mean - [0.03, 0.4]) / np.sqrt(made.best.posterior.variance)).max() < 3


def test_without_time_operators_are_weighed_by_their_density_at_zero(data):
    """Savage and Dickey, against fits without the operator; what is fitted first is what promises most."""
    candidates = Library({"u": [*NAMES, "u**3", "dx(u)"]}, boundary=NoFlux())
    given = {"noise": IID(SIGMA), "structures": [candidates.names]}
    short = refine(data, candidates, noise=IID(SIGMA), budget=0.0)
    (whole,) = short.models
    smaller = [tuple(n for n in candidates.names if n != name) for name in ("u**3", "dx(u)")]
    for names in smaller:
        (alone,) = refine(data, candidates, **{**given, "structures": [names]}).models
        (left,) = set(candidates.names) - set(names)
        guessed = whole.evidence_without(left) - whole.log_evidence
        assert guessed == pytest.approx(alone.log_evidence - whole.log_evidence, abs=0.3)
    assert {frozenset(names) for names in smaller} < {frozenset(names) for names in short.left_out}
    assert frozenset(short.left_out[0]) in {frozenset(names) for names in smaller}
    inside = short.inclusion()
    assert inside["laplacian(u)"] > 0.999
    assert inside["dx(u)"] < 0.5 < inside["u**3"] < 0.95  # one, where no structure lacks them
    assert "P(in) = 1.000" not in next(line for line in short.text.splitlines() if line.startswith("dx(u) ="))
