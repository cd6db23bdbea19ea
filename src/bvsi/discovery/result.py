"""The result of a discovery: equation, posterior, path, diagnostics; printable, and kept in one NetCDF file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvsi.check import Check, Verdict
from bvsi.common.naming import position, without_equation
from bvsi.discovery.frames import Frames
from bvsi.discovery.functions import FoundFunction
from bvsi.discovery.method import Method
from bvsi.errors import BvsiError
from bvsi.infer import Reason, Status
from bvsi.infer.fit import misfit_excess
from bvsi.infer.posteriors import Posterior
from bvsi.operators import Vocabulary
from bvsi.predict import potential_map, predict_function, predict_linear
from bvsi.select import SelectionPath
from bvsi.spaces import Galerkin, SplineTests

if TYPE_CHECKING:
    import xarray as xr

    from bvsi.app.plot.accessor import DiscoveryPlots
    from bvsi.data import Data, Grid, Mesh
    from bvsi.discovery.refined import Refined
    from bvsi.operators import Library
    from bvsi.predict.mixture import Mixture
    from bvsi.predict.push import Forecast

Array = NDArray[np.float64]

# Lines of a printed discovery, unless it has more equations than that.
_LINES = 10
# Half width of a 95% interval in standard deviations.
_HALF_WIDTH = 1.96
# Values outside these powers of ten are written with one.
_SMALL, _LARGE = -4, 5
# Probability of structures that texts show.
_PROBABLE = 0.01
# Factors by which the prior of the coefficients is made wider and narrower, to show what it does.
INFLUENCE = (0.25, 4.0)


@dataclass(frozen=True, eq=False)
class Discovery:
    """What was found.

    Attributes
    ----------
    fields
        Fields with an equation.
    candidates
        All operators that were considered.
    posterior
        Posterior of the selected operators.
    chi2
        Misfit per residual over all.
    chi2_blocks
        The same by experiment and block.
    block_rows
        Residuals per block of each experiment.
    status
        Status of the fit.
    score_sd
        Standard deviations from the scores of the blocks, larger than the posterior's where the discretisation fails.
    path
        How the operators were selected.
    settings
        What was asked for, as texts.
    seconds
        How long it took.
    check
        Whether the answer can be trusted, with verdict and advice; None where that was not asked for.
    time_order
        Time order of the time derivative on the left side.
    frames
        Pictures of data, fit and residuals, made with the check.
    forecast
        The equation simulated and compared with frames that were held out, see :func:`bvsi.forecast`.
    method
        Test functions, weights, selection and estimator that were used; None where a file does not say it.
    left
        Texts of left sides that are not the time derivative alone, by field.
    parameters
        Those of ``names`` that are numbers inside operators, not coefficients.
    open_parameters
        What the data leave open of them, in words.
    words
        Names of coordinates and fields; None where a file does not say it.
    texts
        Selected operators by name, in fields, coordinates and parameters: :attr:`bvsi.Library.texts`.
    functions
        Unknown functions inside operators, see :meth:`function`.
    no_simulation
        Why the equation could not be simulated for a forecast; empty where it could, or was not asked for.
    refined
        The equation and its rivals by forward solves, see :meth:`refine`.
    units
        Units of ``names`` as texts, such as ``mm²/h``, where those of fields and coordinates were given.
    data_units
        Units of fields, coordinates and ``t``, as they were given; figures have them on their axes.
    """

    fields: tuple[str, ...]
    candidates: tuple[str, ...]
    posterior: Posterior
    chi2: float
    chi2_blocks: tuple[Array, ...]
    block_rows: tuple[int, ...]
    score_sd: Array
    status: Status
    path: SelectionPath
    settings: Mapping[str, str]
    seconds: float
    check: Check | None = None
    time_order: int = 1
    frames: Frames | None = None
    forecast: Forecast | None = None
    method: Method | None = None
    no_simulation: str = ""
    refined: Refined | None = None
    left: Mapping[str, str] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()
    open_parameters: tuple[str, ...] = ()
    words: Vocabulary | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[FoundFunction, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    data_units: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Selected operators, and the parameters inside them."""
        return self.posterior.names

    @property
    def theta(self) -> Array:
        """Posterior mean (d,)."""
        return self.posterior.mean

    @property
    def sd(self) -> Array:
        """Posterior standard deviations (d,)."""
        return np.sqrt(self.posterior.variance)

    @property
    def equation(self) -> str:
        """``u_t = 0.0998(4) laplacian(u) − …``, one line per field."""
        chosen = [i for i in self.shown if self.names[i] not in self.parameters]
        names = [*self.function_operators, *(self.names[i] for i in chosen)]
        without = len(names) - len(chosen)  # an unknown function stands for the coefficient
        numbers = np.column_stack([self.theta, self.sd, self.posterior.interval()])[chosen]
        numbers = np.pad(numbers, ((without, 0), (0, 0)), constant_values=np.nan)
        theta, sd, ends = numbers[:, 0], numbers[:, 1], numbers[:, 2:]
        text = equation_text(names, theta, sd, self.fields, self.time_order, self.left, ends, self.units)
        units = {without_equation(name): unit for name, unit in self.units.items() if name in self.parameters}
        inside = [f"{name} = {_in_line(*pair)} {units.get(name, '')}".rstrip() for name, pair in self.inside.items()]
        return "\n".join([text, *inside, *self.function_texts])

    @property
    def shown(self) -> tuple[int, ...]:
        """Positions of the coefficients that are not those of an unknown function."""
        labels = {label for f in self.functions if not f.constant for label in f.function.labels(f.name)}
        return tuple(i for i, name in enumerate(self.names) if without_equation(name) not in labels)

    @property
    def function_operators(self) -> tuple[str, ...]:
        """Operators with an unknown function that varies; they have no coefficient."""
        return tuple(name for f in self.functions if not f.constant for name in f.operators)

    def function(self, name: str, points: Mapping[str, ArrayLike] | None = None, *, level: float = 0.95) -> xr.Dataset:
        """An unknown function with its credible band.

        Parameters
        ----------
        points
            Values of its variables; by default over all that the data visited.
        """
        import xarray as xr

        known = {f.name: f for f in self.functions}
        if name not in known:
            raise BvsiError(
                f"function: {name!r} is not among the unknown functions: {', '.join(known) or 'there is none'}."
            )
        f = known[name]
        axes = (
            f.function.axes()
            if points is None
            else {v: np.atleast_1d(np.asarray(points[v], float)) for v in f.function.of}
        )
        mesh = np.stack(np.meshgrid(*axes.values(), indexing="ij"), axis=-1)
        Phi = np.zeros((mesh[..., 0].size, len(self.names)))
        if f.constant:
            Phi[:, [self.names.index(o) for o in f.operators if o in self.names][:1]] = 1.0
        else:
            Phi[:, f.members(self.names)] = f.function.design(mesh.reshape(-1, len(axes)))
        labelled = xr.DataArray(
            Phi.reshape(*mesh.shape[:-1], -1), dims=(*axes, "operator"), coords={**axes, "operator": list(self.names)}
        )
        band = predict_linear(self.posterior, labelled, level=level)
        if not f.steps:
            return band
        beyond = f.beyond(mesh.reshape(-1, len(axes))).reshape(mesh.shape[:-1])
        factor = np.sqrt(1 + beyond / band["variance"])
        ends = {side: band["mean"] + factor * (band[side] - band["mean"]) for side in ("lower", "upper")}
        return band.assign({"variance": band["variance"] + beyond, **ends})

    @property
    def function_texts(self) -> tuple[str, ...]:
        """A line for each unknown function: between which values it is, or that it is constant."""
        return tuple(map(self._function_text, self.functions))

    def _function_text(self, f: FoundFunction) -> str:
        if f.constant:
            return f"{f.name} is constant: the coefficient of {' and '.join(f.operators)}"
        band = self.function(f.name)
        mean, sd = band["mean"].values.ravel(), np.sqrt(band["variance"].values.ravel())
        low, high = (with_uncertainty(float(mean[i]), float(sd[i])) for i in (mean.argmin(), mean.argmax()))
        return f"{f.name}({', '.join(f.function.of)}) between {low} and {high}"

    @property
    def inside(self) -> dict[str, tuple[float, float]]:
        """Parameters inside operators, mean and standard deviation by name."""
        rows = zip(self.names, self.theta.tolist(), self.sd.tolist(), strict=True)
        return {without_equation(name): (value, sd) for name, value, sd in rows if name in self.parameters}

    def coefficient(self, name: str) -> float:
        """Coefficient by name; zero for a candidate that was not selected."""
        wanted = self.candidates[position(name, self.candidates)]
        return float(self.theta[self.names.index(wanted)]) if wanted in self.names else 0.0

    def predict(
        self,
        quantity: str | xr.DataArray | Callable[[dict[str, float]], xr.DataArray],
        *,
        axes: Mapping[str, tuple[float, float, int]] | None = None,
        level: float = 0.95,
        size: int = 1000,
        rng: np.random.Generator | None = None,
        averaged: bool = False,
    ) -> xr.Dataset:
        """Mean, variance and credible band of a quantity that follows from the coefficients.

        Parameters
        ----------
        quantity
            A text of coefficients, operators in brackets, such as ``"1/[laplacian(u)]"``; a linear map with a dimension
            ``operator`` (exact); or a function of the coefficients by name. Where it is not linear, ``size`` draws are
            taken with ``rng``, by default seed 0.
        axes
            Variables of a text: first value, last value, number.
        averaged
            Over all :meth:`structures`, or those of forward solves where there are any, with the variances of
            ``statistics`` and of ``structure`` apart; else of the selected equation alone.
        """
        draws = rng if rng is not None else np.random.default_rng(0)
        if isinstance(quantity, str):
            from bvsi.app.study.prediction import predict_text

            return predict_text(self, quantity, axes or {}, level=level, size=size, rng=draws, averaged=averaged)
        if averaged:
            mixture = self.structures() if self.refined is None else self.refined.mixture()
            return mixture.predict(quantity, level=level, size=size, rng=draws)
        if callable(quantity):
            return predict_function(self.posterior, quantity, size=size, rng=draws, level=level)
        return predict_linear(self.posterior, quantity, level=level)

    def potential(self, axes: Mapping[str, ArrayLike], *, level: float = 0.95, averaged: bool = False) -> xr.Dataset:
        """The potential ψ of the drift operators ``div(p*grad(φ))`` on a grid, with mean zero over its points."""
        names = self.candidates if averaged else self.names
        return self.predict(potential_map(names, axes), level=level, averaged=averaged)

    @property
    def verdict(self) -> str:
        """``consistent``, or what is wrong: see :class:`bvsi.check.Verdict`."""
        return "not checked" if self.check is None else str(self.check.verdict)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the answer may be wrong where the check finds nothing.

        A poor fit, coefficients that may be zero, rivals, a forecast that fails.
        """
        found = []
        if not self.status.converged or Reason.SWAMPED in self.status.reasons:
            found.append(self.status.message)
        ends = self.posterior.interval()
        intervals = [(self.names[i], *ends[i]) for i in self.shown if self.names[i] not in self.parameters]
        told = [f"{name} between {low:.3g} and {high:.3g}" for name, low, high in intervals if low < 0 < high]
        found += [f"The data do not determine whether these are in the equation: {', '.join(told)}."] if told else []
        if not self.path.decided:
            found.append(self.path.doubts)
        if self.forecast is not None and self.forecast.failing:
            found.append(self.forecast.status)
        if self.no_simulation:
            found.append(f"No forecast could be made. {self.no_simulation}")
        return (*found, *self.open_parameters, *(() if self.refined is None else self.refined.doubts))

    @property
    def advice(self) -> str:
        """What to do; where nothing is wrong with the fit but there are doubts, they come first."""
        if self.check is None:
            return "The answer was not checked: use discover(..., check=True) to see whether it can be trusted."
        if self.check.verdict is Verdict.CONSISTENT and self.doubts:
            return "The equation explains the data, but the doubts say why it may not be the right one."
        return self.check.advice

    def refine(self, data: Data | Sequence[Data], library: Library, **options: Any) -> Discovery:
        """The same with ``refined``: the equation and its rivals fitted to the measurements by forward solves.

        Parameters
        ----------
        data, library
            As given to ``discover``.
        options
            See :func:`bvsi.discovery.refining.refine`.
        """
        from bvsi.discovery.refining import refine

        return replace(self, refined=refine(data, library, self, **options))

    def structures(self, wider: float = 1.0, odds: float | None = None) -> Mixture:
        """Equations that the selection compared, with posteriors and probabilities, the most probable first.

        Parameters
        ----------
        wider
            Factor on the standard deviations of the prior of the coefficients, which by default says as much as one
            residual does.
        odds
            Of each operator beforehand; by default 1/d among d candidates.
        """
        from bvsi.discovery.structures import structures_of

        return structures_of(self, wider, odds)

    def inclusion(self, wider: float = 1.0, odds: float | None = None) -> dict[str, float]:
        """P(in) by operator: the probability of the equations that have it, see :meth:`structures`.

        That of parameters and unknown functions is that of the operators in which they stand.
        """
        from bvsi.discovery.structures import inside_of

        found = self.structures(wider, odds).inclusion()
        for name, there in inside_of(self).items():
            found[name] = max((found[o] for o in there), default=1.0)
        weights = self.path.inclusion()
        for f in self.functions:
            own = max((weights.get(o, 1.0) for o in f.operators), default=1.0)
            found |= {name: own for name in self.names if without_equation(name) in f.labels}
            found |= dict.fromkeys(f.operators, own)
        return found

    @property
    def residuals(self) -> int:
        """How many there are."""
        return sum(len(blocks) * rows for blocks, rows in zip(self.chi2_blocks, self.block_rows, strict=True))

    def structure_chances(self) -> dict[tuple[str, ...], tuple[float, ...]]:
        """Probabilities of equations that are not improbable, as they are and with narrower and wider priors."""
        wide = [self.structures(factor) for factor in (1.0, *INFLUENCE)]
        chances = [dict(zip(map(frozenset, m.names), m.probabilities.tolist(), strict=True)) for m in wide]
        every = {own: tuple(p[frozenset(own)] for p in chances) for own in wide[0].names}
        return {own: ps for own, ps in every.items() if max(ps) > _PROBABLE}

    @property
    def structures_text(self) -> str:
        """The same as a table; empty for one alone."""
        chances = self.structure_chances()
        rows = [f"{'P':>6}  {'prior × 1/4':>11}  {'× 4':>6}  structure"]
        for own, (p, narrow, broad) in chances.items():
            rows.append(f"{p:>6.3f}  {narrow:>11.3f}  {broad:>6.3f}  {' + '.join(own) or 'nothing changes'}")
        return "\n".join(rows) if len(chances) > 1 else ""

    @property
    def table(self) -> str:
        """Coefficients with standard deviation, 95% interval and probability of being in the equation."""
        if not self.shown:
            return "\n".join(self.function_texts)
        width = max(len(self.names[i]) for i in self.shown)
        inclusion, ends = self.inclusion(), self.posterior.interval()
        rows = [f"{'operator':<{width}}  {'coefficient':>12}  {'sd':>9}  {'95% interval':>25}  {'P(in)':>6}"]
        rows[0] += "  unit" if self.units else ""
        for i in self.shown:
            name, value, sd, (low, high) = self.names[i], self.theta[i], self.sd[i], ends[i]
            interval = f"[{low:.6g}, {high:.6g}]"
            row = f"{name:<{width}}  {value:>12.6g}  {sd:>9.2g}  {interval:>25}  {inclusion[name]:>6.3f}"
            rows.append(f"{row}  {self.units.get(name, '')}".rstrip())
        return "\n".join([*rows, *self.function_texts])

    @property
    def diagnostics(self) -> str:
        """χ²/n, the frames that fit worst, and how the fit ended."""
        status = self.status
        told = self.check is not None and status.reasons == {Reason.MISFIT}  # of which the check says more
        ended = f"converged (iterations: {status.iterations})." if told and status.converged else status.message
        lines = [f"χ²/n = {self.chi2:.4g}; {ended}"]
        if self.check is None and misfit_excess(self.chi2, self.residuals):
            lines.append(
                "the misfit is more than the noise explains: the discretisation is too coarse, the noise larger than "
                "stated, or an operator is missing."
            )
        # with stacked weighting the misfit is not a sum of squares of blocks; there the check looks at it in time
        by_block = () if self._coupled else self.chi2_blocks
        for number, (blocks, rows) in enumerate(zip(by_block, self.block_rows, strict=False)):
            worst = int(np.argmax(blocks))
            # the largest of K averages of N squared normal numbers, with room for what the fit takes up
            bound = 1 + (3 + np.sqrt(2 * np.log(len(blocks)))) * np.sqrt(2 / rows)
            if blocks[worst] > bound * max(self.chi2, 1.0):
                where = f"experiment {number}, block {worst}"
                lines.append(f"worst: {where} with χ²/n = {blocks[worst]:.3g}; is it resolved in space and time?")
        wide = [name for name, s, m in zip(self.names, self.score_sd, self.sd, strict=True) if s > 3 * m]
        if wide and self.check is None:  # the check looks at the same thing in better ways
            lines.append(
                f"the frames disagree more than the noise explains on {', '.join(wide)}: the discretisation is too "
                "coarse or an operator is missing, and the error bars are too small."
            )
        lines += [self.path.doubts] if self.path.doubts else []
        return "\n".join([*lines, *self._unusual])

    @property
    def _unusual(self) -> list[str]:
        """How test functions were chosen, where they are elements or derivatives of the data were needed."""
        tests = None if self.method is None else self.method.tests
        told = isinstance(tests, Galerkin) or (isinstance(tests, SplineTests) and tests.reach is not None)
        return [self.settings["reason"]] if told and "reason" in self.settings else []

    def to_datatree(self, *, size: int = 2000, rng: np.random.Generator | None = None) -> xr.DataTree:
        """Draws of the coefficients with labels; see :func:`bvsi.app.posterior_storage.to_datatree`."""
        from bvsi.app.posterior_storage import to_datatree

        return to_datatree(self.posterior, size=size, rng=rng)

    def to_arviz(
        self, data: Data | Sequence[Data] | None = None, library: Library | None = None, **options: Any
    ) -> Any:
        """Draws of the coefficients as the installed ArviZ takes them: :func:`bvsi.app.posterior_storage.to_arviz`.

        With the data and the library of the discovery also the groups that ``loo``, ``compare`` and ``plot_ppc`` need:
        :func:`bvsi.app.predictive.predictive_groups`.
        """
        if data is None or library is None:
            from bvsi.app.posterior_storage import to_arviz

            return to_arviz(self.posterior, **options)
        from bvsi.app import predictive

        return predictive.to_arviz(self, data, library, **options)

    def to_sympy(self, **options: Any) -> Any:
        """The equations for SymPy, one per field: :func:`bvsi.app.exports.to_sympy`."""
        from bvsi.app import exports

        return exports.to_sympy(self, **options)

    def to_latex(self) -> str:
        """The equation as LaTeX, with error bars."""
        from bvsi.app.report import equation_latex

        return equation_latex(self)

    def to_numpy(self, grid: Grid | Mesh | None = None, **options: Any) -> Callable[..., Any]:
        """The right-hand side as a function of time, state and coefficients: :func:`bvsi.app.exports.to_numpy`."""
        from bvsi.app import exports

        return exports.to_numpy(self, grid, **options)

    def to_jax(self, grid: Grid | Mesh | None = None, **options: Any) -> Callable[..., Any]:
        """The same for JAX: :func:`bvsi.app.exports.to_jax`."""
        from bvsi.app import exports

        return exports.to_jax(self, grid, **options)

    def to_pypde(self, **options: Any) -> Any:
        """A ``pde.PDE`` of py-pde: :func:`bvsi.app.exports.to_pypde`."""
        from bvsi.app import exports

        return exports.to_pypde(self, **options)

    def to_ufl(self, fields: Mapping[str, Any], tests: Mapping[str, Any], **options: Any) -> Any:
        """The right-hand side as a form of UFL, for FEniCS and Firedrake: :func:`bvsi.app.exports.to_ufl`."""
        from bvsi.app import exports

        return exports.to_ufl(self, fields, tests, **options)

    def to_dedalus(self, **options: Any) -> str:
        """A Python function for Dedalus: :func:`bvsi.app.exports.to_dedalus`."""
        from bvsi.app import exports

        return exports.to_dedalus(self, **options)

    def to_modelingtoolkit(self, **options: Any) -> str:
        """Julia for ModelingToolkit: :func:`bvsi.app.exports.to_modelingtoolkit`."""
        from bvsi.app import exports

        return exports.to_modelingtoolkit(self, **options)

    def to_dataframe(self, **options: Any) -> Any:
        """Coefficients, or draws of them, for pandas: :func:`bvsi.app.exports.to_dataframe`."""
        from bvsi.app import exports

        return exports.to_dataframe(self, **options)

    def save(self, path: str | Path) -> None:
        """Write to a NetCDF file; an earlier file is replaced only when the new one is whole."""
        from bvsi.app.storage import save

        save(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Discovery:
        """Read a file written by :meth:`save`."""
        from bvsi.app.storage import load

        return load(Path(path))

    @property
    def plot(self) -> DiscoveryPlots:
        """Figures: ``found.plot.coefficients()``, ``path``, ``covariance``, ``pairs``, ``frames``, ``forecast``."""
        from bvsi.app.plot.accessor import DiscoveryPlots

        return DiscoveryPlots(self)

    def report(self, path: str | Path, *, title: str = "") -> Path:
        """Write the report, one HTML file that needs no network; returns its path."""
        from bvsi.app.files import write_whole
        from bvsi.app.report import html_report

        page = Path(path)
        write_whole(page, html_report(self, title=title or page.stem))
        return page

    def _repr_html_(self) -> str:
        from bvsi.app.report import notebook_html

        return notebook_html(self)

    def __repr__(self) -> str:
        return f"Discovery: {self.equation}; verdict: {self.verdict}"

    def __str__(self) -> str:
        """Equation, verdict with its reason, what to do; the rest is :attr:`details`."""
        lines = self.equation.splitlines()
        if self.check is None:
            lines.append(f"verdict: not checked; χ²/n = {self.chi2:.3g}. {self.status.message}")
        else:
            reason = f", because {self.check.reasons[0]}" if self.check.reasons else ""
            lines.append(f"verdict: {self.verdict} (χ²/n = {self.chi2:.3g}){reason}.")
        doubts, most = self.doubts, max(1, _LINES - len(lines) - 2 - (self.refined is not None))
        lines += [f"doubt: {doubt}" for doubt in doubts[:most]]
        lines += [f"and {len(doubts) - most} more doubts: found.doubts"] if len(doubts) > most else []
        lines += [] if self.refined is None else [f"by forward solves: {self.refined.equation}"]
        lines.append(f"advice: {self.advice}")
        return "\n".join(lines)

    @property
    def details(self) -> str:
        """All in words: equation, verdict, doubts, coefficients, diagnostics, method as it is given, check, path."""
        judged = [] if self.check is None else [f"verdict: {self.verdict}. {self.advice}"]
        judged += [f"doubt: {doubt}" for doubt in self.doubts]
        refined = [] if self.refined is None else [str(self.refined)]
        method = "" if self.method is None else f"method: {self.method!r}"
        texts = [self.equation, *judged, *refined, self.table, self.structures_text, self.diagnostics, method]
        return "\n\n".join(text for text in (*texts, *self._check_text, str(self.path)) if text)

    @property
    def _coupled(self) -> bool:
        """Whether the weights couple blocks."""
        weighting = None if self.method is None else self.method.weighting
        return weighting is not None and weighting.couples_blocks

    @property
    def _check_text(self) -> list[str]:
        return [] if self.check is None else [str(self.check)]


def with_uncertainty(value: float, sd: float) -> str:
    """0.0998(4): the value to the digit of its standard deviation, which stands in brackets."""
    if not math.isfinite(sd) or sd <= 0:
        return f"{value:.6g}"
    place = math.floor(math.log10(sd))
    digit = round(sd / 10.0**place)
    if digit == 10:
        place, digit = place + 1, 1
    if place > 0:
        return f"{round(value / 10.0**place) * 10**place:.0f}({digit * 10**place})"
    return f"{value:.{-place}f}({digit})"


def scaled(value: float, sd: float) -> tuple[float, float, int]:
    """Both over a power of ten, and that power: 0 where the larger one is easily read without."""
    size = max(abs(value), sd if math.isfinite(sd) else 0.0)
    power = math.floor(math.log10(size)) if size > 0 else 0
    if _SMALL <= power <= _LARGE:
        return value, sd, 0
    # in two steps: 10 to the power of 320 is not a float
    half = power // 2
    return value / 10.0**half / 10.0 ** (power - half), sd / 10.0**half / 10.0 ** (power - half), power


def _in_line(value: float, sd: float) -> str:
    """0.0998(4), and 3.21(5)e-8 where both are small or large."""
    small, narrow, power = scaled(value, sd)
    return with_uncertainty(small, narrow) + (f"e{power}" if power else "")


def undetermined(low: float, high: float) -> str:
    """``[−400, 900]``, the interval of a coefficient that may be zero; empty for all others."""
    if not low < 0 < high:
        return ""
    return f"[{low:.2g}, {high:.2g}]".replace("-", "−")


def equation_text(
    names: Sequence[str],
    theta: Array,
    sd: Array,
    fields: Sequence[str],
    time_order: int = 1,
    left: Mapping[str, str] | None = None,
    intervals: Array | None = None,
    units: Mapping[str, str] | None = None,
) -> str:
    """One line per equation: ``u_t = 0.0998(4) laplacian(u) − 1.002(6) u*dx(u)``; ``u_tt`` of second order in time.

    A coefficient whose 95% interval contains zero is ``undetermined[−400, 900]``; without intervals (d, 2) they are
    those of normal laws. With units it is ``u_t = 0.0998(4) mm²/h laplacian(u)``. A coefficient that is not a number is
    left out, as of an operator with an unknown function.
    """
    lines, written, measures = [], left or {}, units or {}
    normal = np.stack([theta - _HALF_WIDTH * sd, theta + _HALF_WIDTH * sd], axis=1)
    ends = dict(zip(names, normal if intervals is None else intervals, strict=True))
    for one in fields:
        prefix = "" if len(fields) == 1 else f"{one}: "
        terms = []
        for name, value, s in zip(names, theta, sd, strict=True):
            if name.startswith(prefix):
                range_ = undetermined(*ends[name])
                sign, number = "−" if value < 0 and not range_ else "+", ""
                if not math.isnan(value):
                    number = f"undetermined{range_}" if range_ else _in_line(abs(value), s)
                    number = f"{number} {measures.get(name, '')}".rstrip() + " "
                operator = name.removeprefix(prefix)
                terms.append(f"{sign} {number}".rstrip() if operator == "1" else f"{sign} {number}{operator}")
        right = " ".join(terms).removeprefix("+ ") or "0"
        lines.append(f"{written.get(one) or f'{one}_' + 't' * time_order} = {right}")
    return "\n".join(lines)
