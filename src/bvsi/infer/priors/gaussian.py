"""Gaussian priors by operator name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bvsi.errors import BvsiError
from bvsi.infer.priors.bound import BoundPrior
from bvsi.infer.priors.distribution import Distribution
from bvsi.infer.priors.distributions import Flat, Normal
from bvsi.infer.priors.joint import JointNormal
from bvsi.infer.priors.prior import Names, Prior, check_terms


@dataclass(frozen=True)
class GaussianPrior:
    """θ_i ~ N(mean_i, variance_i), independent, by operator name.

    terms: name → (mean, variance). default: (mean, variance) of operators that are not named; None leaves them flat.
    prior: the same as a :class:`Prior`.
    """

    terms: Mapping[str, tuple[float, float]]
    default: tuple[float, float] | None = None
    prior: Prior = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_terms(self.terms)
        terms: dict[Names, Distribution | JointNormal] = {
            name: _normal(name, entry) for name, entry in self.terms.items()
        }
        default = Flat() if self.default is None else _normal("default", self.default)
        object.__setattr__(self, "prior", Prior(terms, default))

    def bind(self, names: tuple[str, ...]) -> BoundPrior:
        """Mean and precision for a list of operators."""
        return self.prior.bind(names).gaussian


def bind_prior(prior: GaussianPrior | None, names: tuple[str, ...]) -> BoundPrior:
    """The prior for a list of operators; None is flat."""
    return GaussianPrior({}).bind(names) if prior is None else prior.bind(names)


def _normal(name: object, entry: tuple[float, float]) -> Normal:
    try:
        mean, variance = entry
        return Normal(mean, variance)
    except (TypeError, ValueError):
        raise BvsiError(f"prior of {name!r}: a pair (mean, variance > 0) is needed, not {entry!r}.") from None
