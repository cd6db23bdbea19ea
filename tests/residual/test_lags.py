"""Fields at earlier times: the map from the frames, its sensitivity, and the covariance of residuals that read them."""

import numpy as np
import pytest

from bvsi import IID, Data, Library, SplineTests, Stacked
from bvsi.errors import BvsiError
from bvsi.likelihood import residual_likelihood
from bvsi.residual import TemporalTests, assemble
from bvsi.residual.stencils import shift

TIMES = np.linspace(0, 6, 61)
TEXTS = ["lag(u, 0.83)", "u*lag(u, 0.83)", "lag(u, 0.83)**2", "u"]
THETA = np.array([-0.4, 0.7, 0.2, 0.3])


def system(values, texts=TEXTS):
    data = Data.from_arrays({"u": values}, times=TIMES)
    return assemble(data, Library({"u": texts}), discretisation=SplineTests(), stencil=TemporalTests(5, 4))


@pytest.mark.parametrize("times", [TIMES, np.sort(np.random.default_rng(0).uniform(0, 6, 61))])
def test_cubics_are_shifted_exactly(times):
    def u(t):
        return 1 + t - 0.3 * t**2 + 0.05 * t**3

    late = times - 0.83 >= times[0]
    np.testing.assert_allclose((shift(times, 0.83) @ u(times))[late], u(times[late] - 0.83), rtol=1e-9, atol=1e-9)
    rate = 1 - 0.6 * (times - 0.83) + 0.15 * (times - 0.83) ** 2
    np.testing.assert_allclose((shift(times, 0.83, rate=True) @ u(times))[late], rate[late], rtol=1e-8, atol=1e-8)
    assert np.abs(shift(times, 0.83)[~late]).sum() == 0


def test_sensitivities_are_derivatives_by_the_data():
    u, step = 1 + 0.4 * np.sin(TIMES), 1e-6
    one = system(u).experiments[0]
    e = np.random.default_rng(1).standard_normal(TIMES.shape)
    change = (system(u + step * e).residual(THETA)[0] - system(u - step * e).residual(THETA)[0]) / (2 * step)
    C = one.structure.mass.summed(one.structure.a, e[None]) - one.jacobians(THETA).summed(one.structure.b, e[None])
    np.testing.assert_allclose(C, change, atol=1e-7)


def test_the_covariance_is_that_of_all_times_together():
    one = system(1 + 0.4 * np.sin(TIMES)).experiments[0]
    likelihood = residual_likelihood(system(1 + 0.4 * np.sin(TIMES)), (IID(0.1),), Stacked())
    part = likelihood.parts[0]
    K = one.structure.n_blocks
    columns = np.eye(len(TIMES))
    C = np.stack(
        [
            (
                one.structure.mass.summed(one.structure.a, e[None])
                - one.jacobians(THETA).summed(one.structure.b, e[None])
            )[0]
            for e in columns
        ],
        axis=1,
    )
    np.testing.assert_allclose(part.covariance.stacked.dense(part.residuals, THETA), 0.01 * C @ C.T, atol=1e-12)
    assert C.shape == (K, len(TIMES))


def test_columns_of_a_delay_are_derivatives_by_it():
    library = Library({"u": ["u*lag(u, tau)"]}, parameters={"tau": (0.3, 1.5)})
    data, h = Data.from_arrays({"u": 1 + 0.4 * np.sin(TIMES)}, times=TIMES), 1e-4

    def X(tau, theta=None):
        made = assemble(
            data, library.at({"tau": tau}, theta), discretisation=SplineTests(), stencil=TemporalTests(5, 4)
        )
        return made.experiments[0].X[0]

    slope = (X(0.83 + h) - X(0.83 - h))[:, 0] / (2 * h)
    np.testing.assert_allclose(X(0.83, {"u*lag(u, tau)": 1.0})[:, 1], slope, atol=1e-3 * np.abs(slope).max())


def test_residuals_read_no_time_before_the_record():
    short = Library({"u": ["lag(u, tau)"]}, parameters={"tau": (0.1, 0.5)})
    long = Library({"u": ["lag(u, tau)"]}, parameters={"tau": (0.1, 2.0)})
    data = Data.from_arrays({"u": np.sin(TIMES)}, times=TIMES)
    made = [assemble(data, one, discretisation=SplineTests(), stencil=TemporalTests(5, 4)) for one in (short, long)]
    assert made[0].n > made[1].n
    assert (abs(made[1].experiments[0].structure.b) @ (TIMES < 2.0 - 1e-9)).max() == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lag(u, -1)", "positive"),
        ("lag(u**2, 0.5)", "field"),
        ("lag(u)", "2 arguments"),
        ("lag(u, u)", "positive number"),
        ("lag(u, 50)", "record"),
    ],
)
def test_what_is_no_delay_is_refused(text, why):
    with pytest.raises(BvsiError, match=why):
        system(np.sin(TIMES), [text])
