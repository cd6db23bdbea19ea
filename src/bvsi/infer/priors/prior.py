"""Priors by operator name, of any distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvsi.common.arrays import Array
from bvsi.common.naming import matches, squeeze
from bvsi.errors import BvsiError
from bvsi.infer.priors.density import BoundPrior, JointNormal, PriorDensity, PriorFactor
from bvsi.infer.priors.distributions import LIMIT, REAL, Distribution, Flat, Normal

Names = str | tuple[str, ...]


@dataclass(frozen=True)
class ColumnScale:
    """θ_i ~ N(0, 1/(weight H_ii)): a weak prior whose scale follows the columns of X, so that units do not matter.

    H = XᵀWX is the information of the data, (d, d). Where H_ii = 0 the prior is flat.

    Parameters
    ----------
    weight
        Information of the prior relative to that of the data on an operator alone. Where operators are nearly alike the
        data know little of each, so that it has to be far below 1/n to be weak.
    """

    weight: float = 1e-10

    def __post_init__(self) -> None:
        if not (isinstance(self.weight, REAL) and 0 < self.weight <= LIMIT):
            raise BvsiError(f"weight: a positive number is needed, such as 1e-10; got {self.weight!r}.")

    def law(self, information: float) -> Distribution:
        """The prior of an operator with H_ii = information."""
        precision = self.weight * information
        return Normal(0.0, 1 / precision) if precision >= 1 / LIMIT else Flat()


@dataclass(frozen=True)
class Prior:
    """p(θ) = Π_f p_f(θ_f), by operator name.

    Attributes
    ----------
    terms
        Name → :class:`Distribution`, and tuple of names → :class:`JointNormal`. White space does not count, and the
        equation in front may be left out; a name that stands in several equations is given its prior in each. Operators
        that a model lacks are ignored; a joint prior is marginalised to those present.
    default
        Default of operators that are not named.
    """

    terms: Mapping[Names, Distribution | JointNormal]
    default: Distribution | ColumnScale = field(default_factory=ColumnScale)

    def __post_init__(self) -> None:
        check_terms(self.terms)
        for key, law in self.terms.items():
            _check_entry(key, law)
        if not (isinstance(self.default, ColumnScale) or _is_distribution(self.default)):
            raise BvsiError(
                "default: a distribution such as Flat() or Normal(0, 1), or ColumnScale(), is needed, "
                f"not {self.default!r}."
            )
        object.__setattr__(self, "terms", dict(self.terms))  # what was checked stays as it was

    def needs_information(self, names: tuple[str, ...]) -> bool:
        """Whether :meth:`bind` needs the information of the data, for operators with the default ColumnScale()."""
        return isinstance(self.default, ColumnScale) and bool(_unnamed(self._named(names), names))

    def bind(self, names: tuple[str, ...], information: ArrayLike | None = None) -> PriorDensity:
        """The density for a list of d operators.

        Parameters
        ----------
        information
            H_ii, (d,), where :meth:`needs_information`.
        """
        if len(set(map(squeeze, names))) != len(names):
            raise BvsiError(f"names: every operator may stand there once, not {names!r}.")
        named = self._named(names)
        rest = _unnamed(named, names)
        if isinstance(self.default, ColumnScale):
            H = _check_information(information, [names[i] for i in rest], len(names))
            default = [_factor([i], self.default.law(float(H[i]))) for i in rest]
        else:
            default = [_factor(rest, self.default)] if rest else []
        return PriorDensity(tuple(names), (*named, *default), tuple(names[i] for i in rest))

    def _named(self, names: tuple[str, ...]) -> list[PriorFactor]:
        """The factors of the operators that are named, each of them once."""
        owner: dict[int, Names] = {}
        factors = []
        for key, law in self.terms.items():
            for factor in _factors(key, law, names):
                factors.append(factor)
                for i in factor.positions.tolist():
                    if i in owner:
                        raise BvsiError(f"prior: {owner[i]!r} and {key!r} both name {names[i]!r}; keep one of them.")
                    owner[i] = key
        return factors


def check_terms(terms: object) -> None:
    """Refuse what is not a mapping."""
    if not isinstance(terms, Mapping):
        raise BvsiError(f"terms: a mapping from operator names to their priors is needed, not {terms!r}.")


def _check_entry(key: object, law: object) -> None:
    members = key if isinstance(key, tuple) else (key,)
    if not members or not all(isinstance(name, str) and squeeze(name) for name in members):
        raise BvsiError(f"terms: operator names or tuples of them are needed, not {key!r}.")
    if isinstance(key, str):
        if not _is_distribution(law):
            raise BvsiError(f"prior of {key!r}: a distribution such as Normal(0, 1) is needed, not {law!r}.")
    elif not isinstance(law, JointNormal):
        raise BvsiError(f"prior of {key!r}: several operators together need a JointNormal, not {law!r}.")
    elif len(law.mean) != len(members):
        raise BvsiError(
            f"prior of {key!r}: these are {len(members)} operators, and its JointNormal is of {len(law.mean)}."
        )


def _is_distribution(law: object) -> bool:
    # a class, such as Normal without its parameters, has the same attributes as an instance
    return isinstance(law, Distribution) and not isinstance(law, type | JointNormal)


def _factor(positions: list[int], law: Distribution | JointNormal) -> PriorFactor:
    return PriorFactor(np.array(positions, dtype=np.intp), law)


def _factors(key: Names, law: Distribution | JointNormal, names: tuple[str, ...]) -> list[PriorFactor]:
    """One factor, or none where the model lacks the operators."""
    if not isinstance(law, JointNormal):
        found = matches(str(key), names)
        return [_factor(found, law)] if found else []
    members = [matches(name, names) for name in key]
    for name, found in zip(key, members, strict=True):
        if len(found) > 1:
            raise BvsiError(f"prior of {key!r}: {name!r} stands in several equations; write {names[found[0]]!r}.")
    present = [m for m, found in enumerate(members) if found]
    positions = [members[m][0] for m in present]
    if len(set(positions)) < len(positions):
        raise BvsiError(f"prior of {key!r}: one operator is named twice; name each once.")
    return [_factor(positions, law.marginal(present))] if present else []


def _unnamed(factors: list[PriorFactor], names: tuple[str, ...]) -> list[int]:
    """Positions of the operators in none of the factors."""
    named = {i for factor in factors for i in factor.positions.tolist()}
    return [i for i in range(len(names)) if i not in named]


def _check_information(information: ArrayLike | None, wanted: list[str], d: int) -> Array:
    """H_ii, (d,); zero where nothing is known and none is wanted."""
    if information is None:
        if wanted:
            raise BvsiError(
                "information: the diagonal of XᵀWX is needed for operators with the default ColumnScale(): "
                f"{', '.join(map(repr, wanted))}; give it, name these operators, or set another default."
            )
        return np.zeros(d)
    H = np.asarray(information, dtype=np.float64)
    if H.shape != (d,) or not np.all((H >= 0) & (H <= LIMIT)):
        raise BvsiError(f"information: {d} finite numbers that are not negative are needed, not {information!r}.")
    return H


@dataclass(frozen=True)
class GaussianPrior:
    """θ_i ~ N(mean_i, variance_i), independent, by operator name.

    Attributes
    ----------
    terms
        Name → (mean, variance), and tuple of m names → mean (m,) and covariance (m, m).
    default
        (mean, variance) of operators that are not named; None leaves them flat.
    prior
        The same as a :class:`Prior`.
    """

    terms: Mapping[Any, tuple[Any, Any]]
    default: tuple[float, float] | None = None
    prior: Prior = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_terms(self.terms)
        terms: dict[Names, Distribution | JointNormal] = {
            name: JointNormal(*entry) if isinstance(name, tuple) else _normal(name, entry)
            for name, entry in self.terms.items()
        }
        default = Flat() if self.default is None else _normal("default", self.default)
        object.__setattr__(self, "prior", Prior(terms, default))

    def bind(self, names: tuple[str, ...]) -> BoundPrior:
        """Mean and precision for a list of operators."""
        return self.prior.bind(names).gaussian


def _normal(name: object, entry: tuple[float, float]) -> Normal:
    try:
        mean, variance = entry
        return Normal(mean, variance)
    except (TypeError, ValueError):
        raise BvsiError(f"prior of {name!r}: a pair (mean, variance > 0) is needed, not {entry!r}.") from None


@dataclass(frozen=True)
class InverseGammaPrior:
    """σ² ~ Inv-Gamma(alpha, beta). The default is the reference prior p(σ²) ∝ 1/σ²."""

    alpha: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.alpha) and np.isfinite(self.beta) and self.alpha >= 0 and self.beta >= 0):
            raise BvsiError(f"Inverse-Gamma prior: alpha and beta must not be negative, got {self.alpha}, {self.beta}.")
