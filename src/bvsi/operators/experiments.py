"""Coefficients and parameters that differ by experiment, as operators of known quantities that are 0 or 1. ::

    u            →  u*experiment_1, u*experiment_2, …         one coefficient each
    u/(K + u)    →  K_1*experiment_1 + K_2*experiment_2 + … in the place of K

``experiment_1`` is one in the first experiment and zero in all others, an auxiliary field as any other: nothing after
this knows of experiments that differ.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bvsi.data import Data
from bvsi.errors import OperatorError
from bvsi.operators.library import Inserted, Library
from bvsi.operators.parameters import Parameter, carried
from bvsi.operators.syntax import Operator, Syntax, read
from bvsi.operators.vocabulary import Vocabulary

_MARK = "experiment_"


def by_experiment(library: Library, experiments: Sequence[Data]) -> tuple[Library, tuple[Data, ...]]:
    """The library and the data with what differs by experiment written out; as they are where nothing does."""
    if not library.per_experiment:
        return library, tuple(experiments)
    n = len(experiments)
    marked = tuple(with_marks(one, number, n) for number, one in enumerate(experiments))
    return written_out(library, n, marked[0].names), marked


def written_out(library: Library, n: int, fields: Sequence[str] = ()) -> Library:
    """The library for n experiments.

    Parameters
    ----------
    fields
        Names that parameters must not get.
    """
    own = [name for name in library.per_experiment if name in library.parameters]
    parameters: dict[str, Parameter] = {name: p for name, p in library.parameters.items() if name not in own}
    sums: dict[str, Syntax] = {}
    for name in own:
        copies = [f"{name}_{number}" for number in range(1, n + 1)]
        taken = [one for one in copies if one in (*library.parameters, *fields)]
        if taken:
            raise OperatorError(f"per_experiment: {name!r} becomes {taken[0]!r}, which has a meaning; rename one.")
        parameters |= {one: replace(library.parameters[name], group=name) for one in copies}
        sums[name] = read(" + ".join(f"{one}*{_MARK}{number}" for number, one in enumerate(copies, 1)))
    first = {name: one.first for name, one in parameters.items()}
    split = {name for name in library.per_experiment if name not in own}
    made = {
        field: [
            copy if copy.free else carried(copy, first)
            for o in library.of_equation(field)
            for copy in _copies(_inserted(o, sums), o.name in split, n)
        ]
        for field in library.equations
    }
    keep = [copy.name for copies in made.values() for copy in copies if _origin(copy.name) in library.keep]
    return library.with_(keep=tuple(keep), parameters=parameters, per_experiment=()).with_operators(made)


def of_experiment(library: Library, data: Data, number: int, words: Vocabulary | None) -> tuple[Library, Data]:
    """The library and one more record of experiment ``number``, counted from one, of those that the words have."""
    if not library.per_experiment:
        return library, data
    n = sum(name.startswith(_MARK) for name in (words.auxiliary if words else ()))
    if not 1 <= number <= n:
        raise OperatorError(f"experiment: a number from 1 to {n} is needed, not {number!r}.")
    return written_out(library, n), with_marks(data, number - 1, n)


def with_marks(data: Data, number: int, n: int) -> Data:
    """The data of experiment ``number`` of n, counted from zero, with the known quantities that say so."""
    marks = {f"{_MARK}{i + 1}": np.full(data.n_nodes, float(i == number)) for i in range(n)}
    return replace(data, auxiliary={**data.auxiliary, **marks})


def _inserted(operator: Operator, sums: dict[str, Syntax]) -> Operator:
    """The operator with the sums in the places of parameters."""
    free = operator.free
    if free is None or not free.names & {*sums}:
        return operator
    tree = Inserted(sums).visit(ast.parse(ast.unparse(free.tree), mode="eval").body)
    return Operator(operator.name, operator.equation, operator.source, free.part(tree), tie=operator.tie)


def _copies(operator: Operator, differs: bool, n: int) -> list[Operator]:
    """The operator of every experiment, or itself."""
    if not differs:
        return [operator]
    made, free = [], operator.free or operator.syntax
    for number in range(1, n + 1):
        text = f"({ast.unparse(free.tree)})*{_MARK}{number}"
        tie = f"{operator.tie}*{_MARK}{number}" if operator.tie else ""
        made.append(
            Operator(f"{operator.name}*{_MARK}{number}", operator.equation, operator.source, read(text), tie=tie)
        )
    return made


def _origin(name: str) -> str:
    """The operator of which one of an experiment was made."""
    front, mark, number = name.rpartition(f"*{_MARK}")
    return front if mark and number.isdigit() else name
