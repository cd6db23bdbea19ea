"""What one setting says about another, and about the data: everything that can be found before computing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bvsi.app.study import objects
from bvsi.app.study.build import coefficient_names, refine_options_of
from bvsi.app.study.complaints import nearest
from bvsi.app.study.errors import Place, StudyProblem
from bvsi.app.study.faults import attempt, misplaced
from bvsi.app.study.operator_checks import form_faults, library_faults, vocabulary
from bvsi.app.study.posterior_checks import closed_form, informative, posterior_faults, quantity_faults
from bvsi.app.study.settings import (
    DataSettings,
    DiscretisationSettings,
    LibrarySettings,
    NoiseSettings,
    SelectionSettings,
)
from bvsi.app.study.toml import Study
from bvsi.app.units import coefficient_units
from bvsi.common.naming import AXIS_NAMES
from bvsi.data import Data, as_experiments
from bvsi.data._arrays import check_field_name
from bvsi.errors import BvsiError, DataError, OperatorError
from bvsi.operators import Library, Vocabulary

_MANY = 100
"""Files of a folder among which a near name is looked for."""


def validate(study: Study, data: Data | Sequence[Data] | None = None) -> None:
    """Refuse, with one StudyError for all that is wrong, what would fail later.

    Parameters
    ----------
    data
        The data that the study names, once they are read: their fields, dimension and grid are then checked too. Left
        out, the files have to exist.
    """
    problems = problems_of(study, data)
    if data is None:
        problems += _files(study)
    if problems:
        raise study.error(problems)


def problems_of(study: Study, data: Data | Sequence[Data] | None = None) -> list[StudyProblem]:
    """What is wrong with a study, as far as it can be seen with or without the data."""
    settings = study.settings
    experiments: tuple[Data, ...] = ()
    if data is not None:
        try:
            experiments = as_experiments(data)
        except DataError as error:
            return [StudyProblem(("data",), str(error).removeprefix("data: "))]
    try:
        words = vocabulary(settings.data, settings.library, experiments)
    except OperatorError as error:
        return [*_data(settings.data), StudyProblem(("library", "equations"), str(error))]
    wrong_library = library_faults(settings.library, words)
    fields = words.fields if experiments else (settings.data.measured or ())
    problems = [
        *_data(settings.data),
        *_output(study),
        *wrong_library,
        *_noise(settings.noise, fields, experiments[0].geometry.names if experiments else AXIS_NAMES),
        *_replicates(settings.data, settings.noise),
        *_discretisation(settings.discretisation, settings.library),
        *_selection(settings.selection, settings.discretisation),
    ]
    if not wrong_library:  # names of operators mean something
        library = objects.library(settings.library)
        names = coefficient_names(study)
        problems += posterior_faults(settings.posterior, names)
        problems += quantity_faults(settings.quantity, tuple(library.equations), names)
        problems += _prior_units(study, library, experiments)
        if settings.data.units is not None:
            problems += attempt(("data", "units"), coefficient_units, library, settings.data.units)
        problems += [] if problems or not experiments else _forms(study, library, words)
        if study.settings.refine.wanted and experiments and not problems:
            problems += refine_faults(study, library, experiments)
    return problems


def refine_faults(study: Study, library: Library, experiments: Sequence[Data]) -> Iterator[StudyProblem]:
    """What fits by forward solves cannot do with these data, before anything is computed."""
    from bvsi.discovery.refining import check_refine

    try:
        check_refine(experiments, library, **refine_options_of(study))
    except BvsiError as error:
        told = " ".join(str(error).split()).removeprefix("refine: ")
        yield StudyProblem(("refine",), told)


def _forms(study: Study, library: Library, words: Vocabulary) -> Iterator[StudyProblem]:
    return form_faults(library, study.settings.library, words, study.settings.discretisation)


def _data(settings: DataSettings) -> Iterator[StudyProblem]:
    if (settings.file is None) == (settings.files is None):
        yield StudyProblem(("data",), 'one of file = "run.nc" and files = ["a.nc", "b.nc"] is needed.')
    if settings.files is not None and not settings.files:
        yield StudyProblem(("data", "files"), "no file is listed; name at least one.")
    for key in ("file", "files", "mesh"):
        value = getattr(settings, key)
        for name in (value,) if isinstance(value, str) else value or ():
            if not name.isprintable():
                yield StudyProblem(("data", key), f"{name!r} is not a path; remove the control characters.")
    for key in ("fields", "replicates", "auxiliary"):
        for name in getattr(settings, key) or ():
            yield from attempt(("data", key), partial(check_field_name, series=True), name)  # data refuse x, y, z
    both = sorted(set(settings.measured or ()) & set(settings.auxiliary or ()))
    if both:
        yield StudyProblem(("data", "auxiliary"), f"{both[0]!r} is listed in fields as well; keep one of them.")
    n = len(settings.files or ("file",))
    for name, values in settings.known.items():
        yield from attempt(("data", "known", name), partial(check_field_name, series=True), name)
        if len(values) != n:
            yield StudyProblem(("data", "known", name), f"{len(values)} numbers for {n} experiments; give one each.")


def _files(study: Study) -> Iterator[StudyProblem]:
    """Data files and mesh that do not exist, with the nearest name."""
    data = study.settings.data
    names: list[tuple[Place, str | None]] = [(("data", "file"), data.file), (("data", "mesh"), data.mesh)]
    names += [(("data", "files", number), name) for number, name in enumerate(data.files or ())]
    names.append((("refine", "on"), study.settings.refine.on))
    for place, name in names:
        if name is None or not name.isprintable():
            continue
        path = study.folder / name
        if not _exists(path):
            near = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
            hint = nearest(path.name, near) if 0 < len(near) <= _MANY else "correct the path."
            yield StudyProblem(place, f"there is no file {str(path)!r}; {hint}")


def _exists(path: Path) -> bool:
    """Whether there is such a file or folder, or one that fits the pattern."""
    try:
        return path.exists() or any(path.parent.glob(path.name))
    except (OSError, ValueError):  # names that are too long, or no pattern
        return False


def _output(study: Study) -> Iterator[StudyProblem]:
    """The folder of the results has to be one of its own."""
    name = study.settings.output.folder
    if not name.isprintable():
        yield StudyProblem(("output", "folder"), f"{name!r} is not a path; remove the control characters.")
        return
    here = study.folder.absolute()
    folder = Path(*_parts(here / name))
    if folder == Path(*_parts(here)) or folder in Path(*_parts(here)).parents:
        yield StudyProblem(("output", "folder"), f"{name!r} holds the study itself; name a folder of its own.")
    elif not folder.is_relative_to(Path(*_parts(here))):
        yield StudyProblem(
            ("output", "folder"), f"{name!r} lies outside the study's folder; give it with --out instead."
        )
    elif not _may_be_folder(folder):
        yield StudyProblem(
            ("output", "folder"), f"{name!r} cannot be a folder; a file has that name, or the name is too long."
        )


def _may_be_folder(path: Path) -> bool:
    """Whether there is a folder of this name, or could be one."""
    try:
        return next(place for place in (path, *path.parents) if place.exists()).is_dir()
    except OSError:  # names that are too long, loops of links
        return False


def _parts(path: Path) -> list[str]:
    """The parts of an absolute path, ``..`` carried out."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            del parts[max(1, len(parts) - 1) :]
        else:
            parts.append(part)
    return parts


