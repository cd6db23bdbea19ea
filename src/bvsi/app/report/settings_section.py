"""What it takes to do it again: settings, versions, timing."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from bvsi._version import __version__
from bvsi.app.report.markup import Markup, details, element, table
from bvsi.discovery import Discovery

_PACKAGES = ("numpy", "scipy", "sympy", "scikit-fem", "xarray", "h5netcdf", "zarr", "numba", "pydantic", "matplotlib")


def versions() -> dict[str, str]:
    """Versions of bvsi, Python, the packages it computes with, and the system."""
    found = {"bvsi": __version__, "Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return {**found, "system": platform.platform()}


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as ``noise.sigma`` → text."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{key}.")
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            flat[f"{prefix}{key}"] = ", ".join(str(item) for item in value)
        else:
            flat[f"{prefix}{key}"] = str(value)
    return flat


def timing_texts(found: Discovery, timing: Mapping[str, float]) -> dict[str, str]:
    """Seconds by stage, the discovery itself last where it is not among them."""
    stages = dict(timing) or {"discovery": found.seconds}
    return {name: f"{seconds:.2f} s" for name, seconds in stages.items()}


def settings_section(
    found: Discovery, settings: Mapping[str, Any] | None, timing: Mapping[str, float], study_text: str
) -> Markup:
    """Tables that open on request."""
    blocks = [("What was used", found.settings)]
    blocks += [("Settings of the study", flat_settings(settings))] if settings else []
    blocks += [("Versions", versions()), ("Timing", timing_texts(found, timing))]
    parts = [
        details(name, table(["name", "value"], [[k, v] for k, v in values.items()], caption=name, class_="texts"))
        for name, values in blocks
        if values
    ]
    if study_text:
        parts.append(details("Study file", element("pre", element("code", study_text), tabindex="0")))
    return element("section", element("h2", "Settings, versions, timing"), *parts, id="settings")
