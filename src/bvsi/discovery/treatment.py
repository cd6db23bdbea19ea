"""Which treatment of ∇⁴ the data ask for: both are fitted with all operators, the one that fits better is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bvsi.common.progress import Progress, silent
from bvsi.data import Data
from bvsi.errors import RankError
from bvsi.infer import Profile
from bvsi.likelihood import ResidualLikelihood, Weighting, residual_likelihood
from bvsi.noise import Noise
from bvsi.operators import Biharmonic, Library
from bvsi.residual import Stencil, assemble
from bvsi.residual.assembly import biharmonic_treatments
from bvsi.spaces import Element, Galerkin


@dataclass(frozen=True)
class TreatmentCheck:
    """χ²/n of the whole library by treatment; the first is the one used. Empty where there is no choice."""

    chi2: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        if not self.chi2:
            return "no choice"
        (used, first), *others = self.chi2
        rest = "; ".join(f"{name}: {chi2:.4g}" for name, chi2 in others)
        return f"{used}, with χ²/n = {first:.4g} for all operators; {rest}"


def treatments(library: Library, element: Element) -> tuple[Biharmonic, ...]:
    """Treatments that the element allows, where the library leaves it open."""
    return biharmonic_treatments(library, element) if library.biharmonic is None else ()


def with_treatment(
    experiments: Sequence[Data],
    library: Library,
    noise: Noise | Sequence[Noise],
    *,
    discretisation: Galerkin,
    stencil: Stencil,
    weighting: Weighting,
    elsewhere: Callable[[Library], ResidualLikelihood] | None = None,
    progress: Progress = silent,
) -> tuple[Library, TreatmentCheck]:
    """The library with the treatment of ∇⁴ that fits better, and how well each does.

    elsewhere: makes the likelihood of a library, on a cluster; by default it is made here.
    """

    def here(candidate: Library) -> ResidualLikelihood:
        system = assemble(experiments, candidate, discretisation=discretisation, stencil=stencil, progress=progress)
        return residual_likelihood(system, noise, weighting)

    options = treatments(library, discretisation.element_for(experiments[0].geometry))
    if len(options) < 2 or not weighting.uses_noise:
        return library, TreatmentCheck()
    found = []
    for treatment in options:
        candidate = library.with_biharmonic(treatment)
        likelihood = (elsewhere or here)(candidate)
        try:
            fit = Profile().fit(likelihood, progress=progress)
        except RankError:  # told where the library is fitted; the check has nothing to say
            return library, TreatmentCheck()
        # with unknown noise χ²/n is one for both, and the noise level tells them apart
        found.append((fit.equations.q / fit.equations.n, treatment.name, candidate))
    found.sort(key=lambda entry: entry[0])
    return found[0][2], TreatmentCheck(tuple((name, chi2) for chi2, name, _ in found))
