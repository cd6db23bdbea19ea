"""A Fisher front of which most values are missing: masks that move with time, holes, cropped frames, blobs.

``python -m bvsi.studies.masks --seed 0``: u_t = D Δu + r u (1 − u/K) on 64² nodes and 40 frames, 3% noise, eight
candidates, discovery at its defaults. For each mask and noise seed: were the right three operators found, how many
standard deviations are they off, do the 95% intervals hold the truth, is the verdict consistent. Then the same without
u² among the candidates, when it must not be. The seed decides colonies, masks and noise.

The solution is a cosine series of 128² modes in ETDRK4, with eight steps from frame to frame, sampled at every second
of its nodes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn, idctn

from bvsi.check import Verdict
from bvsi.data import Data, Grid
from bvsi.discovery import Discovery, discover
from bvsi.errors import BvsiError
from bvsi.operators import Library
from bvsi.studies.benchmarks.discovery.metrics import standard_scores
from bvsi.studies.problems.etdrk4 import ETDRK4

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rng = np.random.Generator

D, GROWTH, CAPACITY = 0.5, 1.0, 1.0
LENGTH, NODES, FRAMES, FINAL = 40.0, 64, 40, 10.0
NOISE = 0.03
"""Standard deviation of the noise, as a part of that of the field."""
MASKED = 0.56
"""Part of the values that the moving band hides."""
TRUTH = {"laplacian(u)": D, "u": GROWTH, "u**2": -GROWTH / CAPACITY}
CANDIDATES: tuple[str, ...] = ("laplacian(u)", "u", "u**2", "u**3", "dx(u)", "dy(u)", "1", "laplacian(u**2)")
LACKING = "u**2"
_STEPS = 8  # between frames; with four the solution differs by 2e-8


def nodes() -> Array:
    """Places of the nodes along an axis: the first of every two cells of the solver has its middle there."""
    return (2 * np.arange(NODES) + 0.5) * LENGTH / (2 * NODES)


def front(rng: Rng) -> tuple[Array, Array]:
    """Times and exact values (T, n, n) of five colonies that grow and merge."""
    cells = 2 * NODES
    x = (np.arange(cells) + 0.5) * LENGTH / cells
    X, Y = np.meshgrid(x, x, indexing="ij")
    u = np.zeros((cells, cells))
    for _ in range(5):
        (x0, y0), width = LENGTH / 2 + rng.uniform(-7, 7, 2), rng.uniform(1.5, 3)
        u += rng.uniform(0.4, 0.9) * np.exp(-((X - x0) ** 2 + (Y - y0) ** 2) / (2 * width**2))
    q = np.pi * np.arange(cells) / LENGTH
    step = ETDRK4.of(-D * (q[:, None] ** 2 + q**2), FINAL / (FRAMES - 1) / _STEPS)

    def growth(series: Array) -> Array:
        v = idctn(series)
        return np.asarray(dctn(GROWTH * v * (1 - v / CAPACITY)))

    series, frames = dctn(0.95 * u / max(0.95, float(u.max()))), []
    for _ in range(FRAMES):
        frames.append(idctn(series)[::2, ::2])
        series = step.advance(series, _STEPS, growth)
    return np.linspace(0, FINAL, FRAMES), np.stack(frames)


def _numbers() -> tuple[Array, Array]:
    """Numbers of the nodes along both axes, (n, 1) and (1, n)."""
    along = np.arange(NODES, dtype=float)
    return along[:, None], along[None]


def _band(u: Array, rng: Rng) -> Mask:
    """The front itself is seen, with the quantile of |logit u| that leaves ``MASKED`` out."""
    del rng
    far = np.abs(np.log(np.maximum(u, 1e-9) / np.maximum(1 - u, 1e-9)))
    return np.asarray(far <= np.quantile(far, 1 - MASKED))


def _window(u: Array, rng: Rng) -> Mask:
    """A window of 36 × 44 nodes that wanders to and fro: some 60% is hidden."""
    i, j = _numbers()
    k = np.arange(len(u))[:, None, None]
    x0 = NODES / 2 + 12 * np.sin(2 * np.pi * (k / 40 + rng.random()))
    y0 = NODES / 2 + 8 * np.sin(2 * np.pi * (k / 60 + rng.random()))
    return np.asarray((np.abs(i - x0) < 18) & (np.abs(j - y0) < 22))


def _disc(u: Array, rng: Rng) -> Mask:
    """A disc of 10 nodes radius is cut out of every frame."""
    i, j = _numbers()
    x0, y0 = rng.uniform(22, 42, 2)
    return np.broadcast_to((i - x0) ** 2 + (j - y0) ** 2 > 100, u.shape)


def _cropped(u: Array, rng: Rng) -> Mask:
    """The second half of the frames shows half of the field."""
    seen = np.ones(u.shape, dtype=bool)
    seen[len(u) // 2 :, int(rng.integers(28, 36)) :] = False
    return seen


def _blobs(u: Array, rng: Rng) -> Mask:
    """Six blobs of 3 to 6 nodes radius that drift through each other: some 15% is hidden."""
    i, j = _numbers()
    seen = np.ones(u.shape, dtype=bool)
    for _ in range(6):
        place, drift, radius = rng.uniform(0, NODES, 2), rng.uniform(-0.3, 0.3, 2), rng.uniform(3, 6)
        for k in range(len(u)):
            x0, y0 = place + k * drift
            seen[k] &= (i - x0) ** 2 + (j - y0) ** 2 > radius**2
    return seen


MASKS: dict[str, Callable[[Array, Rng], Mask]] = {
    "front": _band,
    "window": _window,
    "disc": _disc,
    "cropped": _cropped,
    "blobs": _blobs,
}


@dataclass(frozen=True)
class MaskTrial:
    """What came of one mask and noise.

    Attributes
    ----------
    z
        (found − true)/sd by true operator; empty where others were selected.
    """

    mask: str
    hidden: float
    names: tuple[str, ...]
    z: dict[str, float]
    verdict: str
    chi2: float
    told: str = ""

    @property
    def right(self) -> bool:
        """Whether the right operators were selected."""
        return set(self.names) == set(TRUTH)


def masked(mask: str, rng: Rng) -> Data:
    """Data of one mask: colonies, mask and noise from the generator."""
    times, u = front(rng)
    seen = MASKS[mask](u, rng)
    noisy = u + NOISE * u.std() * rng.standard_normal(u.shape)
    x = nodes()
    grid = Grid(x=x, y=x)
    return Data.from_arrays({"u": np.where(seen, noisy, np.nan)}, times=times, geometry=grid, missing="nan")


def trial(mask: str, rng: Rng, candidates: Sequence[str] = CANDIDATES) -> MaskTrial:
    """Discovery at its defaults."""
    data = masked(mask, rng)
    hidden = 0.0 if data.measured is None else 1 - float(data.measured["u"].mean())
    try:
        found = discover(data, Library({"u": list(candidates)}))
    except BvsiError as error:
        return MaskTrial(mask, hidden, (), {}, "failed", float("nan"), str(error))
    return MaskTrial(
        mask, hidden, found.names, _off(found), str(found.verdict), found.chi2, found.settings["discretisation"]
    )


def _off(found: Discovery) -> dict[str, float]:
    """(found − true)/sd by operator, where the right ones were selected."""
    if set(found.names) != set(TRUTH):
        return {}
    return standard_scores(found, TRUTH)


def study(masks: Sequence[str], seed: int, runs: int, wrong: int) -> Iterator[list[MaskTrial]]:
    """Runs by mask, then those without u²; every run has a generator of its own."""
    fewer = tuple(c for c in CANDIDATES if c != LACKING)
    plans = [(mask, runs if mask == "front" else max(1, runs // 4), CANDIDATES) for mask in masks]
    plans += [(mask, wrong, fewer) for mask in masks if wrong]
    for number, (mask, count, candidates) in enumerate(plans):
        yield [trial(mask, np.random.default_rng([seed, number, run]), candidates) for run in range(count)]


def line(runs: Sequence[MaskTrial], lacking: bool) -> str:
    """One line of the table."""
    z = np.abs([value for one in runs for value in one.z.values()])
    told = f"{z.max():.2f} | {np.mean(z < 1.96):.2f}" if z.size else "– | –"
    right, consistent = sum(one.right for one in runs), sum(one.verdict == str(Verdict.CONSISTENT) for one in runs)
    name = f"{runs[0].mask}, no {LACKING}" if lacking else runs[0].mask
    hidden = np.mean([one.hidden for one in runs])
    return f"| {name} | {hidden:.0%} | {len(runs)} | {right} | {told} | {consistent} |\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Discovery from a Fisher front of which most values are missing."""
    parser = argparse.ArgumentParser(prog="python -m bvsi.studies.masks", description=main.__doc__)
    parser.add_argument("--seed", type=int, default=0, help="decides colonies, masks and noise (default 0)")
    parser.add_argument("--runs", type=int, default=20, help="of the front; a quarter of it of others (default 20)")
    parser.add_argument("--wrong", type=int, default=2, help="of every mask without u**2 (default 2)")
    parser.add_argument("--masks", nargs="*", default=list(MASKS), choices=list(MASKS), help="which (default: all)")
    chosen = parser.parse_args(arguments)
    sys.stdout.write("| mask | hidden | runs | right terms | largest abs z | coverage | consistent |\n")
    sys.stdout.write("|---|---:|---:|---:|---:|---:|---:|\n")
    details = []
    for number, own in enumerate(study(chosen.masks, chosen.seed, chosen.runs, chosen.wrong)):
        sys.stdout.write(line(own, number >= len(chosen.masks)))
        sys.stdout.flush()
        details += own
    for one in details:
        z = ", ".join(f"{value:+.2f}" for value in one.z.values()) or " + ".join(one.names)
        sys.stdout.write(f"\n{one.mask}: {one.verdict}, χ²/n = {one.chi2:.3f}, z = {z}; {one.told}")
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
