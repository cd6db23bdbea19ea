"""Posterior predictive quantities (sec:posterior_predictive).

linear    q = Φ θ:  mean Φ E[θ], variance diag(Φ Cov Φᵀ), exact Gaussian or Student-t bands
any       q = f(θ):  moments and quantiles of f over posterior draws

Potentials behind operators, as linear maps from coefficients to values on a grid.

    ψ(x) = Σ_i θ_i φ_i(x)  of operators div(p*grad(φ_i)),        ζ(u) = Σ_i θ_i f_i(u)  of operators laplacian(f_i(u))

Only ∇ψ and ∇ζ enter the equation, so both are known up to a constant: their mean over the given points is zero. For a
free energy Σ η_φ φ the f_φ are ∂φ/∂c, and ζ = m ∂g/∂c (eq:CH_effective_derivatives).

A :class:`Forecast` records how well an equation, fitted to the first frames, forecasts the others.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Rng
from bvsi.common.naming import without_equation
from bvsi.errors import BvsiError
from bvsi.infer.posteriors import Posterior, check_level
from bvsi.operators.syntax import Syntax, read
from bvsi.operators.vocabulary import Vocabulary

if TYPE_CHECKING:
    import xarray as xr
from dataclasses import dataclass

from scipy.special import ndtri, stdtrit

from bvsi.common.arrays import Mask


def predict_linear(posterior: Posterior, Phi: xr.DataArray, *, level: float = 0.95) -> xr.Dataset:
    """Mean, variance and credible band of q = Φ θ.

    Parameters
    ----------
    Phi
        Labelled map whose dimension ``operator`` names the coefficients; the other dimensions are those of q.
    """
    import xarray as xr

    Phi = aligned(Phi, posterior.names)
    mean = xr.dot(Phi, xr.DataArray(posterior.mean, dims="operator"), dim="operator")
    other = [d for d in Phi.dims if d != "operator"]
    flat = Phi.transpose(*other, "operator").values.reshape(-1, len(posterior.names))
    variance = np.einsum("ni,ij,nj->n", flat, posterior.covariance, flat).reshape(mean.shape)
    lower, upper = (mean.copy(data=side.reshape(mean.shape)) for side in posterior.linear_interval(flat, level).T)
    labelled = {"mean": mean, "variance": mean.copy(data=variance), "lower": lower, "upper": upper}
    return xr.Dataset(labelled, attrs={"level": level, "method": "linear"})


def predict_function(
    posterior: Posterior,
    f: Callable[[dict[str, float]], xr.DataArray],
    *,
    size: int = 1000,
    rng: Rng,
    level: float = 0.95,
) -> xr.Dataset:
    """Mean, variance, credible band and samples of q = f(θ) by Monte Carlo.

    Parameters
    ----------
    f
        Takes coefficients by name and returns a labelled array, always of the same shape.
    """
    import xarray as xr

    check_level(level)
    if size < 2:
        raise BvsiError(f"size: at least two draws are needed, got {size}.")
    draws = [f(dict(zip(posterior.names, row.tolist(), strict=True))) for row in posterior.sample(size, rng)]
    samples = xr.concat(draws, dim="draw")
    tail = 0.5 * (1 - level)
    band = samples.quantile([tail, 1 - tail], dim="draw")
    return xr.Dataset(
        {
            "mean": samples.mean("draw"),
            "variance": samples.var("draw", ddof=1),
            "lower": band.isel(quantile=0, drop=True),
            "upper": band.isel(quantile=1, drop=True),
            "samples": samples,
        },
        attrs={"level": level, "method": f"{size} draws"},
    )


def aligned(Phi: xr.DataArray, names: tuple[str, ...]) -> xr.DataArray:
    """The columns of a map for these coefficients, in their order."""
    if "operator" not in Phi.dims or "operator" not in Phi.coords:
        raise BvsiError("Phi: needs a dimension 'operator' whose coordinate names the coefficients.")
    known = Phi["operator"].values.tolist()
    twice = [name for name in known if known.count(name) > 1]
    if twice:
        raise BvsiError(f"Phi: the operator {twice[0]!r} stands twice in the coordinate 'operator'.")
    missing = [name for name in names if name not in known]
    if missing:
        raise BvsiError(f"Phi: has no entry for the operator {missing[0]!r}; give it zeros if it does not enter.")
    return Phi.sel(operator=list(names)).drop_vars("operator")


def potential_map(names: tuple[str, ...], axes: Mapping[str, ArrayLike]) -> xr.DataArray:
    """Φ with Φ_i = φ_i − mean(φ_i) on the grid of ``axes``; zero for operators that are not a drift.

    Parameters
    ----------
    names
        Operators of the model.
    axes
        Coordinates by name, ``{"x": x, "y": y}``.
    """
    points = points_of(axes)
    columns: list[Array | None] = []
    for name in names:
        phi = _drift_potential(read(without_equation(name)), tuple(points))
        columns.append(None if phi is None else evaluate(phi, points, Vocabulary(tuple(points), ())))
    if not any(column is not None and np.ptp(column) > 0 for column in columns):
        raise BvsiError("names: none of the operators has the form div(p*grad(φ)) that comes from a potential.")
    return labelled_map(names, axes, columns)


def _drift_potential(operator: Syntax, coordinates: tuple[str, ...]) -> Syntax | None:
    """φ of ``div(field*grad(φ))`` with φ a function of the coordinates; None for other operators."""
    from bvsi.operators.parse import strong_form

    fields = operator.names - set(coordinates) - {"t"}
    strong_form(operator, Vocabulary(coordinates, tuple(sorted(fields))))  # what is not an operator is refused
    match operator.tree:
        case ast.Call(func=ast.Name(id="div"), args=[ast.BinOp(left=left, op=ast.Mult(), right=right)]):
            for field, gradient in ((left, right), (right, left)):
                match field, gradient:
                    case ast.Name(), ast.Call(func=ast.Name(id="grad"), args=[phi]):
                        inner = operator.part(phi)
                        return inner if inner.names <= set(coordinates) else None
    return None


def diffusion_potential_map(names: tuple[str, ...], equation: str, axes: Mapping[str, ArrayLike]) -> xr.DataArray:
    """Φ with Φ_i = f_i − mean(f_i) on the grid of ``axes``; zero for other operators and other equations.

    Parameters
    ----------
    names
        Operators of the model.
    equation
        Field whose equation is meant.
    axes
        Values of the fields by name, ``{"c1": c1, "c2": c2}``.
    """
    points = points_of(axes)
    words = Vocabulary(("x",), tuple(points))
    columns = []
    for name in names:
        owner, _, text = name.rpartition(": ")
        inner = _under_laplacian(read(text)) if owner in ("", equation) else None
        known = inner is not None and inner.names <= set(points)
        columns.append(evaluate(inner, points, words) if inner is not None and known else None)
    if not any(column is not None for column in columns):
        raise BvsiError(
            f"names: no operator of {equation!r} has the form laplacian(f) with f a function of {', '.join(points)}."
        )
    return labelled_map(names, axes, columns)


def _under_laplacian(operator: Syntax) -> Syntax | None:
    match operator.tree:
        case ast.Call(func=ast.Name(id="laplacian"), args=[inner]):
            return operator.part(inner)
    return None


def points_of(axes: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """The tensor grid of ``axes``: for each name its value at every point."""
    checked = {name: _axis(name, values) for name, values in axes.items()}
    if not checked:
        raise BvsiError("axes: at least one coordinate is needed, such as {'x': x}.")
    return dict(zip(checked, np.meshgrid(*checked.values(), indexing="ij"), strict=True))


def evaluate(syntax: Syntax, points: Mapping[str, Array], words: Vocabulary) -> Array | None:
    """An expression of coordinates or fields of ``words`` at the points; None where it has derivatives."""
    from bvsi.operators.operator import compile_kernel
    from bvsi.operators.parse import strong_form
    from bvsi.operators.strong import evaluate as carried_out

    expression = carried_out(strong_form(syntax, words).form, words)
    values = {words.symbol(name): array for name, array in points.items()}
    if not set(expression.free_symbols) <= set(values):
        return None
    value = compile_kernel((expression,))(values)[0]
    return np.broadcast_to(value, next(iter(points.values())).shape).astype(float)


def labelled_map(names: Sequence[str], axes: Mapping[str, ArrayLike], columns: Sequence[Array | None]) -> xr.DataArray:
    """Φ (operator, *axes) with the mean over the points taken off each column; None is a column of zeros."""
    import xarray as xr

    coordinates = {name: _axis(name, values) for name, values in axes.items()}
    shape = tuple(len(axis) for axis in coordinates.values())
    centred = [np.zeros(shape) if column is None else column - column.mean() for column in columns]
    return xr.DataArray(
        np.stack(centred), dims=("operator", *coordinates), coords={"operator": list(names), **coordinates}
    )


def _axis(name: str, values: ArrayLike) -> Array:
    try:
        axis = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        axis = np.empty(0)
    if axis.ndim != 1 or not axis.size or not np.all(np.isfinite(axis)):
        raise BvsiError(f"axes: {name!r} needs a list of finite coordinates.")
    return axis


LEVEL = 0.95  # of the bands
# Coverage below which bands are too narrow: noise alone makes it vary less, and correlated errors more.
_COVERED = 0.85
# Spread, as part of the size of the data, beyond which a forecast says little.
_LOST = 0.5
# Error, in units of what noise and spread explain, beyond which the forecast is wrong.
_EXCESS = 1.5


class ForecastError(BvsiError):
    """The equation cannot be simulated from these data; the message says why, and what would help."""


class SimulationError(ForecastError):
    """The equation that was found cannot be simulated: a doubt about the equation itself."""


@dataclass(frozen=True, eq=False, repr=False)
class Forecast:
    """Simulations from the first frame with draws of coefficients and initial state, against the data. ::

        error = RMS(mean forecast − data)/RMS(data),      spread = RMS(sd of the forecast)/RMS(data)

    RMS(data) is over all times, so that a field that decays does not make errors look large.

    Attributes
    ----------
    times
        (T,).
    held_out
        (T,), frames that the coefficients were not fitted to.
    error, spread
        (T,); spread comes from coefficients and initial state, without the noise of the data.
    noise
        Standard deviation of the noise of the data, relative as well. A perfect forecast has this error.
    coverage
        (T,), share of the data within the 95% band of forecast and noise.
    draws
        Simulations made.
    failed
        Those of them that broke off.
    status
        What it shows, with advice.
    """

    times: Array
    held_out: Mask
    error: Array
    spread: Array
    noise: float
    coverage: Array
    draws: int
    failed: int
    status: str

    @property
    def expected_error(self) -> Array:
        """√(noise² + spread²), (T,): the error that an honest forecast has."""
        return np.sqrt(self.noise**2 + self.spread**2)

    @property
    def failing(self) -> bool:
        """Whether the bands miss the held-out data, or most simulations broke off."""
        return float(np.mean(self.coverage[self.held_out])) < _COVERED or 2 * self.failed > self.draws

    @property
    def text(self) -> str:
        """A short table in time, and what it shows."""
        rows = [f"{'time':>10}  {'error':>8}  {'expected':>8}  {'spread':>8}  {'in 95% band':>11}"]
        held = np.flatnonzero(self.held_out)
        first = int(held[0]) if len(held) else len(self.times) - 1
        shown = np.unique(
            np.linspace(0, first, 4).astype(int).tolist()
            + np.linspace(first, len(self.times) - 1, 4).astype(int).tolist()
        )
        for k in shown:
            mark = "  held out" if self.held_out[k] else ""
            rows.append(
                f"{self.times[k]:>10.4g}  {self.error[k]:>8.2g}  {self.expected_error[k]:>8.2g}  {self.spread[k]:>8.2g}"
                f"  {self.coverage[k]:>11.0%}{mark}"
            )
        failed = f", {self.failed} of them broke off" if self.failed else ""
        return "\n".join([*rows, f"{self.draws} simulations{failed}. {self.status}"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Forecast: {self.draws} simulations of {len(self.times)} times. {self.status}"


def band_variance(variance: Array, noise: Array, draws: int) -> Array:
    """Variance whose normal 95% band is that of a new value: c (1 + 1/m) s² + σ².

    The mean of m draws has an error of its own, and their variance s² is known by m − 1 degrees of freedom:
    c = (t/z)² for the quantiles of Student's t and of the normal distribution.
    """
    tail = 0.5 * (1 + LEVEL)
    c = (stdtrit(draws - 1, tail) / ndtri(tail)) ** 2
    return np.asarray(c * (1 + 1 / draws) * variance + noise)


def half_width(variance: Array) -> Array:
    """Half of the 95% band of a normal variable."""
    return np.asarray(ndtri(0.5 * (1 + LEVEL)) * np.sqrt(variance))


def forecast_status(
    times: Array, held_out: Mask, error: Array, spread: Array, noise: float, coverage: Array, *, failed: float = 0.0
) -> str:
    """What the numbers show, and what to do.

    Parameters
    ----------
    failed
        Share of the simulations that broke off.
    """
    covered = float(np.mean(coverage[held_out]))
    root = float(np.sqrt(np.mean(np.square(error[held_out]))))
    explained = float(np.sqrt(noise**2 + np.mean(np.square(spread[held_out]))))
    numbers = f"{covered:.0%} of the held-out values lie in the 95% band, and the error is {root:.2g} of the data"
    lost = np.flatnonzero(spread > _LOST)
    if failed > 0.5:
        text = f"Most simulations broke off, so that the equation is hardly stable within its uncertainty; {numbers}."
    elif covered < _COVERED and root > _EXCESS * explained:
        wrong = np.flatnonzero(error > _EXCESS * np.sqrt(noise**2 + spread**2))
        text = (
            f"The forecast is wrong from t = {times[wrong[0] if len(wrong) else 0]:.4g} on: only {numbers}, where "
            f"{explained:.2g} is explained. An operator may be missing, or coefficients are biased; see the verdict."
        )
    elif covered < _COVERED:
        text = f"The bands are too narrow: only {numbers}. Data with less noise, or at more times, would show why."
    elif len(lost):
        text = f"The forecast is honest: {numbers}."
    else:
        text = f"The equation forecasts the held-out frames: {numbers}, where {explained:.2g} is expected."
    if len(lost):
        text += (
            f" From t = {times[lost[0]]:.4g} on it says little, since its uncertainty is more than half the size of "
            "the data: chaos, or coefficients or an initial state that are known too poorly."
        )
    return text
