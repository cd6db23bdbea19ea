"""Whether an equation can be solved forward in time: how fast the shortest waves of a disturbance grow.

    u_t = Σ_i θ_i F_i(u),   δu = v e^{ik·x}:     A(k) = Σ_i θ_i Σ_terms (−1)^|α| (ik)^(α + β) c̄,    rate(k) = max Re λ

The terms are those of the linearised weak form, ∫ ∂^α φ c ∂^β δu, and c̄ is the mean of c over the data. For u_tt the
rate is max Re √λ. A reaction grows at one rate, whatever k; where the rate grows with k, waves beyond the resolution
of any data grow at once, and the equation has no solution forward in time: negative diffusion at the highest order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from bvsi.common.arrays import Array, Integers
from bvsi.common.naming import Sided
from bvsi.data import Data
from bvsi.operators import Library, Vocabulary
from bvsi.operators.vocabulary import TIME, lag_of
from bvsi.spaces.spline_tests import MAX_DERIVATIVES

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator


# Wave numbers at which rates are compared, in radians per spacing of the nodes: far beyond what data resolve, so that
# the highest derivatives rule. Rates that grow with k do so at least in proportion.
_SHORT, _SHORTER = 1000.0, 2000.0
_GROWS = 1.5  # between one, for a reaction, and two
_I = (1, 1j, -1, -1j)  # powers of i, exact
# Part of the size of A that is rounding.
_ROUNDING = 1e-13
# Values at which coefficients are averaged, at most.
_MOST = 20_000


def grows_without_bound(library: Library, theta: Array, data: Data, at: Integers | None = None) -> bool:
    """Whether u_t = Σ θ_i F_i(u) is ill-posed forward in time, at the states of the data.

    Operators without a weak form on smooth test functions are not judged.

    Parameters
    ----------
    library
        The operators of the equation, in the order of theta (d,).
    at
        Numbers of the values that count, time by time; by default some of all.
    """
    words = Vocabulary.of(data)
    if not words.dim or library.obstacle(words, trial_order=0, test_order=MAX_DERIVATIVES):
        return False
    operators = library.weak(words, trial_order=0, test_order=MAX_DERIVATIVES)
    right = np.append(theta, -np.ones(len(library.known)))  # known terms of the left side, brought to the right
    some = some_values(data) if at is None else at
    terms = _terms(operators[: len(right)], tuple(library.equations), right, data, words, some)
    spacing = _spacing(data)
    for direction in product((0.0, 1.0, -1.0), repeat=words.dim):
        length = float(np.linalg.norm(direction))
        if length:
            k = np.asarray(direction) / (length * spacing)
            slow, fast = (_rate(terms, n * k, len(library.equations), library.time_order) for n in (_SHORT, _SHORTER))
            if fast > max(_GROWS * slow, 0.0):
                return True
    return False


def some_values(data: Data) -> Integers:
    """Numbers of some values of a field, time by time."""
    every = data.n_times * data.n_nodes
    # a fixed step could meet the same nodes at all times
    return np.linspace(0, every - 1, min(_MOST, every)).astype(np.int64)


def _spacing(data: Data) -> float:
    points = data.geometry.points
    return float((np.prod(np.ptp(points, axis=0)) / len(points)) ** (1 / points.shape[1]))


def well_posed_rows(library: Library, data: Data) -> Array:
    """Rows a, (m, d), with a·θ ≥ 0 where no short waves run away: −Re (−1)^|α| (ik)^p c_i at the highest even p.

    −a·θ is the rate at which waves of two nodes grow, k = π/spacing.

    One row for each equation, axis and extreme state: c_i is taken at the lowest and the highest value of each field
    that the operators read. What fields do to each other is left out.

    Parameters
    ----------
    library
        Operators, d.
    """
    words = Vocabulary.of(data)
    rows = np.zeros((0, len(library)))
    if not words.dim or library.obstacle(words, trial_order=0, test_order=MAX_DERIVATIVES):
        return rows
    operators = library.weak(words, trial_order=0, test_order=MAX_DERIVATIVES)[: len(library)]
    places = np.unique([pick(data.fields[f]) for f in data.names for pick in (np.argmin, np.argmax)])
    fields = tuple(library.equations)
    k, found = np.pi / _spacing(data), []
    for place in places:
        terms = [_terms([o], fields, np.ones(1), data, words, np.array([place])) for o in operators]
        found += [_highest(terms, e, axis, k) for e in range(len(fields)) for axis in range(words.dim)]
    kept = [row for row in found if row.any()]
    return np.unique(np.stack(kept), axis=0) if kept else rows


def _highest(terms: Sequence[Sequence[_Term]], equation: int, axis: int, k: float) -> Array:
    """−Re (−1)^|α| (ik)^p c of each operator, (d,), at the highest even order p along an axis, zero without one."""
    orders = np.zeros((len(terms), MAX_DERIVATIVES + 1))
    for i, own in enumerate(terms):
        for row, column, tested, powers, value in own:
            order = powers[axis]
            if row == column == equation and sum(powers) == order and order % 2 == 0:
                orders[i, order] -= value * (-1) ** tested * _I[order % 4].real
    present = np.flatnonzero(orders.any(axis=0))
    return k ** present[-1] * orders[:, present[-1]] if len(present) and present[-1] else np.zeros(len(terms))


_Term = tuple[int, int, int, tuple[int, ...], float]
"""Equation, field, |α|, α + β, and θ_i c̄ of a term."""


def _terms(
    operators: Sequence[WeakOperator],
    fields: Sequence[str],
    theta: Array,
    data: Data,
    words: Vocabulary,
    places: Integers,
) -> list[_Term]:
    """The terms of A at some values, counted time by time; fields without an equation are not disturbed."""
    times, nodes = np.divmod(places, data.n_nodes)
    found: list[_Term] = []
    for operator, value in zip(operators, theta, strict=True):
        kernel = operator.kernel("cells", "jacobian")
        values = {s: _values(s.name, words.decode(s), data, words, times, nodes) for s in kernel.symbols}
        for term, c in zip(operator.forms["cells"].jacobian, kernel(values), strict=True):
            if term.field in fields and not isinstance(term.test, Sided) and not isinstance(term.trial, Sided):
                powers = tuple(a + b for a, b in zip(term.test, term.trial, strict=True))
                place = fields.index(operator.equation), fields.index(term.field)
                found.append((*place, sum(term.test), powers, float(value * np.mean(c))))
    return found


def _values(
    name: str, jet: tuple[str, object] | None, data: Data, words: Vocabulary, times: Integers, nodes: Integers
) -> Array:
    """A field, coordinate or the time at some times and nodes, (m,); derivatives of fields have mean zero."""
    if jet is None:
        return data.times[times] if name == TIME else data.geometry.points[nodes, words.coordinates.index(name)]
    field, index = jet
    lag = lag_of(field)
    field = field if lag is None else lag[0]  # as of an earlier time as any
    if index != words.zero:
        return np.zeros(len(nodes))
    values = data.fields[field] if field in data.fields else data.auxiliary[field]
    return np.asarray(values[times, nodes] if values.ndim == 2 else values[nodes])


def _rate(terms: Sequence[_Term], k: Array, fields: int, time_order: int) -> float:
    """max Re λ(A(k)), of √λ for u_tt; zero where it is rounding."""
    A = np.zeros((fields, fields), dtype=complex)
    for row, column, tested, powers, value in terms:
        A[row, column] += value * (-1) ** tested * _I[sum(powers) % 4] * np.prod(k ** np.asarray(powers))
    power = 1 / time_order
    highest = float(np.max(np.real(np.linalg.eigvals(A).astype(complex) ** power)))
    return highest if abs(highest) > _ROUNDING * float(np.abs(A).max()) ** power else 0.0