def _noise(settings: NoiseSettings, fields: Sequence[str], axes: Sequence[str]) -> Iterator[StudyProblem]:
    """Levels of fields that do not exist, or lack one, and axes that do not exist.

    Parameters
    ----------
    fields
        Empty where they are not known yet.
    axes
        All that there can be where they are not known yet.
    """
    for axis in settings.blur or ():
        if axis not in (known := (*axes, "time")):
            yield StudyProblem(("noise", "blur", axis), f"the data have no axis {axis!r}; {nearest(axis, known)}")
    if settings.unknown and isinstance(settings.sigma, float):
        yield StudyProblem(("noise", "unknown"), "sigma states the level, and unknown asks for it; remove one of them.")
    if not isinstance(settings.sigma, dict) or not fields:
        return
    for field in settings.sigma:
        if field not in fields:
            yield StudyProblem(("noise", "sigma", field), f"the data have no field {field!r}; {nearest(field, fields)}")
    missing = [field for field in fields if field not in settings.sigma]
    if missing:
        yield StudyProblem(("noise", "sigma"), f"the field {missing[0]!r} has none; add it.")


def _replicates(data: DataSettings, noise: NoiseSettings) -> Iterator[StudyProblem]:
    """Measurements of one quantity beside other fields, of different numbers, or with another noise."""
    stated = [key for key in ("sigma", "unknown", "gain", "relative", "blur") if getattr(noise, key)]
    if not data.replicates:
        if noise.counts:
            told = "this is for data.replicates; for counts without them set gain = 1, or leave both out."
            yield StudyProblem(("noise", "counts"), told)
        return
    if data.fields is not None:
        yield StudyProblem(("data", "replicates"), "it takes the place of fields; remove one of them.")
    if len({len(names) for names in data.replicates.values()}) > 1 or any(
        len(set(names)) < max(2, len(names)) for names in data.replicates.values()
    ):
        yield StudyProblem(
            ("data", "replicates"), "every field needs the same number of different measurements, two at least."
        )
    for key in stated:
        yield StudyProblem(("noise", key), "data.replicates take the noise from their scatter; remove one of them.")


