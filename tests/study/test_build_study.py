"""Settings to objects: each choice of the file is the object of that name, and the rest is left to ``discover``."""

import inspect
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import bvsi
from bvsi.app.study import Settings, Study, load_study
from bvsi.app.study.build import files_of, folder_of, library_of, options_of, quantities_of, reading_of, resolved
from bvsi.app.study.run import read_inputs
from bvsi.infer import ResidualDensity
from bvsi.infer.posteriors import GaussianPosterior
from bvsi.select import ExactBIC, FStatistic
from study.study_cases import BASE, refused, wave, written

GENERATORS = np.random.default_rng(7).spawn(3)


def options(tmp_path, text):
    """Arguments of discover, those of its method among them."""
    found = options_of(load_study(written(tmp_path, text)))
    return {**found, **vars(found["method"])}


def test_what_is_left_out_is_left_to_discover(tmp_path):
    found = options_of(load_study(written(tmp_path, "")))
    signature = inspect.signature(bvsi.discover).parameters
    elsewhere = {"client", "stored"}  # where a study runs is none of its settings
    assert set(found) == set(signature) - {"data", "library", "progress", "rng"} - elsewhere
    assert found.pop("method") == bvsi.Method(estimator=bvsi.Profile())
    assert found == {name: signature[name].default for name in found}


@pytest.mark.parametrize(
    "text, key, wanted",
    [
        ("[noise]\nsigma = 2", "noise", bvsi.IID(2.0)),
        ("[noise]\nsigma = {u = 1e-3}", "noise", bvsi.PerField({"u": 1e-3})),
        ("[noise]\nunknown = true", "noise", bvsi.UnknownScale()),
        (
            "[noise]\nunknown = true\nsigma = {u = 2.0}",
            "noise",
            bvsi.UnknownScale(bvsi.PerField({"u": 2.0})),
        ),
        ("[noise]\nrobust = false", "robust", False),
        (
            '[discretisation]\ntests = "splines"\ngap = {x = 3}\ndegree = 7',
            "tests",
            bvsi.SplineTests({"x": 3.0}, 7),
        ),
        ('[discretisation]\ntests = "elements"\nelement = "H3"', "tests", bvsi.Galerkin(bvsi.H3)),
        ('[discretisation]\ntests = "elements"', "tests", bvsi.Galerkin()),
        ('[discretisation]\nstencil = "bdf2"', "stencil", bvsi.BDF2()),
        ('[discretisation]\nstencil = "crank-nicolson"', "stencil", bvsi.CrankNicolson()),
        ('[discretisation]\nstencil = "backward-euler"', "stencil", bvsi.BackwardEuler()),
        ('[discretisation]\nstencil = "temporal-tests"\ntime_gap = 3', "stencil", bvsi.TemporalTests(gap=3.0)),
        ('[discretisation]\nweighting = "block"', "weighting", bvsi.Block()),
        ('[discretisation]\nweighting = "stacked"', "weighting", bvsi.Stacked()),
        ('[selection]\nmethod = "best-subset"\nrounds = 2', "selection", bvsi.BestSubset(rounds=2)),
        ('[selection]\nmethod = "sweep"\npatience = 0', "selection", bvsi.Sweep(patience=0)),
        (
            '[selection]\nmethod = "backward"\ncriterion = "exact-bic"',
            "selection",
            bvsi.Backward(ExactBIC()),
        ),
        (
            '[selection]\nmethod = "backward"\ncriterion = "f-statistic"\nthreshold = 0.1',
            "selection",
            bvsi.Backward(FStatistic(0.1)),
        ),
        ('[posterior]\nestimator = "lagged"', "estimator", bvsi.Lagged()),
        ('[posterior]\nconstraints = ["u > 0"]', "constraints", ("u > 0",)),
        ("[posterior]\nrelinearise = 2", "relinearise", 2),
        ("[check]\nenabled = false", "check", False),
    ],
)
def test_options(tmp_path, text, key, wanted):
    assert options(tmp_path, text)[key] == wanted


def test_samplers(tmp_path):
    nuts = options(tmp_path, '[posterior]\nestimator = "nuts"\ndraws = 50\nchains = 2\nobjective = "residual"')
    found = nuts["estimator"]
    assert (found.draws, found.tune, found.chains, found.objective) == (50, 300, 2, ResidualDensity())
    svgd = options(tmp_path, '[posterior]\nestimator = "svgd"\nparticles = 7')["estimator"]
    assert isinstance(svgd, bvsi.SVGD)
    assert svgd.particles == 7


