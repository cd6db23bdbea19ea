"""Errors of bvsi. Each message names the argument at fault and says what to do."""

from __future__ import annotations


class BvsiError(ValueError):
    """Base of every error that bvsi raises on purpose."""


class DataError(BvsiError):
    """The data given are not usable as they are: shapes, times, NaN, axis names."""


class MissingValuesError(DataError):
    """A field has NaN values that were not declared as missing."""


class SpaceError(BvsiError):
    """The finite element space does not fit the data or the operators."""


class OperatorError(BvsiError):
    """An operator text or expression is not understood, or has no weak form on the space chosen."""


class NoiseError(BvsiError):
    """The noise model does not fit the data, or is not a covariance."""


class RankError(BvsiError):
    """The data cannot tell some operators apart; ``operators`` names them, one group per lost dimension."""

    def __init__(self, message: str, operators: tuple[tuple[str, ...], ...]) -> None:
        super().__init__(message)
        self.operators = operators

    def __reduce__(self) -> tuple[type[RankError], tuple[object, ...]]:
        return type(self), (str(self), self.operators)


class NotPositiveDefiniteError(BvsiError):
    """A matrix that has to be positive definite is not; ``label`` says which one, ``row`` where it broke."""

    def __init__(self, message: str, label: str, row: int) -> None:
        super().__init__(message)
        self.label = label
        self.row = row

    def __reduce__(self) -> tuple[type[NotPositiveDefiniteError], tuple[object, ...]]:
        return type(self), (str(self), self.label, self.row)


class MissingDependencyError(BvsiError, ImportError):
    """An optional package is needed; the message says how to install it."""


class InfeasibleError(BvsiError):
    """Constraints that cannot hold together; ``rows`` holds their texts, none of which can be spared."""

    def __init__(self, message: str, rows: tuple[str, ...]) -> None:
        super().__init__(message)
        self.rows = rows

    def __reduce__(self) -> tuple[type[InfeasibleError], tuple[object, ...]]:
        return type(self), (str(self), self.rows)