def _discretisation(settings: DiscretisationSettings, library: LibrarySettings) -> Iterator[StudyProblem]:
    section = "discretisation"
    splines, elements = settings.tests == "splines", settings.tests == "elements"
    temporal = settings.stencil == "temporal-tests"
    yield from misplaced(section, settings, ("gap", "degree"), splines, 'set tests = "splines", or remove it.')
    yield from misplaced(section, settings, ("element",), elements, 'set tests = "elements", or remove it.')
    keys = ("time_gap", "time_degree")
    yield from misplaced(section, settings, keys, temporal, 'set stencil = "temporal-tests", or remove it.')
    for axis in settings.gap if isinstance(settings.gap, dict) else ():
        if axis not in AXIS_NAMES:
            yield StudyProblem((section, "gap", axis), f"the axes are x, y and z, or r, phi, theta, not {axis!r}.")
    if library.time_order != 1 and settings.stencil not in (None, "temporal-tests"):
        message = 'differences have first time derivatives only; use "temporal-tests", or library.time_order = 1.'
        yield StudyProblem((section, "stencil"), message)


def _selection(settings: SelectionSettings, discretisation: DiscretisationSettings) -> Iterator[StudyProblem]:
    section, method = "selection", settings.method
    remedy = 'set method = "sweep" or "backward", or remove it.'
    yield from misplaced(section, settings, ("criterion", "patience"), method in ("sweep", "backward"), remedy)
    remedy = 'set method = "sweep" or "best-subset", or remove it.'
    yield from misplaced(section, settings, ("rounds",), method in ("sweep", "best-subset"), remedy)
    remedy = 'set criterion = "f-statistic", or remove it.'
    yield from misplaced(section, settings, ("threshold",), settings.criterion == "f-statistic", remedy)
    if method == "sweep" and settings.criterion not in (None, "wald", "profile-bic"):
        yield StudyProblem(
            (section, "criterion"), 'sweep takes "wald" or "profile-bic"; use them, or method = "backward".'
        )
    if method == "best-subset" and discretisation.weighting == "block":
        yield StudyProblem((section, "method"), 'best-subset needs weighting = "stacked"; change it, or use "sweep".')


def _prior_units(study: Study, library: Library, experiments: Sequence[Data]) -> Iterator[StudyProblem]:
    """Informative priors with closed forms, where the level of the noise is left to the fit.

    So it is where it is unknown, and where it is measured for elements.
    """
    settings = study.settings
    if not closed_form(settings.posterior) or not informative(settings.posterior):
        return
    if settings.noise.unknown or (settings.noise.sigma is None and _on_elements(study, library, experiments)):
        message = 'priors need a noise of known level here: state noise.sigma, or use "maximum", "svgd" or "nuts".'
        yield StudyProblem(("posterior", "estimator"), message)


def _on_elements(study: Study, library: Library, experiments: Sequence[Data]) -> bool:
    from bvsi.discovery.method import spline_obstacle_of

    chosen = study.settings.discretisation
    if chosen.tests is not None:
        return chosen.tests == "elements"
    if chosen.stencil not in (None, "temporal-tests") or chosen.weighting == "block":
        return True
    return bool(experiments and spline_obstacle_of(experiments, library))