def test_priors(tmp_path):
    text = """[noise]
sigma = 1
[posterior.priors]
"laplacian( u )" = {distribution = "log-normal", log_mean = 0, log_variance = 0.25}
[[posterior.joint_priors]]
operators = ["u", "u*dx(u)"]
mean = [0, 1]
covariance = [[2, 1], [1, 2]]
"""
    prior = options(tmp_path, text)["prior"]
    assert prior.terms["laplacian( u )"] == bvsi.LogNormal(0.0, 0.25)
    np.testing.assert_array_equal(prior.terms[("u", "u*dx(u)")].covariance, [[2, 1], [1, 2]])
    assert prior.default == bvsi.ColumnScale()
    text = '[posterior.default_prior]\ndistribution = "column-scale"\nweight = 1e-8\n'
    assert options(tmp_path, text)["prior"] == bvsi.Prior({}, bvsi.ColumnScale(1e-8))


def test_all_distributions_have_the_parameters_of_their_classes(tmp_path):
    laws = {
        "normal": ({"mean": 1.0, "variance": 2.0}, bvsi.Normal(1.0, 2.0)),
        "half-normal": ({"scale": 2.0}, bvsi.HalfNormal(2.0)),
        "uniform": ({"lower": 1.0, "upper": 2.0}, bvsi.Uniform(1.0, 2.0)),
        "laplace": ({"location": 1.0, "scale": 2.0}, bvsi.Laplace(1.0, 2.0)),
        "student-t": ({"dof": 3.0, "scale": 2.0}, bvsi.StudentT(3.0, 0.0, 2.0)),
        "horseshoe": ({"scale": 2.0}, bvsi.Horseshoe(2.0)),
        "flat": ({}, bvsi.Flat()),
    }
    for name, (parameters, wanted) in laws.items():
        priors = {"u": {"distribution": name, **parameters}}
        tables = {"data": {"file": "a"}, "library": {"equations": {"u": ["u"]}}, "posterior": {"priors": priors}}
        assert options_of(Study(Settings.model_validate(tables)))["prior"].terms == {"u": wanted}


def test_the_library(tmp_path):
    text = """v = ["laplacian(v)", "phi"]
[library]
keep = ["u: u", "phi"]
boundary = {u = "no-flux", v = "dirichlet"}
definitions = {phi = "u*v"}
time_order = 2
biharmonic = "interior-penalty"
"""
    library = library_of(load_study(written(tmp_path, text, base=BASE.replace('["u"]', '["u", "v"]'))))
    assert library.names[-2:] == ("v: laplacian(v)", "v: phi")
    assert library.keep == ("u: u", "v: phi")
    assert (library.condition("u"), library.condition("v")) == (bvsi.NoFlux(), bvsi.Dirichlet())
    assert library.time_order == 2
    assert library.biharmonic == bvsi.InteriorPenalty()


def test_all_operators_can_be_kept(tmp_path):
    library = library_of(load_study(written(tmp_path, '[library]\nkeep = "all"\n')))
    assert library.keep == library.names == ("laplacian(u)", "u*dx(u)", "u")


def test_the_reading(tmp_path):
    text = """title = "a"
[data]
files = ["a.nc", "sub/b.nc"]
time = "t"
fields = {u = "velocity"}
dims = ["t", "lon"]
axes = {lon = "x"}
periodic = ["x"]
mesh = "m.msh"
select = {t = [0, inf], x = [-inf, 1]}
max_memory = 1e8
[library.equations]
u = ["u"]
[output]
folder = "out"
"""
    study = load_study(written(tmp_path, text, base=""))
    reading = reading_of(study)
    assert reading.fields == {"u": "velocity"}
    assert reading.mesh == tmp_path / "m.msh"
    assert reading.select == {"t": (0.0, None), "x": (None, 1.0)}
    assert (reading.periodic, reading.dims, reading.max_memory) == (("x",), ("t", "lon"), 1e8)
    assert files_of(study) == (tmp_path / "a.nc", tmp_path / "sub" / "b.nc")
    assert folder_of(study) == tmp_path / "out"


def test_resolved_settings_are_json_and_give_the_study_again(tmp_path):
    study = load_study(written(tmp_path, '[noise]\nsigma = {u = 1e-3}\n[posterior]\nconstraints = ["u > 0"]\n'))
    study = Study(Settings.model_validate({**resolved(study), "data": {"file": "a", "select": {"t": [0, math.inf]}}}))
    found = resolved(study)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["forecast"] == {"enabled": True, "holdout": 0.2, "draws": 20, "seed": 0}
    assert found["data"]["select"] == {"t": [0.0, None]}
    assert resolved(Study(Settings.model_validate(found))) == found


