"""``BvsiRegressor``: discovery as an estimator of scikit-learn, for pipelines, cross-validation and benchmarks. ::

    model = BvsiRegressor({"u": ["u", "v", "u*v"], "v": ["v", "u*v"]}, time="t").fit(table)     # a series, weak form
    model = BvsiRegressor({"u": ["dx(dx(u))", "u*dx(u)"]}, time="t", places=["x"]).fit(table)   # a field, weak form
    model = BvsiRegressor(degree=2).fit(states, rates)                                          # given left sides

A row is what was measured at one time, and at one place where there are places; columns are times, places and fields.
Without y the rows make up one record in time, and the equation is that of :func:`bvsi.discover`: no derivative of the
data is taken. With y the rows are samples of their own, y_k = Σ_i θ_i F_i(row k) + e_k with e white, of an unknown
level; operators are selected by BIC, and noise in the columns is *not* taken into account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bvsi.app.exports.arrays import operator_values
from bvsi.app.exports.system import system_of_library
from bvsi.app.predictive import likelihood_of
from bvsi.common.arrays import Array
from bvsi.data import Data, Grid
from bvsi.data._arrays import check_field_name
from bvsi.discovery import Discovery, discover
from bvsi.discovery.result import equation_text
from bvsi.errors import BvsiError, MissingDependencyError
from bvsi.infer.quadratic import Quadratic
from bvsi.operators import Library, Vocabulary, polynomials
from bvsi.select import ProfileBIC
from bvsi.select.search import Protection, best_models

try:
    from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingDependencyError(
        "BvsiRegressor: scikit-learn is not installed; run: pip install 'bvsi[sklearn]'"
    ) from None

Candidates = Library | Mapping[str, Sequence[str]] | Sequence[str] | None

# Name of the left side where y is one column.
_TARGET = "target"
# Coefficients per row at most: with as many as rows any left side is fitted, and BIC takes that for knowledge.
_MOST = 0.5


class BvsiRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Equations of the columns of a table, with error bars.

    Parameters
    ----------
    candidates
        A library, operators by field, or a list of operators for all equations. Columns without names are called x0,
        x1, …; None takes all monomials of the fields up to ``degree``.
    degree
        Of the monomials.
    time
        Column of the times, a name or a number; needed where y is not given.
    places
        Columns of the places, which are called x, y, z in operators, in this order.
    periodic
        Axes that are periodic, as :class:`bvsi.Grid` takes them.
    keep
        Operators that selection must not remove; those of a library stand in the library.
    options
        Further arguments of :func:`bvsi.discover`, such as ``{"noise": bvsi.IID(0.01)}``.

    Attributes
    ----------
    coef_, sd_
        Coefficients and standard deviations of the candidates, (d,); zero for those that were not selected.
    names_
        Their names.
    equation_
        The equation as a text.
    discovery_
        The result of ``discover``, with its verdict; None where y was given.
    library_
        The candidates.
    """

    discovery_: Discovery | None

    def __init__(
        self,
        candidates: Candidates = None,
        *,
        degree: int = 2,
        time: str | int | None = None,
        places: Sequence[str | int] = (),
        periodic: Any = (),
        keep: Iterable[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.candidates = candidates
        self.degree = degree
        self.time = time
        self.places = places
        self.periodic = periodic
        self.keep = keep
        self.options = options

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.time is None
        return tags

    def fit(self, X: Any, y: Any = None) -> BvsiRegressor:
        """Discover the equation of the rows.

        Parameters
        ----------
        X
            (n, columns), an array or a table of pandas.
        y
            Left sides (n,) or (n, equations), such as measured rates; None for the weak form in time.
        """
        if y is None:
            if self.time is None:
                raise BvsiError(
                    "BvsiRegressor requires y to be passed, but the target y is None; or name the column of times with "
                    "time=..., and no y is needed."
                )
            return self._of_record(validate_data(self, X, dtype=float))
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=float, ensure_min_samples=2)
        return self._of_samples(X, np.asarray(y, dtype=float))

    def predict(self, X: Any) -> Array:
        """Left sides Σ_i θ_i F_i of the rows, (n,) or (n, equations); derivatives are those of the grid of places."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=float)
        columns = self._columns(X)
        sides = [np.tensordot(self.coef_, columns[name], axes=(0, 0)) for name in self.library_.equations]
        return sides[0] if self._single else np.stack(sides, axis=1)

    def score(self, X: Any, y: Any = None) -> float:
        """R²: of ``predict`` where y is given; of the weak left sides of these rows, which hold no derivative, if not.

        1 − Σ (y − Xθ)²/Σ y² over the residuals of each equation, averaged over equations.
        """
        if y is not None:
            return float(super().score(X, y))
        check_is_fitted(self)
        if self.discovery_ is None:
            raise BvsiError("score: this model was fitted to given left sides; give y.")
        data = self._record(validate_data(self, X, reset=False, dtype=float))
        likelihood, origin = likelihood_of(self.discovery_, data, self.library_, self._options.get("noise"))
        shares = []
        for residuals in likelihood.system.experiments:
            wrong, of_row = residuals.residual(self.discovery_.theta - origin), residuals.structure.equation_of_row
            for k in range(len(residuals.structure.equations)):
                rows = of_row == k
                shares.append(1 - np.sum(wrong[rows] ** 2) / np.sum(residuals.y[rows] ** 2))
        return float(np.mean(shares))

    def _of_record(self, X: Array) -> BvsiRegressor:
        """The equation of one record in time."""
        self.library_ = self._library(self._fields())
        found = discover(self._record(X), self.library_, **self._options)
        self.discovery_, self._single = found, len(found.fields) == 1
        if found.parameters:
            raise BvsiError("BvsiRegressor: parameters inside operators are not taken here; use bvsi.discover.")
        self.names_ = self.library_.names
        self.coef_ = np.array([found.coefficient(name) for name in self.names_])
        sd = dict(zip(found.names, found.sd, strict=True))
        self.sd_ = np.array([sd.get(name, 0.0) for name in self.names_])
        self.equation_ = found.equation
        return self

    def _of_samples(self, X: Array, y: Array) -> BvsiRegressor:
        """The equations of given left sides, one by one."""
        fields = self._fields()
        self._single = y.ndim == 1
        sides = y.reshape(len(y), -1)
        named = fields if sides.shape[1] == len(fields) and not self._single else _targets(sides.shape[1])
        self.library_ = self._library(named, fields)
        if len(self.library_.equations) != sides.shape[1]:
            raise BvsiError(
                f"candidates: {len(self.library_.equations)} equations, but y has {sides.shape[1]} columns; one each."
            )
        self.names_, self.discovery_ = self.library_.names, None
        self.coef_, self.sd_ = np.zeros(len(self.names_)), np.zeros(len(self.names_))
        columns = self._columns(X)
        for equation, side in zip(self.library_.equations, sides.T, strict=True):
            places = [i for i, o in enumerate(self.library_.operators) if o.equation == equation]
            names = tuple(self.names_[i] for i in places)
            kept = [name for name in self.library_.keep if name in names]
            chosen, theta, sd = selected_columns(columns[equation][places].T, side, names, kept)
            self.coef_[[places[i] for i in chosen]], self.sd_[[places[i] for i in chosen]] = theta, sd
        used = np.flatnonzero(self.coef_)
        equations = tuple(self.library_.equations)
        text = [self.names_[i] for i in used], self.coef_[used], self.sd_[used], equations
        self.equation_ = equation_text(*text, left={name: name for name in equations})
        return self

    @property
    def _options(self) -> dict[str, Any]:
        return dict(self.options or {})

    def _labels(self) -> list[str]:
        """Names of the columns."""
        return [str(n) for n in getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])]

    def _index(self, column: str | int) -> int:
        labels = self._labels()
        if isinstance(column, str) and column in labels:
            return labels.index(column)
        if isinstance(column, int) and -len(labels) <= column < len(labels):
            return column % len(labels)
        raise BvsiError(f"time, places: there is no column {column!r}; the columns are {', '.join(labels)}.")

    def _fields(self) -> tuple[str, ...]:
        """Names of the columns that are fields."""
        others = {self._index(c) for c in (*self.places, *(() if self.time is None else (self.time,)))}
        found = tuple(name for i, name in enumerate(self._labels()) if i not in others)
        for name in found:
            check_field_name(name, "column", series=not self.places)
        if not found:
            raise BvsiError(
                f"X: {self.n_features_in_} feature(s), all of them times and places; a column with a field is needed."
            )
        return found

    def _library(self, equations: Sequence[str], fields: Sequence[str] = ()) -> Library:
        given = self.candidates
        if isinstance(given, Library):
            return given
        if given is None:
            given = polynomials(tuple(fields or equations), self.degree)
        made = given if isinstance(given, Mapping) else dict.fromkeys(equations, tuple(given))
        return Library(made, keep=self.keep)

    def _grid(self, X: Array) -> tuple[Grid, Array, Array]:
        """The grid of the places, the times, and the place of each row in an array (T, *nodes)."""
        keys = [X[:, self._index(c)] for c in ((self.time,) if self.time is not None else ())]
        keys = [*keys, *(X[:, self._index(c)] for c in self.places)]
        axes, index = zip(*(np.unique(key, return_inverse=True) for key in keys), strict=True)
        names = ("x", "y", "z")[: len(self.places)]
        if self.time is None:
            axes, index = (np.zeros(1), *axes), (np.zeros(len(X), dtype=int), *index)
        grid = Grid(**dict(zip(names, axes[1:], strict=True)), periodic=self.periodic)
        place = np.ravel_multi_index(index, tuple(map(len, axes)))
        if len(np.unique(place)) < len(place):
            raise BvsiError("X: two rows have the same time and place; name the columns of places, or drop rows.")
        return grid, axes[0], place

    def _record(self, X: Array) -> Data:
        """The rows as one record; places and times without a row were not measured."""
        grid, times, place = self._grid(X)
        values = {}
        for name in self._fields():
            array = np.full(len(times) * grid.n_nodes, np.nan)
            array[place] = X[:, self._index(name)]
            values[name] = array.reshape(len(times), grid.n_nodes)
        whole = len(place) == len(times) * grid.n_nodes
        return Data.from_arrays(values, times=times, geometry=grid, missing=None if whole else "nan")

    def _columns(self, X: Array) -> dict[str, Array]:
        """F_i of the rows, (d, n) by equation."""
        fields = self._fields()
        if not self.places:  # rows do not know of each other
            times = np.zeros(len(X)) if self.time is None else X[:, self._index(self.time)]
            words = Vocabulary((), fields)
            states = {name: X[:, self._index(name)] for name in fields}
            return operator_values(system_of_library(self.library_, words), Grid(), states, times)
        data, (grid, times, place) = self._record(X), self._grid(X)
        states = {name: values.reshape(len(times), *grid.shape) for name, values in data.fields.items()}
        found = operator_values(system_of_library(self.library_, Vocabulary.of(data)), grid, states, times)
        return {name: values.reshape(len(values), -1)[:, place] for name, values in found.items()}


def _targets(number: int) -> tuple[str, ...]:
    return (_TARGET,) if number == 1 else tuple(f"{_TARGET}{i}" for i in range(number))


def selected_columns(A: Array, y: Array, names: Sequence[str], keep: Iterable[str]) -> tuple[list[int], Array, Array]:
    """Columns that are selected by BIC among those of A (n, d), their coefficients in y = A θ + e, and their sd.

    The misfit ‖y − Aθ‖² is quadratic, so that the search over subsets is that of :mod:`bvsi.select` without refits.
    """
    if not y.any():
        return [], np.zeros(0), np.zeros(0)
    H, n = A.T @ A, len(y)
    quadratic = Quadratic(tuple(names), np.zeros(len(names)), float(y @ y), A.T @ y, H, H, n, scale_known=False)
    protection = Protection.of(tuple(names), keep, ())
    ladder = best_models(quadratic, ProfileBIC(), protection)
    scored = [one for k, one in ladder.items() if np.isfinite(one[0]) and (k <= _MOST * n or k == len(protection.keep))]
    empty = n * np.log(quadratic.q / n)
    if not scored or (not protection.keep and empty <= min(one[0] for one in scored)):
        return [], np.zeros(0), np.zeros(0)
    model = list(min(scored, key=lambda one: one[0])[1])
    theta = np.asarray(np.linalg.lstsq(A[:, model], y, rcond=None)[0], dtype=np.float64)
    variance = np.sum((y - A[:, model] @ theta) ** 2) / max(n - len(model), 1)
    return model, theta, np.sqrt(variance * np.diag(np.linalg.pinv(H[np.ix_(model, model)])))
