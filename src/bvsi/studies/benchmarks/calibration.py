"""Simulation-based calibration of the conjugate posteriors (Talts et al. 2018, arXiv:1804.06788).

    θ ~ prior,   y = Xθ + ε,   rank of θ_i among L posterior draws:   uniform on 0 … L where the posterior is right

The lagged fit is exactly Bayesian where the covariance does not depend on θ. So the systems here have X of real data
and no sensitivity of the operators, J = 0: Σ_k = Σ_j a_kj² M Σ_u Mᵀ. Two models:

    known noise     θ ~ N(μ_0, Σ_0)
    unknown noise   σ² ~ Inv-Gamma(α, β),   θ | σ² ~ N(μ_0, σ² Σ_0)
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chisquare

from bvsi.app.files import png_bytes, write_whole
from bvsi.common.progress import Progress, progress_bar, silent
from bvsi.data import Data, Grid
from bvsi.errors import BvsiError
from bvsi.infer import Lagged
from bvsi.infer.posteriors import NormalInverseGammaPosterior, Posterior
from bvsi.infer.priors import GaussianPrior, InverseGammaPrior
from bvsi.likelihood import ResidualLikelihood, residual_likelihood
from bvsi.noise import IID, UnknownScale
from bvsi.operators import Library, NoFlux
from bvsi.residual import ResidualSystem, Sensitivity, assemble

Array = NDArray[np.float64]

DRAWS = 99
"""L: ranks take 100 values, five to a bin."""

BINS = 20

LEVEL = 0.01
"""Probability that right posteriors fail, over all quantities together."""

SIGMA = 0.3
"""Standard deviation of the known noise, such that neither data nor prior settle the coefficients alone."""

NOISE_VARIANCE = "σ²"

_MEAN = {"laplacian(u)": 0.05, "u*dx(u)": -0.4, "u": 0.5}
_SD = {"laplacian(u)": 0.03, "u*dx(u)": 0.3, "u": 0.4}


class CalibrationRow(TypedDict):
    """Ranks of one quantity of one model, (replications,), and the p-value of their uniformity."""

    model: str
    quantity: str
    p: float
    ranks: list[float]


@dataclass(frozen=True, eq=False)
class CalibrationModel:
    """What replications are drawn from, and fitted with.

    Attributes
    ----------
    noise_prior
        Noise prior of σ², where the noise is unknown; variances of ``prior`` are in units of σ² then.
    """

    name: str
    likelihood: ResidualLikelihood
    prior: GaussianPrior
    noise_prior: InverseGammaPrior | None

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of what is ranked: the coefficients, and σ² where it is unknown."""
        return (*self.likelihood.names, *([] if self.noise_prior is None else [NOISE_VARIANCE]))