QUANTITIES = """
[[quantity]]
name = "twice"
expression = "2*[laplacian(u)]*x - [u]"
axes = {x = [0, 1, 3]}

[[quantity]]
name = "ratio"
expression = "[u*dx(u)]/[laplacian(u)]"
draws = 600
level = 0.5
"""


class Found:
    """What a quantity needs of a discovery."""

    posterior = GaussianPosterior(("laplacian(u)", "u*dx(u)"), np.array([4.0, 2.0]), np.array([[1e-4, 0], [0, 4e-4]]))
    names = posterior.names
    predict = bvsi.Discovery.predict


def test_quantities_follow_from_the_posterior(tmp_path):
    """A linear one is exact; u was not selected and counts as zero; a ratio agrees with the delta method."""
    quantities = quantities_of(load_study(written(tmp_path, QUANTITIES)))
    twice = quantities["twice"](Found(), np.random.default_rng(0))
    np.testing.assert_allclose(twice["mean"], [0, 4, 8])
    np.testing.assert_allclose(twice["variance"], [0, 1e-4, 4e-4], atol=1e-18)
    np.testing.assert_array_equal(twice["x"], [0, 0.5, 1])
    ratio = quantities["ratio"](Found(), np.random.default_rng(0))
    wanted = 4e-4 / 16 + 1e-4 * (2 / 16) ** 2
    np.testing.assert_allclose(ratio["mean"], 0.5, atol=1e-3)
    np.testing.assert_allclose(ratio["variance"], wanted, rtol=0.2)
    assert ratio.attrs["level"] == 0.5


def test_potentials_are_zero_where_no_drift_was_selected(tmp_path):
    text = """u = ["div(u*grad(x**2))", "laplacian(u**2)", "u"]
[[quantity]]
name = "psi"
kind = "potential"
axes = {x = [-1, 1, 3]}
[[quantity]]
name = "zeta"
kind = "diffusion-potential"
equation = "u"
axes = {u = [0, 1, 3]}
"""
    quantities = quantities_of(load_study(written(tmp_path, text, base=BASE[: BASE.index("u = [")])))
    drift = quantities["psi"].of(("u", "div(u*grad(x**2))"))
    np.testing.assert_allclose(drift.sel(operator="div(u*grad(x**2))"), [1 / 3, -2 / 3, 1 / 3])
    np.testing.assert_array_equal(quantities["psi"].of(("u",)), np.zeros((1, 3)))
    zeta = quantities["zeta"].of(("laplacian(u**2)",))
    np.testing.assert_allclose(zeta[0], np.array([0, 0.25, 1]) - 1.25 / 3)


@pytest.mark.parametrize("counts", [False, True])
def test_replicates_are_averaged_and_their_scatter_is_the_noise(tmp_path, counts):
    """The same data and noise as ``from_replicates`` and ``from_counts`` make; other scatter is another run."""
    wells = [wave().with_fields({"u": rng.poisson(20 + 5 * wave().fields["u"]).astype(float)}) for rng in GENERATORS]
    together = replace(wave(), fields={f"w{i}": one.fields["u"] for i, one in enumerate(wells)})
    together.to_xarray().to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    base = BASE.replace('fields = ["u"]', 'replicates = {u = ["w0", "w1", "w2"]}\nperiodic = ["x"]')
    study = load_study(written(tmp_path, "[noise]\ncounts = true\n" if counts else "", base=base))
    inputs = read_inputs(study)
    mean, noise = (bvsi.noise.from_counts if counts else bvsi.noise.from_replicates)(wells)
    (one,) = inputs.data
    assert one.names == ("u",)
    np.testing.assert_array_equal(one.fields["u"], mean.fields["u"])
    (own,) = inputs.options["noise"]
    assert repr(own) == repr(noise)
    if not counts:
        np.testing.assert_array_equal(own.sigma["u"], noise.sigma["u"])
    assert set(inputs.read[0].names) == {"u_1", "u_2", "u_3"}


@pytest.mark.parametrize(
    "data, noise, words",
    [
        ('fields = ["u"]\nreplicates = {u = ["a", "b"]}', "", "takes the place of fields"),
        ('replicates = {u = ["a"]}', "", "two at least"),
        ('replicates = {u = ["a", "a"]}', "", "different measurements"),
        ('replicates = {u = ["a", "b"], v = ["c", "d", "e"]}', "", "the same number"),
        ('replicates = {u = ["a", "b"]}', "sigma = 1.0", "from their scatter"),
        ('fields = ["u"]', "counts = true", "set gain = 1"),
    ],
)
def test_replicates_that_mean_nothing_are_refused(tmp_path, data, noise, words):
    error = refused(tmp_path, f"[noise]\n{noise}\n", base=BASE.replace('fields = ["u"]', data))
    assert words in str(error)
