"""Some operators, ready to be solved forward on every experiment, and what a fit of them is.

u_t = Σ_i θ_i F_i(u),     l ≤ A θ ≤ u,     θ ~ p(θ) as in :mod:`bvsi.refine.prior`

Rows with l = u are equalities, along which steps, covariances and densities are taken. Where laws end there is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import minimize
from scipy.special import chdtrc

from bvsi.check.well_posed import well_posed_rows
from bvsi.common.arrays import Array
from bvsi.data import Data, Grid, Mesh
from bvsi.errors import BvsiError
from bvsi.forward.ensemble import Simulator, simulator
from bvsi.forward.semidiscrete import check_solvable
from bvsi.forward.splines import CUBIC, spline_order
from bvsi.forward.tangents import solve_with_tangents, weak_terms
from bvsi.infer.constraints import LinearConstraints
from bvsi.infer.constraints.feasibility import check_feasible
from bvsi.infer.constraints.linear import stacked
from bvsi.infer.constraints.program import solve_program
from bvsi.infer.fit import Status
from bvsi.infer.posteriors import ChainPosterior, GaussianPosterior, TruncatedPosterior
from bvsi.infer.priors import GaussianPrior, Prior
from bvsi.operators import Library, Vocabulary
from bvsi.refine.instrument import RefineError
from bvsi.refine.linear import propagates
from bvsi.refine.measurements import Measurements
from bvsi.refine.prior import CoefficientPrior, stated_laws
from bvsi.spaces.spline_tests import MAX_DERIVATIVES

# Modes beyond which linear equations are fitted by a dense propagator. Not measured closely: with 400 modes on 50 × 50
# nodes and 50 frames one pass of the derivatives takes as long as everything by the propagator.
MANY_MODES = 400
# Degree of the splines with which linear equations are solved. The density of Fokker and Planck on 51 × 51 nodes, whose
# width is 1.4 of them at first, was off by 0.75 sd of the noise with 3, 0.08 with 5 and 0.02 with 7, which takes 9 s
# more to be set up.
_SMOOTH = 5
_SLOWEST = 0.9  # ratio of differences between degrees of splines above which they do not converge
_KEPT = 3  # solutions by experiment: at a point, at the one before, and at a point with halved steps


@dataclass(frozen=True, eq=False)
class ForwardModel:
    """Some operators, ready to be solved forward on every experiment.

    Attributes
    ----------
    prior
        Of the coefficients; N(0, s_i²) where none is stated: with s_i operator i alone would change the fields by their
        own size between two frames.
    bounds
        What keeps the equation well posed, what was asked for, equalities among it, and the ends of stated laws.
    watch
        Called before every solve, so that whoever waits can end the fit by an exception.
    """

    library: Library
    experiments: tuple[Measurements, ...]
    simulators: tuple[Simulator, ...]
    prior: CoefficientPrior
    bounds: LinearConstraints
    watch: Callable[[], None] = lambda: None
    # What was solved last, by coefficients, modes, experiment and steps: fits ask for the same again.
    _solved: dict[Any, tuple[Array, Array]] = field(init=False, default_factory=dict, repr=False)

    @staticmethod
    def of(
        experiments: Sequence[Measurements],
        library: Library,
        bounds: LinearConstraints | None,
        prior: Prior | GaussianPrior | None = None,
    ) -> ForwardModel:
        """Refused with the reason where the equation cannot be solved.

        Parameters
        ----------
        bounds
            Further ones, on the operators of the library.
        prior
            Of coefficients, by name; others have the usual one.
        """
        try:
            made = tuple(_solver(one, library) for one in experiments)
        except BvsiError as error:
            raise _refused(error) from error
        if made[0].fields != experiments[0].fields:
            raise RefineError("refine: a field has no operator left, and could not change; keep one in its equation.")
        experiments = tuple(
            one if propagates(one, own) else one.some_modes() for one, own in zip(experiments, made, strict=True)
        )
        rows = np.concatenate([well_posed_rows(library, one.extremes) for one in experiments])
        scale = _scales(experiments, made)
        rows /= np.abs(rows * scale).max(axis=1, keepdims=True, initial=np.finfo(float).tiny)
        texts = ("the equation is well posed: diffusion at the highest order is not negative",) * len(rows)
        every = LinearConstraints(library.names, rows, np.zeros(len(rows)), np.full(len(rows), np.inf), texts)
        if bounds:
            every = LinearConstraints(library.names, *stacked([every.rows, bounds.rows]))
        density = stated_laws(prior, library.names, every)
        if np.isfinite(density.lower).any() or np.isfinite(density.upper).any():
            every = every.with_bounds(density.lower, density.upper, [f"support of {name!r}" for name in library.names])
        check_feasible(*every.rows)
        if not every.affine().free.size:
            raise RefineError("constraints: they fix every coefficient, and leave nothing to fit; relax one of them.")
        return ForwardModel(library, tuple(experiments), made, CoefficientPrior.of(density, scale, every), every)

    def with_operators(self, library: Library) -> ForwardModel:
        """The same with other values inside the operators."""
        return replace(self, library=library, simulators=tuple(_solver(one, library) for one in self.experiments))

    @property
    def names(self) -> tuple[str, ...]:
        """Operators."""
        return self.library.names

    @property
    def count(self) -> int:
        """Values that are fitted."""
        return sum(one.count for one in self.experiments)

    @property
    def linear(self) -> bool:
        """Whether the equation is linear with constant coefficients."""
        return all(known is not None for known in self.simulators[0].equation.constant)

    def propagates(self, number: int) -> bool:
        """Whether the initial state of an experiment has so many modes that a dense propagator is worth while."""
        one = self.experiments[number]
        return len(one.mu) > MANY_MODES and propagates(one, self.simulators[number])

    @property
    def propagating(self) -> bool:
        """Whether one of the experiments has a propagator."""
        return any(map(self.propagates, range(len(self.experiments))))

    @property
    def profiled(self) -> bool:
        """Whether initial states have weak priors and are at their best, in place of being integrated out."""
        return self.propagating or any(one.sparse for one in self.experiments)

    @property
    def level_known(self) -> bool:
        """Whether the variance of the noise is known, and not only its shape."""
        return all(one.level_known for one in self.experiments)

    def predicted(self, theta: Array, z: Array, number: int, steps: int) -> Array:
        """Values (T, s) of one experiment."""
        return self.solved(theta, z, number, steps, slopes=False)[0]

    def solved(self, theta: Array, z: Array, number: int, steps: int, *, slopes: bool = True) -> tuple[Array, Array]:
        """Values (T, s) of one experiment and their derivatives by θ, (T, s, d), or (T, s, 0); the last are kept."""
        key = theta.tobytes(), z.tobytes(), number, steps
        found = self._solved.get(key)
        if found is None or (slopes and not found[1].size):
            one, made = self.experiments[number], self.simulators[number]
            times = one.solved_at(one.data.times)
            basis = one.V[:, :0] if slopes else None
            frames = one.seen(solve_with_tangents(made, theta, one.initial(z), basis, times, steps))
            u, G = zip(*frames, strict=True)
            found = np.stack(u), np.stack(G)
            self._solved.pop(key, None)
            while len(self._solved) >= _KEPT * len(self.experiments):
                del self._solved[next(iter(self._solved))]
            self._solved[key] = found
        return found

    def frames(
        self, theta: Array, z: Array, number: int, steps: int, later: Array | tuple[()] = ()
    ) -> Iterator[tuple[Array, Array]]:
        """States (S,) of one experiment within the frames of the data and some later, without derivatives (S, 0)."""
        one, times = self.experiments[number], np.append(self.experiments[number].data.times, later)
        return solve_with_tangents(self.simulators[number], theta, one.initial(z), None, one.solved_at(times), steps)

    def space_error(self, theta: Array, z: Array, number: int, steps: int) -> Array:
        """Error (T, s) of predictions by splines: differences between degrees 1, 3 and 5 as a geometric series.

        Where degree 1 cannot carry the equation, it is that of degree 3. Waves shorter than two nodes are not seen.
        """
        one = self.experiments[number]
        data, best = one.as_data(one.smooth), self.predicted(theta, z, number, steps)

        def by(degree: int) -> Array:
            made = simulator(data, self.library, positive=one.positive, degree=degree)
            assert isinstance(made, Simulator)
            frames = solve_with_tangents(made, theta, one.initial(z), None, one.data.times, steps)
            return np.stack([u for u, _ in frames])

        cubic = by(CUBIC)
        if spline_order(self.library, data) > 1:
            return best - cubic
        ratio = min(_SLOWEST, float(np.linalg.norm(best - cubic) / (np.linalg.norm(cubic - by(1)) or 1.0)))
        return np.asarray((best - cubic) * ratio / (1 - ratio))

    def growth(self, theta: Array, states: Sequence[Array]) -> float:
        """Powers of e by which waves of two nodes may grow where states (T, S) have negative diffusion."""
        found = [0.0]
        for one, own in zip(self.experiments, states, strict=True):
            above = np.where(one.bend > 0, np.maximum(own, 0.0), own)  # as operators see it
            rates = -well_posed_rows(self.library, one.as_data(above)) @ theta
            found.append(float(np.ptp(one.data.times)) * float(rates.max(initial=0.0)))
        return max(found)

    def start(self, widest: int | None = None, *, linear: bool = False) -> Array:
        """θ (d,) by least squares: M (u_k+1 − u_k) = ½ Δt (F(u_k+1) + F(u_k)) θ at smooth states, within the bounds.

        Parameters
        ----------
        widest
            Take only so many test functions, the smoothest modes of the initial state.
        linear
            Leave out operators that are not linear: with a poor initial state they may run away. What equalities tie
            to others follows these.
        """
        out = [linear and known is None for known in self.simulators[0].equation.constant]
        P, g = self.prior.precision.copy(), np.where(out, 0.0, self.prior.precision @ self.prior.mean)
        for one, made in zip(self.experiments, self.simulators, strict=True):
            times = one.data.times
            Mu, F = weak_terms(made, one.smooth, times)
            X = np.where(out, 0.0, 0.5 * np.diff(times)[:, None, None] * (F[1:] + F[:-1]))
            y = np.diff(Mu, axis=0)
            if widest is not None and y.shape[1] == len(one.V):
                wide = one.V[:, np.argsort(one.mu, kind="stable")[:widest]]
                X, y = np.einsum("nm,tnd->tmd", wide, X), y @ wide
            size = np.sqrt(np.mean(y**2)) or 1.0
            P += np.einsum("tnd,tne->de", X, X) / size**2
            g += np.einsum("tnd,tn->d", X, y) / size**2
        return solve_program(P, g, self.bounds)


def comparable(measured: Sequence[Measurements], library: Library) -> list[Measurements]:
    """With modes of initial states that all operators can carry: evidences with other modes cannot be compared."""
    words = Vocabulary.of(measured[0].data)
    if not words.dim or library.parameters or library.obstacle(words, trial_order=0, test_order=MAX_DERIVATIVES):
        return list(measured)
    forms = library.weak(words, trial_order=0, test_order=MAX_DERIVATIVES)[: len(library)]
    linear = all(form.state_linear and not form.uses(form.terms, frozenset({"t"})) for form in forms)
    return list(measured) if linear else [one.some_modes() for one in measured]


def _solver(one: Measurements, library: Library) -> Simulator:
    """On grids splines, of a high degree where the equation is linear and every node is a mode of the initial state."""
    data, grid = one.as_data(one.smooth), one.on
    made = simulator(data, library, positive=one.positive, tangents=True)
    assert isinstance(made, Simulator)  # with derivatives there is no other
    if not isinstance(grid, Grid) or min(grid.shape, default=0) < _SMOOTH + 2 or not propagates(one, made):
        return made
    smooth = simulator(data, library, positive=one.positive, degree=_SMOOTH, tangents=True)
    assert isinstance(smooth, Simulator)  # see above
    return smooth


def _scales(experiments: Sequence[Measurements], simulators: Sequence[Simulator]) -> Array:
    """s (d,): RMS(u)/(Δt RMS(M⁻¹F_i)), M lumped, over all experiments."""
    size = rate = 0.0
    for one, made in zip(experiments, simulators, strict=True):
        Mu, F = weak_terms(made, one.smooth, one.data.times)
        lumped, _ = weak_terms(made, np.ones_like(one.smooth[:1]), one.data.times[:1])
        step = float(np.median(np.diff(one.data.times)))
        size = size + float(np.mean((Mu / lumped) ** 2))
        rate = rate + np.mean((step * F / lumped[..., None]) ** 2, axis=(0, 1))
    return np.asarray(np.sqrt(size / np.where(rate > 0, rate, size)))


def check_equation(data: Data, library: Library, on: Grid | Mesh | None) -> None:
    """Refuse equations that cannot be solved forward, whichever operators are in them."""
    try:
        check_solvable(data, library, data.geometry if on is None else on)
    except BvsiError as error:
        raise _refused(error) from error


def _refused(error: BvsiError) -> RefineError:
    return RefineError(f"refine: {str(error).removeprefix('simulate: ')}")


@dataclass(frozen=True, eq=False)
class ForwardFit:
    """The posterior of one equation from forward solves.

    Attributes
    ----------
    theta
        (d,), the most probable coefficients, and parameters inside operators.
    posterior
        Of the coefficients; the initial states are integrated out: Laplace, or chains where they were asked for.
    log_likelihood
        log p(û | θ̂), initial states integrated out, up to a constant that is the same for all models of the same data.
    deviance
        Misfit in units of the noise as stated or measured, over all values.
    count
        Values that were fitted.
    used
        Parameters that the data determine, those of the initial states included.
    log_evidence
        log p(û | model), up to a constant that is the same for all models of the same data.
    scale
        s (d,) of the prior of θ, given the equalities; zero of coefficients that these fix.
    exponent
        (θ̂ − μ)ᵀ Λ (θ̂ − μ) of the prior; of laws that are not Gaussian see :mod:`bvsi.refine.prior`.
    without
        log p(û | model without an operator), (d,); see :meth:`CoefficientPrior.without`.
    free
        Coefficients less equalities, n.
    initial
        Initial states (s,), one per experiment.
    predictions, spreads
        Fitted values (T + L, s) and their standard deviations, one per experiment; the last L are forecasts.
    initial_sd
        Standard deviations of these, (S,).
    prior_part
        Variance of the modes of each over that of their prior, (m,): one where the data say nothing.
    smoothness
        Law of the modes of each, (fields, 3); see :meth:`Measurements.precisions`.
    level
        σ² where the noise is known up to a factor, else one.
    steps
        Steps in time between two frames.
    solve_error
        Standard deviations by which the estimated error of the solution in space moves a coefficient, at most; zero
        where it is not estimated, which needs a linear equation on a grid.
    roughness
        Variance of the finest modes of a state between sensors over that of the widest, by its law; zero elsewhere.
    """

    theta: Array
    posterior: GaussianPosterior | TruncatedPosterior | ChainPosterior
    log_likelihood: float
    deviance: float
    count: int
    used: float
    log_evidence: float
    scale: Array
    exponent: float
    without: Array
    free: int
    initial: tuple[Array, ...]
    predictions: tuple[Array, ...]
    spreads: tuple[Array, ...]
    initial_sd: tuple[Array, ...]
    prior_part: tuple[Array, ...]
    smoothness: tuple[Array, ...]
    level: float
    steps: int
    status: Status
    solve_error: float = 0.0
    roughness: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Operators."""
        return self.posterior.names

    @property
    def narrowed(self) -> Array:
        """Standard deviations of the coefficients over those of their prior, (d,): one where the data say nothing."""
        free = self.scale > 0
        sd = np.sqrt(self.posterior.variance)
        return np.divide(sd, self.scale, out=np.zeros_like(sd), where=free)

    @property
    def chi2(self) -> float:
        """Deviance per degree of freedom."""
        return self.deviance / max(1.0, self.count - self.used)

    @property
    def p_value(self) -> float:
        """Probability of as large a misfit by chance; one where the noise level is not known."""
        return 1.0 if self.level != 1 else float(chdtrc(max(1.0, self.count - self.used), self.deviance))

    def evidence_without(self, name: str) -> float:
        """log p(û | model without an operator), and without what equalities tie to it (Savage and Dickey).

        Infinite where the prior has no density at zero, of which nothing follows.
        """
        return float(self.without[self.names.index(name)])

    def evidence_with(self, factor: float) -> float:
        """log p(û | model) if the prior of θ were wider by a factor, at the same estimate."""
        return float(self.log_evidence + 0.5 * self.exponent * (1 - factor**-2.0) - self.free * math.log(factor))


