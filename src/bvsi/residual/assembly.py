"""Data and library to residual system: y, X, M and sensitivities on one sparsity pattern per experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import add
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array, Mask
from bvsi.common.naming import Jet, MultiIndex, Sided, order
from bvsi.common.progress import Progress, silent
from bvsi.data import Data, Grid, Mesh, as_experiments
from bvsi.data._arrays import slabs
from bvsi.data.smoothness import jumps
from bvsi.errors import DataError, OperatorError
from bvsi.operators import Biharmonic, InteriorPenalty, Library, Mixed, Vocabulary
from bvsi.operators.functions import FEW_NODES
from bvsi.residual.blur import Blur
from bvsi.residual.discrete import Blocks, State, columns, with_lags
from bvsi.residual.jacobians import JacobianKind, Sensitivity, combined_sensitivity
from bvsi.residual.layout import Layout, active_residuals, known_fields, missing_unknowns, touched
from bvsi.residual.stencils import BackwardEuler, EachFrame, Stencil, TemporalTests, shifts, without_history
from bvsi.residual.streamed import Streamed, WeakJacobians
from bvsi.residual.system import Residuals, ResidualSystem, Structure
from bvsi.residual.thinning import Thinned, Thinning, half_noisy
from bvsi.spaces import Element, Galerkin, Space, SplineTests
from bvsi.spaces.spline_tests import SplineElement

if TYPE_CHECKING:
    from bvsi.operators.operator import WeakOperator


#: How test functions and fields are made.
Discretisation: TypeAlias = Galerkin | SplineTests

#: Noise variance by field: a number, or (T, nodes).
Variance: TypeAlias = Mapping[str, ArrayLike]

#: Weak operators, and the space that integrates them.
Discretised: TypeAlias = "tuple[tuple[WeakOperator, ...], Space]"

# Degree of quadrature beyond which the default does not go, however high the polynomials of the operators.
# Not measured; the error of higher integrands is then that of the rule.
MAX_QUADRATURE = 16
# Part of the values that are exactly zero from which on residuals over hardly anything else are looked for, and the
# part of other values up to which they are. Burgers data with 5 and 100 counts per cell: χ²/n was 0.67 and 0.69.
_ZEROS, _EMPTY = 0.05, 0.25


def assemble(
    data: Data | Sequence[Data],
    library: Library,
    *,
    discretisation: Discretisation | None = None,
    stencil: Stencil | None = None,
    quadrature: int | None = None,
    variance: Variance | Sequence[Variance] | None = None,
    linearise_at: Data | Sequence[Data] | None = None,
    discretised: Discretised | None = None,
    thin: Thinning | None = None,
    blur: Sequence[Mapping[str, float]] = (),
    gain: Sequence[Mapping[str, float]] = (),
    progress: Progress = silent,
) -> ResidualSystem:
    """Residual system of one or several experiments. ::

        y_k = Σ_j a_kj M û_j + b_kj F_0(û_j),   X_ki = Σ_j b_kj F_i(û_j),   J_i(û_j) = ∂F_i/∂u

    F_0 are known terms of the left side, if any.

    Parameters
    ----------
    data
        One experiment, or several of the same physics on grids and times of their own. Residuals that depend on a value
        that was not measured are not used.
    library
        Candidate operators and boundary conditions.
    discretisation
        Element and mesh; by default Q1 on grids, the mesh's own degree on meshes.
    stencil
        Time stencil; by default backward Euler, and none for steady problems.
    quadrature
        Degree to which integrals are exact; by default that of the highest integrand.
    variance
        Noise variance by field, a number or (T, nodes), one mapping or one per experiment: on spline tests nonlinear
        operators are then without the bias that noise gives them, u² without σ².
    linearise_at
        States at which Jacobians are taken, such as smoothed data; by default the data.
    discretised
        What :func:`discretise_library` makes of other times of the same experiments, to save its work.
    thin
        How the sensitivity of many data with wide test functions is taken at some of the nodes and times, where their
        noise is independent (:mod:`bvsi.residual.thinning`); by default at all of them.
    blur
        Widths over which the noise of each experiment is blurred, by axis and ``time``, in units of the coordinates
        (:mod:`bvsi.residual.blur`); spline tests on uniform grids alone.
    gain
        Size of one count by field of each experiment, where its noise is that of counts.
    """
    discretisation = discretisation or Galerkin()
    stencil = stencil or (EachFrame() if library.steady else BackwardEuler())
    experiments = as_experiments(data)
    smooth = experiments if linearise_at is None else as_experiments(linearise_at)
    variances = per_experiment(variance, len(experiments))
    parts, spaces = [], []
    for number, (experiment, at) in enumerate(zip(experiments, smooth, strict=True)):
        operators, space = discretised or discretise_library(experiment, library, discretisation, quadrature)
        thinned = _thinned(experiment, operators, discretisation, stencil, thin) if thin else None
        blurred = Blur.of(experiment, blur[number]) if blur and space.nodal else None
        if blurred is not None and library.longest_lag:
            raise OperatorError("lag(...) takes independent noise; state it, such as noise=IID(0.01), or leave it out.")
        own = state_of(experiment, space, copy=thinned is None)
        state = replace(own, variance=_variance(variances[number], experiment))
        near = state if at is experiment else replace(state_of(at, space), variance=state.variance)
        counts = gain[number] if gain else {}
        if thinned is not None:
            near = thinned[0].state(near, counts)
        elif blurred is None and space.nodal and state.variance and not all(o.state_linear for o in operators):
            near = half_noisy(near, at, counts)
        label = f"experiment {number + 1} of {len(experiments)}"
        given = (operators, space, (state, near), stencil, thinned, blurred, progress, label)
        parts.append(_residuals(experiment, library, *given))
        spaces.append(space)
    if isinstance(stencil, EachFrame) and not library.steady:
        raise OperatorError("stencil: EachFrame() has no time derivative; use TemporalTests(), or a steady left side.")
    treatment = biharmonic_treatment(library, discretisation.element_for(experiments[0].geometry))
    described = f"{spaces[0].name}, {type(stencil).__name__}"
    if isinstance(discretisation, SplineTests) and any(o.on_data for o in operators):
        described += f", derivatives of the data by {discretisation.derivatives_text(experiments[0].geometry)}"
    if treatment is not None:
        described += f", ∇⁴ by {treatment.name}"
    if (some := parts[0].structure.thinned) is not None:
        described += f", {some}"
    if parts[0].structure.blur is not None:
        described += ", noise blurred"
    if any(experiment.measured is not None for experiment in experiments):
        described += f", {sum(part.n for part in parts)} residuals, which touch no missing value"
    elif spaces[0].nodal and any(jumps(one, known_fields(operators)) is not None for one in experiments):
        described += f", {sum(part.n for part in parts)} residuals, which touch no jump of a known field"
    return ResidualSystem(library.names, tuple(parts), described)


def discretise_library(
    data: Data, library: Library, discretisation: Discretisation, quadrature: int | None = None
) -> Discretised:
    """Weak operators for the names of the data, those of left sides last, and the space that integrates them."""
    words = Vocabulary.of(data)
    element = discretisation.element_for(data.geometry)
    operators = library.weak(
        words,
        trial_order=element.trial_order,
        test_order=element.test_order,
        biharmonic=biharmonic_treatment(library, element),
    )
    if isinstance(element, SplineElement):
        if isinstance(data.geometry, Mesh) and data.n_nodes <= FEW_NODES:
            operators = tuple(operator.weighted for operator in operators)
        return operators, discretisation.build(data.geometry, 0, on_tests(operators))
    _check_second_derivatives(operators, element)
    _check_boundary_derivatives(operators, element)
    if quadrature is None:
        simplices = element.family == "P"
        degrees = (operator.degree(element.degree, simplices=simplices) for operator in operators)
        quadrature = min(max(2 * element.degree, *degrees), MAX_QUADRATURE)
    return operators, discretisation.build(data.geometry, quadrature)


def on_tests(operators: tuple[WeakOperator, ...]) -> int:
    """Highest derivative along one axis that operators, or their Jacobians, put on a test function of splines."""
    cells = [o.forms["cells"] for o in operators]
    values = (m for form in cells for t in form.terms for m in _index(t.test))
    slopes = (m for form in cells for t in form.jacobian for m in map(add, _index(t.test), _index(t.trial)))
    return max((*values, *slopes), default=0)


def _index(jet: Jet) -> MultiIndex:
    return jet.index if isinstance(jet, Sided) else jet


def per_experiment(variance: Variance | Sequence[Variance] | None, n: int) -> list[Variance]:
    """One mapping for each of n experiments; a single one serves all."""
    if variance is None or isinstance(variance, Mapping):
        return [variance or {}] * n
    if len(variance) != n:
        raise OperatorError(f"variance: {len(variance)} mappings for {n} experiments; give one, or one each.")
    return list(variance)


def _variance(variance: Variance, data: Data) -> dict[str, Array]:
    """Noise variance by field as (n, T), or what broadcasts to it; all fields, where there is any."""
    if not variance:
        return {}
    arrays = {f: np.atleast_2d(np.asarray(variance.get(f, 0.0), dtype=float)).T for f in data.names}
    return {f: np.broadcast_to(v, (v.shape[0], max(v.shape[1], 1))) for f, v in arrays.items()}


def biharmonic_treatment(library: Library, element: Element | SplineElement) -> Biharmonic | None:
    """How ∇⁴ is put on the element: None where no operator has it, or the element carries it itself."""
    allowed = biharmonic_treatments(library, element)
    return (library.biharmonic or allowed[0]) if allowed else None


def biharmonic_treatments(library: Library, element: Element | SplineElement) -> tuple[Biharmonic, ...]:
    """All ways to put ∇⁴ on the element, the usual one first; none where no operator has it, or on C1 elements."""
    if not library.has_biharmonic or element.trial_order + element.test_order >= 4:
        return ()
    return (*([Mixed()] if element.lumpable else []), *([InteriorPenalty()] if element.degree > 1 else []))


def _check_second_derivatives(operators: tuple[WeakOperator, ...], element: Element) -> None:
    for operator in operators:
        if element.degree < 2 and operator.second_derivatives:
            raise OperatorError(
                f"operator {operator.name!r}: second derivatives vanish on {element.name}; use Q2 or P2, or for "
                "biharmonic(...) the treatment Mixed()."
            )


def _check_boundary_derivatives(operators: tuple[WeakOperator, ...], element: Element) -> None:
    for operator in operators:
        fluxes = (operator.words.jets(term.integrand).values() for term in operator.forms["boundary"].terms)
        if any(order(jet) > 2 for flux in fluxes for _, jet in flux):
            raise OperatorError(
                f"operator {operator.name!r}: its flux through the boundary has three derivatives, too many for "
                f"{element.name}; declare ZeroNeumann(), NoFlux(), or leave the condition unknown."
            )


def state_of(data: Data, space: Space, *, copy: bool = True) -> State:
    """Fields of an experiment at the degrees of freedom of a space, u = P d.

    Parameters
    ----------
    copy
        False for views of the data where the nodes are the degrees of freedom: of much data, which are gone through
        some times after the other, a copy would only take memory.
    """

    def nodal(values: Array) -> Array:
        columns = np.atleast_2d(values).T
        if space.transfer is None and not copy:
            return columns
        return np.ascontiguousarray(columns if space.transfer is None else space.transfer @ columns)

    fields = {name: nodal(values) for name, values in data.fields.items()}
    return State(data.times, fields, {name: nodal(values) for name, values in data.auxiliary.items()})


def _thinned(
    data: Data, operators: tuple[WeakOperator, ...], tests: Discretisation, stencil: Stencil, rules: Thinning
) -> tuple[Thinned, Space] | None:
    """Nodes and times that carry the sensitivity, and their space; None for all of them."""
    if not isinstance(tests, SplineTests) or any(o.on_data or o.on_known or o.lags for o in operators):
        return None
    derivatives = on_tests(operators)
    if jumps(data, known_fields(operators)) is not None:
        return None
    found = Thinned.of(data, tests, stencil, tests.degree_for(derivatives), rules)
    return None if found is None else (found, tests.build(data.geometry, 0, derivatives, found.grid))


def _residuals(
    data: Data,
    library: Library,
    operators: tuple[WeakOperator, ...],
    space: Space,
    states: tuple[State, State],
    stencil: Stencil,
    thinned: tuple[Thinned, Space] | None,
    blur: Blur | None,
    progress: Progress,
    label: str,
) -> Residuals:
    """Residuals of one experiment.

    Parameters
    ----------
    states
        Where operators are evaluated, and where they are linearised.
    thinned, blur
        Some nodes and times that carry the sensitivity, or kernels of the noise; at most one of them.
    """
    state, few = states[0], None
    count = len(library) + len(library.known)
    operators, densities = operators[:count], operators[count:]
    if thinned is None:
        layout, a, b, active = _usable(data, library, operators, space, stencil)
        structure = _structure(layout, data.times, a, b, active)
        if blur is not None:
            few = blur.space(space)
            assert isinstance(data.geometry, Grid)
            space = replace(space, noise_kernels=blur.kernels_of(data.geometry))
            layout = Layout(library, operators, few, layout.tests)
            structure = replace(_structure(layout, data.times, *blur.stencil(a, b), active), blur=blur)
    else:
        chosen, few = thinned
        layout, (a, b) = Layout(library, operators, few), stencil.matrices(data.times, library.time_order)
        structure = _thinned_structure(layout, data.times, stencil, library.time_order, chosen)
    Z = np.zeros((structure.n_rows, structure.n_blocks, 1 + len(library)))
    for equation in () if library.steady else layout.equations:
        tested = _time_terms(space, state.fields[equation], a, times_first=few is not None)
        Z[layout.rows(equation), :, 0] = tested[layout.tests[equation]]
    if densities:
        time_terms = columns(densities, space, states, a, few)
        for one in densities:
            Z[layout.rows(one.equation), :, 0] = time_terms[one.key].X[layout.tests[one.equation]]
        structure = _with_densities(structure, layout, {o.equation: (o, time_terms[o.key].J) for o in densities})
    absent = _absent(operators, data)
    monic = [operator.monic() for operator in operators]
    L: dict[str, Any] = {}
    if any(o.lags for o in operators):
        L = shifts(operators, data.times)
        states = (with_lags(states[0], L), with_lags(states[1], L))
        structure = replace(structure, lagged=True)
    used = [one for (one, _), operator in zip(monic, operators, strict=True) if operator.name not in absent]
    made = columns(used, space, states, b, few)
    streamed = {(one.key, one.equation): one for one in used if made[one.key].J is None}
    source = WeakJacobians(layout, tuple(streamed.values()), states[1])
    if streamed:
        source.check()
    J: list[Sensitivity] = []
    for i, (operator, (one, factor)) in enumerate(zip(operators, monic, strict=True)):
        if operator.name in absent:
            J.append(Sensitivity(layout.pattern, ()))
            continue
        column = made[one.key]
        column_of_Z = 1 + i if i < len(library) else 0
        Z[layout.rows(operator.equation), :, column_of_Z] += factor * column.X[layout.tests[operator.equation]]
        if column.J is None:
            J.append(Sensitivity(layout.pattern, (Streamed(source, {source.number(one): 1.0}),), factor))
        else:
            J.append(layout.sensitivity(one, column.J, factor, L))
        progress(i + 1, len(operators), f"assembling {label}")
    known = [one for one in J[len(library) :] if one.terms]
    left = combined_sensitivity(known, np.ones(len(known))) if known else None
    return Residuals(structure, structure.only_active(Z), tuple(J[: len(library)]), left)


def _absent(operators: tuple[WeakOperator, ...], data: Data) -> set[str]:
    """Operators that a known quantity which is zero in this experiment makes zero."""
    words = operators[0].words
    zeros = {words.jet(name): 0 for name in words.numbers if data.auxiliary[name][0] == 0}
    some = [o for o in operators if zeros and any(zeros.keys() & t.integrand.free_symbols for t in o.terms)]
    return {o.name for o in some if all(t.integrand.xreplace(zeros) == 0 for t in o.terms)}


def _with_densities(
    structure: Structure, layout: Layout, densities: Mapping[str, tuple[WeakOperator, Blocks | None]]
) -> Structure:
    """The structure with M diag(ρ) in place of M in some equations; one term for each equation, in their order."""
    terms: list[JacobianKind] = []
    for equation, plain in zip(layout.equations, layout.mass_terms(), strict=True):
        operator, J = densities.get(equation, (None, None))
        if operator is None:
            terms.append(plain)
            continue
        if J is None or len(J) != 1 or len(J[0][2]) != 1 or operator.reads != (equation,) or operator.on_data:
            raise OperatorError(
                f"left: dt({operator.text}): only a known factor that does not change in time may stand before "
                f"{equation}, as in dt(rho*{equation})."
            )
        terms += layout.sensitivity(operator, J, 1.0).terms
    mass = Sensitivity(layout.pattern, tuple(terms))
    if structure.mass_at_nodes is None:
        return replace(structure, given=mass.values(0))
    return replace(structure, mass_at_nodes=mass)


def _time_terms(space: Space, u: Array, a: Any, *, times_first: bool) -> Array:
    """Σ_j a_kj M u_j of every test function for u (n, T), (n_tests, K); times go first where there are fewer blocks."""
    if times_first:
        sums = np.zeros((len(u), a.shape[0]))
        for times in slabs(u.T):
            sums += u[:, times] @ a[:, times].toarray().T
        return space.mass_times(sums)
    return np.asarray((a @ space.mass_times(u).T).T)


def _thinned_structure(layout: Layout, times: Array, stencil: Stencil, order: int, chosen: Thinned) -> Structure:
    """The structure at some nodes and times."""
    assert isinstance(stencil, TemporalTests)
    a, b = stencil.at(times, chosen.time.chosen, order)
    return replace(_structure(layout, times[chosen.time.chosen], a, b, None), thinned=chosen)


def _usable(
    data: Data, library: Library, operators: tuple[WeakOperator, ...], space: Space, stencil: Stencil
) -> tuple[Layout, Any, Any, Mask | None]:
    """Layout, time stencil and active residuals (N, K), without tests and blocks that missing values leave empty."""
    layout = Layout(library, operators, space)
    a, b = stencil.matrices(data.times, library.time_order)
    if longest := library.longest_lag:
        if not space.nodal:
            raise OperatorError("lag(...) needs spline tests; leave the method out.")
        whole = without_history(b, data.times, longest)
        a, b = a[whole], b[whole]
    missing = missing_unknowns(data, layout.fields, space.transfer)
    if missing is not None:
        missing = np.maximum(missing, _read_later(missing, operators, data))
    missing = _spread(_with_jumps(missing, data, operators, layout), operators, space)
    there = _something(data, layout.fields, operators) if space.nodal else None
    if missing is None and there is None:
        return layout, a, b, None
    M = layout.mass()
    active = np.ones((layout.pattern.shape[0], a.shape[0]), dtype=bool)
    if missing is not None:
        active &= active_residuals(layout.pattern, M, a, b, missing, nodal=space.nodal, fields=len(layout.fields))
    if there is not None:
        active &= _touched_part(layout.pattern.matrix(M), a, b, there) > _EMPTY
    tests, blocks = np.asarray(active.any(axis=1)), np.asarray(active.any(axis=0))
    for equation in layout.equations:
        if not tests[layout.rows(equation)].any():
            raise DataError(
                f"measured: every residual of the equation of {equation!r} depends on a value that was not measured, "
                "or on one where a known field jumps; use narrower test functions (a smaller gap), a stencil over "
                "fewer times, or fill the gaps yourself."
            )
    if not tests.all():
        kept = {e: layout.tests[e][tests[layout.rows(e)]] for e in layout.equations}
        layout = Layout(library, operators, space, kept)
    active = active[tests][:, blocks]
    return layout, a[blocks], b[blocks], None if active.all() else active


def _read_later(missing: Array, operators: tuple[WeakOperator, ...], data: Data) -> Array:
    """Where a value that was not measured is read at a later time, (n_u, T)."""
    found = np.zeros_like(missing)
    for L in shifts(operators, data.times).values():
        found = np.maximum(found, (missing @ (L != 0).T.astype(float)) > 0)
    return found


def _with_jumps(missing: Array | None, data: Data, operators: tuple[WeakOperator, ...], layout: Layout) -> Array | None:
    """Missing unknowns (n_u, T), and on nodal spaces those where a known field that operators read jumps."""
    found = jumps(data, known_fields(operators)) if layout.space.nodal else None
    if found is None:
        return missing
    at_jumps = np.tile(found[:, None].astype(float), (len(layout.fields), data.n_times))
    return at_jumps if missing is None else np.maximum(missing, at_jumps)


def _something(data: Data, fields: tuple[str, ...], operators: tuple[WeakOperator, ...]) -> Array | None:
    """One where a value is not zero, (n_u, T), of counts with wide empty places; None elsewhere.

    Residuals over hardly anything but zeros are zero whatever the equation: they would count as too small a misfit.
    """
    values = [data.fields[f] for f in fields]
    zeros = sum(int(np.sum(u[rows] == 0)) for u in values for rows in slabs(u)) / sum(u.size for u in values)
    if zeros < _ZEROS or any(operator.has_source for operator in operators):
        return None
    return np.concatenate([np.asarray(u.T != 0, dtype=float) for u in values])


def _touched_part(M: Any, a: Any, b: Any, there: Array) -> Array:
    """Part of the values that a residual reads which are there, (N, K), for M (N × n_u) and there (n_u, T)."""
    in_space, in_time = touched(M), touched(abs(a) + abs(b))
    found = (in_time @ (in_space @ there).T).T
    return np.asarray(found / np.outer(in_space.sum(axis=1), in_time.sum(axis=1)))


def _spread(missing: Array | None, operators: tuple[WeakOperator, ...], space: Space) -> Array | None:
    """Missing unknowns (n_u, T), and on nodal spaces those whose derivative reads one."""
    read = {index for operator in operators for index in operator.on_data}
    if missing is None or not space.nodal or not read:
        return missing
    by_field, n = missing, space.n_dofs
    for D in (space.derivative_at_nodes(index).magnitude() for index in read):
        reached = [D @ missing[start : start + n] for start in range(0, len(missing), n)]
        by_field = np.maximum(by_field, np.concatenate(reached) > 0)
    return by_field


def _structure(layout: Layout, times: Array, a: Any, b: Any, active: Mask | None) -> Structure:
    """What the residuals of an experiment share."""
    space = layout.space
    tests = [layout.tests[e] for e in layout.equations]
    return Structure(
        pattern=layout.pattern,
        given=None if space.nodal else layout.mass(),
        a=a,
        b=b,
        coordinates=np.concatenate([space.test_points[t] for t in tests]),
        equations=layout.equations,
        equation_of_row=np.repeat(np.arange(len(tests)), [len(t) for t in tests]),
        fields=layout.fields,
        n_dofs=space.n_dofs,
        times=times,
        transfer=space.transfer,
        active=active,
        mass_at_nodes=layout.mass_at_nodes() if space.nodal else None,
    )