def main(arguments: list[str] | None = None) -> int:
    """Rank true coefficients among draws of their posteriors, and test the ranks for uniformity."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.benchmarks.calibration", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for results (default: bench)")
    parser.add_argument("--replications", type=int, default=500, help="data sets per model, 100 or more (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all draws (default 0)")
    options = parser.parse_args(arguments)
    if options.replications < 5 * BINS or options.seed < 0:
        parser.error(f"--replications must be at least {5 * BINS}, five to a bin, and --seed not negative")
    rng = np.random.default_rng(options.seed)
    with progress_bar() as progress:
        rows = [row for model in models() for row in study(model, options.replications, rng, progress)]
    right = calibrated([row["p"] for row in rows])
    result = {"replications": options.replications, "draws": DRAWS, "level": LEVEL, "calibrated": right, "rows": rows}
    write_whole(options.out / "calibration.json", json.dumps(result, indent=1))
    _draw(rows, options.out / "calibration.png")
    sys.stdout.write(_table(rows, right))
    return 0 if right else 1


def models() -> tuple[CalibrationModel, CalibrationModel]:
    """Known and unknown noise on one system."""
    system, mean_variance = insensitive_system(), SIGMA**2
    known = GaussianPrior({name: (_MEAN[name], _SD[name] ** 2) for name in system.names})
    scaled = GaussianPrior({name: (_MEAN[name], _SD[name] ** 2 / mean_variance) for name in system.names})
    alpha = 4.0
    return (
        CalibrationModel("known noise", residual_likelihood(system, IID(SIGMA)), known, None),
        CalibrationModel(
            "unknown noise",
            residual_likelihood(system, UnknownScale()),
            scaled,
            InverseGammaPrior(alpha, (alpha - 1) * mean_variance),
        ),
    )


def insensitive_system() -> ResidualSystem:
    """Residuals of decaying waves, with J = 0, so that Σ does not depend on θ."""
    x, times = np.linspace(0, 1, 9), np.linspace(0, 0.5, 6)
    waves = [np.cos(m * np.pi * x) * np.exp(-m * times[:, None]) for m in (1, 2, 3)]
    data = Data(times=times, fields={"u": 1.0 + np.sum(waves, axis=0)}, geometry=Grid(x=x))
    system = assemble(data, Library({"u": list(_MEAN)}, boundary=NoFlux()))
    (residuals,) = system.experiments
    still = Sensitivity(residuals.structure.pattern, ())
    return replace(system, experiments=(replace(residuals, J=(still,) * system.d),))


def study(
    model: CalibrationModel, replications: int, rng: np.random.Generator, progress: Progress = silent
) -> list[CalibrationRow]:
    """Relative ranks of every quantity of a model, and the p-value of their uniformity."""
    ranks = []
    for done in range(1, replications + 1):
        truth, likelihood = replicate(model, rng)
        ranks.append(relative_ranks(fit(model, likelihood), truth, rng))
        progress(done, replications, model.name)
    return [
        {"model": model.name, "quantity": name, "p": uniformity(column), "ranks": column.tolist()}
        for name, column in zip(model.quantities, np.array(ranks).T, strict=True)
    ]


def replicate(model: CalibrationModel, rng: np.random.Generator) -> tuple[Array, ResidualLikelihood]:
    """True values of all quantities, drawn from the prior, and the likelihood of data made with them.

    y_k = X_k θ + Σ_j a_kj M ε_kj,   ε_kj ~ N(0, σ² I), drawn again for every block
    """
    likelihood, given = model.likelihood, model.noise_prior
    bound = model.prior.bind(likelihood.names)
    variance = SIGMA**2 if given is None else given.beta / rng.gamma(given.alpha)
    unit = 1.0 if given is None else variance
    theta = bound.mean + np.sqrt(unit / np.diag(bound.precision)) * rng.standard_normal(len(bound.mean))
    (residuals,) = likelihood.system.experiments
    structure = residuals.structure
    weight = np.sqrt(variance * structure.a.power(2).sum(axis=1))
    draws = rng.standard_normal((structure.n_state, structure.n_blocks))
    Z = residuals.Z.copy()
    Z[:, :, 0] = residuals.X @ theta + weight * (structure.pattern.matrix(structure.M) @ draws)
    system = replace(likelihood.system, experiments=(replace(residuals, Z=Z),))
    truth = theta if given is None else np.append(theta, variance)
    return truth, replace(likelihood, system=system)


def fit(model: CalibrationModel, likelihood: ResidualLikelihood) -> Posterior:
    """The posterior under test."""
    found = Lagged().fit(likelihood, prior=model.prior, noise_prior=model.noise_prior)
    assert found.posterior is not None
    return found.posterior


def relative_ranks(posterior: Posterior, truth: Array, rng: np.random.Generator) -> Array:
    """(number of draws below the truth + ½)/(L + 1) of every coefficient, and of σ² where the posterior has it."""
    draws = posterior.sample(DRAWS, rng)
    if isinstance(posterior, NormalInverseGammaPosterior):
        draws = np.column_stack([draws, posterior.beta / rng.gamma(posterior.alpha, size=DRAWS)])
    return np.asarray(((draws < truth).sum(axis=0) + 0.5) / (DRAWS + 1))


def uniformity(ranks: Array) -> float:
    """p-value of Σ_b (count_b − n/B)²/(n/B) ~ χ²_{B−1} for relative ranks (n,) in B bins."""
    if len(ranks) < 5 * BINS:
        raise BvsiError(f"ranks: the χ² test of {BINS} bins needs {5 * BINS} ranks or more; there are {len(ranks)}.")
    return float(chisquare(np.histogram(ranks, bins=BINS, range=(0, 1))[0]).pvalue)


def calibrated(p_values: Sequence[float]) -> bool:
    """Whether no p-value is below the level shared out among all of them (Bonferroni)."""
    return min(p_values) >= LEVEL / len(p_values)


def _table(rows: list[CalibrationRow], right: bool) -> str:
    lines = [f"{row['model']:<16}{row['quantity']:<16}p = {row['p']:.3f}" for row in rows]
    bound = f"smallest p-value allowed: {LEVEL / len(rows):.4f}"
    return "\n".join([*lines, bound, "calibrated" if right else "NOT calibrated: the posteriors are wrong"]) + "\n"


def _draw(rows: list[CalibrationRow], path: Path) -> None:
    from matplotlib.figure import Figure

    from bvsi.app.plot import rank_histogram

    by_model = [[row for row in rows if row["model"] == name] for name in dict.fromkeys(row["model"] for row in rows)]
    columns = max(map(len, by_model))
    figure = Figure(figsize=(3.4 * columns, 3.2 * len(by_model)), layout="constrained")
    for line, of_model in zip(figure.subplots(len(by_model), columns, squeeze=False), by_model, strict=True):
        for ax, row in zip(line, of_model, strict=False):
            rank_histogram(ax, row["ranks"], BINS, f"{row['model']}: {row['quantity']}\np = {row['p']:.2f}")
        for ax in line[len(of_model) :]:
            ax.remove()
    write_whole(path, png_bytes(figure, dpi=110))


if __name__ == "__main__":
    raise SystemExit(main())