# log l and log q beforehand, and how far from there they may be: κ⁻² with a bend anywhere. Not measured. With p = aκ²
# where all nodes are measured the error bars of D of 240 scratch assays were too small by 15%, with this by 10%.
_USUAL, _WIDE = np.array([0.0, np.log(2.0)]), np.array([3.0, 1.0])
_FURTHEST = 3.0  # of each parameter of a law in one step: states follow
_DIFFERENCE = 1e-3  # of the parameters, over which slopes are differenced


def first_law(one: Measurements, z: Array) -> Array:
    """The usual law of an initial state, with the size of a state z (m,), (fields, 3); see :func:`likely_law`."""
    usual = np.tile(np.append(0.0, _USUAL), (len(one.fields), 1))
    rough = (one.precisions(usual) * z**2).reshape(len(one.fields), -1).sum(axis=1)
    usual[:, 0] = np.log(max(1, one.rank // len(one.fields)) / np.maximum(rough, np.finfo(float).tiny))
    return usual


def likely_law(one: Measurements, K: Array, b: Array, law: Array) -> Array:
    """The law of the modes of an initial state that makes the measurements most likely, (fields, 3), from another. ::

        −2 log p(û | law) = −bᵀC⁻¹b + log|C| − Σ log p_i + Σ ((law − usual)/wide)²,     C = K + diag(p),     ẑ = C⁻¹b

    around a state z, with K = GᵀWG and b = GᵀWr + Kz from the derivatives G of all values by z, and p(law) as in
    :mod:`bvsi.refine.measurements`: the data tell the width of the features and their smoothness as well.
    """
    if not one.rank:
        return law
    found = minimize(
        lambda x: _misfit(one, K, b, x.reshape(law.shape)),
        law.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(x - _FURTHEST, x + _FURTHEST) for x in law.ravel()],
        options={"gtol": 1e-3, "ftol": 0.0},
    )
    return np.asarray(found.x.reshape(law.shape))


def law_slope(one: Measurements, K: Array, b: Array, law: Array) -> Array:
    """Slope of −2 log p(û | law), (3 fields,)."""
    return _misfit(one, K, b, law)[1]


def law_curvature(one: Measurements, K: Array, b: Array, law: Array) -> Array:
    """Its curvature, (3 fields, 3 fields), by differences of slopes."""
    moves = _DIFFERENCE * np.eye(law.size).reshape(-1, *law.shape)
    rows = [law_slope(one, K, b, law + x) - law_slope(one, K, b, law - x) for x in moves]
    full = np.array(rows) / (2 * _DIFFERENCE)
    return np.asarray(0.5 * (full + full.T))


def _misfit(one: Measurements, K: Array, b: Array, law: Array) -> tuple[float, Array]:
    """−2 log p(û | law) and its slope, (3 fields,)."""
    p, held = one.precisions(law), one.mu > 0
    try:
        factor = scipy.linalg.cho_factor(K + np.diag(p))
    except (scipy.linalg.LinAlgError, ValueError):  # laws that are out of all bounds
        return np.inf, np.zeros(law.size)
    z, spread = scipy.linalg.cho_solve(factor, b), np.diag(scipy.linalg.cho_solve(factor, np.eye(len(b))))
    beyond = (law[:, 1:] - _USUAL) / _WIDE
    value = -b @ z + 2 * np.log(np.diag(factor[0])).sum() - np.log(p[held]).sum() + np.sum(beyond**2)
    by_mode = one.precision_slopes(law) * (p * (z**2 + spread) - 1)
    slope = by_mode.reshape(3, len(law), -1).sum(axis=2).T
    slope[:, 1:] += 2 * beyond / _WIDE
    return float(value), slope.ravel()
