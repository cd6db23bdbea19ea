"""The settings of a study, one class per table of ``study.toml``.

Descriptions are the documentation: they go into the JSON schema and into the file that ``bvsi init`` writes, as do the
examples. What one key says about another, and about the data, is in :mod:`bvsi.app.study.checks`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Tag, model_validator

from bvsi.app.study.prior_settings import DefaultLaw, JointPrior, Law
from bvsi.app.study.types import (
    PLAIN,
    TABLE,
    Count,
    Few,
    Limit,
    Many,
    Name,
    Names,
    Number,
    Periodic,
    Positive,
    PositiveByName,
    Section,
    Share,
    Switch,
    Text,
    Whole,
    kinds,
)
from bvsi.errors import OperatorError
from bvsi.operators.functions import written_functions

BoundaryName = Literal["unknown", "no-flux", "zero-neumann", "dirichlet", "assembled"]
Boundary = Annotated[
    Annotated[BoundaryName, Tag(PLAIN)] | Annotated[dict[Name, BoundaryName], Tag(TABLE), Few],
    kinds(str, wanted='a condition such as "no-flux", or a table such as {u = "no-flux"}, is needed'),
]
Coordinates = Annotated[
    Annotated[Literal["cartesian", "polar", "cylindrical", "spherical"], Tag(PLAIN)]
    | Annotated[dict[Name, Name], Tag(TABLE), Few],
    kinds(str, wanted='coordinates such as "polar", or a table such as {x = "name of an array"}, are needed'),
]
Keep = Annotated[
    Annotated[Literal["all"], Tag(PLAIN)] | Annotated[tuple[Name, ...], Tag(TABLE), Many],
    kinds(str, other=(list, tuple), wanted='a list of operators, or "all", is needed'),
]


class DataSettings(Section):
    """Where the data are, and how to read them; what the file states itself may be left out."""

    file: Name | None = Field(default=None, description="Data file, relative to this one", examples=["run.nc"])
    files: Annotated[tuple[Name, ...], Many] | None = Field(
        default=None,
        description="Instead of file: several experiments of the same physics",
        examples=[["a.nc", "b.nc"]],
    )
    time: Name | None = Field(default=None, description="Name of the time dimension, column or array", examples=["t"])
    fields: Names | None = Field(
        default=None, description='Measured fields, names or a table {u = "name in the file"}', examples=[["u"]]
    )
    auxiliary: Names | None = Field(
        default=None, description="Fields that are known without noise, such as coefficients", examples=[["k"]]
    )
    replicates: Annotated[dict[Name, Annotated[tuple[Name, ...], Few]], Few] = Field(
        default={},
        description="Instead of fields: what was measured several times, by names in the file; the mean is taken, and "
        "the noise from the scatter",
        examples=[{"u": ["well1", "well2", "well3"]}],
    )
    known: Annotated[dict[Name, Annotated[tuple[Number, ...], Few]], Few] = Field(
        default={},
        description="Known quantities of the experiments by name, such as temperature or dose, a number for each file",
        examples=[{"T": [290.0, 310.0]}],
    )
    dims: Annotated[tuple[Name, ...], Few] | None = Field(
        default=None, description="Axes of the arrays, for files that do not name them", examples=[["t", "x"]]
    )
    axes: Annotated[dict[Name, Literal["x", "y", "z", "r", "phi", "theta"]], Few] = Field(
        default={},
        description="Which of x, y, z a dimension of another name is, or of r, phi, theta: r and phi are polar, with z "
        "cylindrical, r, theta (from the pole) and phi spherical",
        examples=[{"lon": "x"}],
    )
    coordinates: Coordinates = Field(
        default={},
        description='Array of the file that holds the coordinates of a dimension; or "polar", "cylindrical", '
        '"spherical", where the names of the axes leave it open, as r alone does',
        examples=[{"x": "xs"}],
    )
    spacing: Annotated[dict[Name, Positive], Few] = Field(
        default={}, description="Step of a dimension for which the file has no coordinates", examples=[{"x": 0.1}]
    )
    periodic: Periodic | None = Field(
        default=None, description="Periodic axes, or a table of their periods", examples=[{"x": 6.283185307179586}]
    )
    missing: Literal["nan"] | None = Field(
        default=None, description='Set to "nan" where NaN stands for values that were not measured', examples=["nan"]
    )
    mesh: Name | None = Field(
        default=None,
        description="Mesh file, for nodal values that are kept elsewhere; or the domain of scattered sensors",
        examples=["mesh.msh"],
    )
    domain: Annotated[tuple[tuple[Number, Number], ...], Many] | None = Field(
        default=None,
        description="Corners of a polygon in which scattered sensors lie; left out, large gaps between them are holes",
        examples=[[[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]]],
    )
    select: Annotated[dict[Name, tuple[Limit, Limit]], Few] = Field(
        default={}, description="Range of a coordinate or of the time that is used", examples=[{"t": [0.0, 10.0]}]
    )
    units: Annotated[dict[Name, Name], Few] | None = Field(
        default=None,
        description="Units of fields, coordinates and time: coefficients then have units, and operators that no units "
        'fit are refused; "1" for none',
        examples=[{"u": "mg/L", "x": "mm", "t": "h"}],
    )
    max_memory: Positive = Field(
        default=1e9, description="Bytes that the fields may take; larger data are coarsened by filters", examples=[1e9]
    )
    coarsen: Switch = Field(
        default=True,
        description="False keeps fields beyond max_memory whole, in a temporary file instead of memory",
        examples=[False],
    )

    @property
    def measured(self) -> tuple[str, ...] | None:
        """Names of the fields, where they are stated."""
        return None if self.fields is None and not self.replicates else tuple(self.fields or self.replicates)


class LibrarySettings(Section):
    """Candidate operators."""

    equations: Annotated[dict[Name, Annotated[tuple[Text, ...], Many]], Few] = Field(
        description="Candidate operators, one list per field with an equation", examples=[{"u": ["laplacian(u)", "u"]}]
    )
    keep: Keep = Field(
        default=(), description='Operators that selection must not remove, or "all"', examples=[["laplacian(u)"]]
    )
    boundary: Boundary = Field(
        default="unknown",
        description="What holds on the boundary, for all fields or by field: unknown (always valid), no-flux, "
        "zero-neumann, dirichlet, assembled",
        examples=["no-flux"],
    )
    definitions: Annotated[dict[Name, Text], Few] = Field(
        default={}, description="Names that stand for expressions in operators", examples=[{"phi": "u**2*(1 - u)**2"}]
    )
    time_order: Annotated[Count, Field(le=4)] | Literal["open"] = Field(
        default=1,
        description='Order of the time derivative on the left side; 2 for wave equations, "open" for the better one',
        examples=[2],
    )
    vectors: Annotated[dict[Name, Annotated[tuple[Name, ...], Few]], Few] = Field(
        default={},
        description="Vectors by name, two or three fields each: an equation of u is one for every component, with one "
        "coefficient for all; div(u), grad(p), advect(u, u), outer, curl, symgrad, laplacian(u)",
        examples=[{"v": ["vx", "vy"]}],
    )
    parameters: Annotated[dict[Name, Annotated[tuple[Number, ...], Field(min_length=2, max_length=3)]], Few] = Field(
        default={},
        description="Numbers inside operators that are estimated: lowest and highest value, and a start if one is "
        "known, such as K in u/(K + u)",
        examples=[{"K": [0.1, 10.0]}],
    )
    per_experiment: Annotated[tuple[Name, ...], Few] = Field(
        default=(),
        description="Parameters, functions and operators that differ by experiment; all others are shared",
        examples=[["K"]],
    )
    unknown: Annotated[dict[Name, Name | Annotated[tuple[Name, ...], Few]], Few] = Field(
        default={},
        description="Functions inside operators that are estimated with a band, and what they are functions of: "
        "coordinates, t, or fields, such as k in div(k*grad(u)); or write div(unknown(k, of=x)*grad(u))",
        examples=[{"k": "x"}],
    )
    left: Text | Annotated[dict[Name, Text], Few] | None = Field(
        default=None,
        description="Left side where it is not the time derivative alone, one text or a table by field: a known source "
        "or an operator of a steady problem, or known terms beside dt(u)",
        examples=["laplacian(u)"],
    )
    biharmonic: Literal["mixed", "interior-penalty"] | None = Field(
        default=None,
        description="Treatment of biharmonic(...) on elements; left out, the better one",
        examples=["mixed"],
    )

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        """Functions that are written in operators, ``unknown(k, of=x)``, as names; other texts are checked later."""
        equations = given.get("equations") if isinstance(given, dict) else None
        stated = given.get("unknown", {}) if isinstance(given, dict) else None
        if not isinstance(equations, dict) or not isinstance(stated, dict):
            return given
        found: dict[str, tuple[str, ...]] = {}

        def plain(text: Any) -> Any:
            try:
                named, of = written_functions(text) if isinstance(text, str) else (text, {})
            except OperatorError:
                return text
            found.update(of)
            return named

        changed = {f: [*map(plain, texts)] if isinstance(texts, list) else texts for f, texts in equations.items()}
        return {**given, "equations": changed, "unknown": {**found, **stated}} if found else given


class NoiseSettings(Section):
    """Noise of the measured fields; left out, it is measured from the data."""

    sigma: PositiveByName | None = Field(
        default=None, description="Standard deviation, one number or a table by field", examples=[1e-3]
    )
    unknown: Switch = Field(
        default=False,
        description="Estimate the level with the coefficients; a table sigma then gives relative sizes",
        examples=[True],
    )
    gain: Positive | None = Field(
        default=None, description="Variance per unit of the signal, 1 for counts; sigma is added to it", examples=[1.0]
    )
    relative: Positive | None = Field(
        default=None, description="Noise as a part of the signal; sigma is added to it", examples=[0.1]
    )
    blur: dict[str, Positive] | None = Field(
        default=None,
        description="Widths over which noise is blurred, by axis and time, in units of the coordinates; needs sigma",
        examples=[{"x": 0.05}],
    )
    counts: Switch = Field(
        default=False,
        description="Of replicates: variance in proportion to the signal, as counts have, and not by place and time",
        examples=[True],
    )
    robust: Switch | None = Field(
        default=None, description="Whether outliers are replaced; left out, where there are many", examples=[True]
    )


class DiscretisationSettings(Section):
    """Test functions in space and time; left out, they are chosen from the data."""

    tests: Literal["splines", "elements"] | None = Field(
        default=None, description="Kind of test functions: splines or elements", examples=["splines"]
    )
    gap: PositiveByName | None = Field(
        default=None, description="Splines: nodes between knots, one number or a table by axis", examples=[4.0]
    )
    degree: Annotated[Count, Field(le=20)] | None = Field(
        default=None, description="Splines: degree of the test functions", examples=[6]
    )
    element: Literal["P1", "P2", "Q1", "Q2", "H3"] | None = Field(
        default=None, description="Elements: P1, P2 on simplices, Q1, Q2, H3 on grids", examples=["Q2"]
    )
    stencil: Literal["temporal-tests", "crank-nicolson", "backward-euler", "bdf2"] | None = Field(
        default=None, description="Time: spline test functions or a difference stencil", examples=["temporal-tests"]
    )
    time_gap: Positive | None = Field(default=None, description="Temporal tests: steps between knots", examples=[2.0])
    time_degree: Annotated[Count, Field(ge=2, le=20)] | None = Field(
        default=None, description="Temporal tests: degree of the splines", examples=[5]
    )
    weighting: Literal["stacked", "block"] | None = Field(
        default=None, description="Weights with all correlations, or block by block", examples=["stacked"]
    )


class SelectionSettings(Section):
    """How operators are selected; left out, it is chosen."""

    method: Literal["best-subset", "sweep", "backward"] | None = Field(
        default=None, description="Best subsets, or elimination without or with refits", examples=["sweep"]
    )
    criterion: Literal["wald", "profile-bic", "residual-bic", "exact-bic", "f-statistic"] | None = Field(
        default=None, description="What sweep and backward minimise; sweep takes the first two", examples=["wald"]
    )
    threshold: Positive | None = Field(
        default=None, description="Of the F-statistic: growth of the residual that keeps an operator", examples=[0.01]
    )
    rounds: Annotated[Count, Field(le=100)] | None = Field(
        default=None, description="Best-subset and sweep: refits at most", examples=[6]
    )
    patience: Annotated[Whole, Field(le=1000)] | None = Field(
        default=None, description="Sweep and backward: further steps after the criterion has risen", examples=[1]
    )


class PosteriorSettings(Section):
    """Posterior of the selected operators."""

    estimator: Literal["profile", "lagged", "maximum", "svgd", "nuts"] = Field(
        default="profile", description="Closed forms (profile, lagged), maximum, or samplers", examples=["profile"]
    )
    objective: Literal["profile", "residual"] | None = Field(
        default=None, description="Maximum and samplers: calibrated profile, or residual density", examples=["profile"]
    )
    particles: Annotated[Count, Field(ge=2, le=10_000)] | None = Field(
        default=None, description="SVGD: number of particles", examples=[100]
    )
    draws: Annotated[Count, Field(le=100_000)] | None = Field(
        default=None, description="NUTS: draws per chain", examples=[500]
    )
    tune: Annotated[Count, Field(le=100_000)] | None = Field(
        default=None, description="NUTS: further draws that adapt the step", examples=[300]
    )
    chains: Annotated[Count, Field(le=64)] | None = Field(
        default=None, description="NUTS: number of chains", examples=[4]
    )
    relinearise: Annotated[Whole, Field(le=100)] | None = Field(
        default=None,
        description="How often operators are linearised again at smoothed states; left out, once where they take "
        "derivatives of the data or are of higher than second degree",
        examples=[1],
    )
    constraints: Annotated[tuple[Text, ...], Many] = Field(
        default=(), description="Linear constraints on coefficients by operator name", examples=[["laplacian(u) > 0"]]
    )
    priors: Annotated[dict[Name, Law], Many] = Field(
        default={},
        description="Prior by operator name: normal, log-normal, half-normal, uniform, laplace, student-t, horseshoe, "
        "flat",
        examples=[{"laplacian(u)": {"distribution": "normal", "mean": 1.0, "variance": 0.25}}],
    )
    joint_priors: Annotated[tuple[JointPrior, ...], Few] = Field(
        default=(),
        description="Joint Gaussian priors of several operators",
        examples=[[{"operators": ["u", "u**2"], "mean": [0.0, 0.0], "covariance": [[1.0, 0.5], [0.5, 1.0]]}]],
    )
    default_prior: DefaultLaw | None = Field(
        default=None,
        description="Prior of operators that are not named; left out, flat or weak",
        examples=[{"distribution": "flat"}],
    )


class CheckSettings(Section):
    """Whether the answer can be trusted: the fit repeated on coarser samplings and with other test functions."""

    enabled: Switch = Field(default=True, description="Whether the check is made", examples=[True])


class ForecastSettings(Section):
    """The discovered equation simulated from the first frame, compared with held-out frames."""

    enabled: Switch = Field(default=True, description="Whether the forecast is made", examples=[True])
    holdout: Share = Field(default=0.2, description="Share of the frames that the fit does not see", examples=[0.2])
    draws: Annotated[Count, Field(ge=2, le=1000)] = Field(
        default=20, description="Posterior draws that are simulated", examples=[20]
    )
    seed: Whole = Field(default=0, description="Seed of the draws", examples=[0])


class RefineSettings(Section):
    """The selected equation and its rivals fitted to the measurements by forward solves, for data with few frames."""

    enabled: Switch | None = Field(
        default=None, description="Whether these fits are made; left out, where `on` is given", examples=[True]
    )
    on: Name | None = Field(
        default=None,
        description="Mesh file where the equation is solved, for sensors inside a domain; left out, at the data",
        examples=["mesh.msh"],
    )
    blur: dict[str, Positive] = Field(
        default={},
        description="Standard deviations by axis of the Gaussian over which the instrument sees the fields",
        examples=[{"x": 0.05}],
    )
    bins: dict[str, Positive] = Field(
        default={},
        description="Lengths by axis over which values are averages; of time, exposures",
        examples=[{"x": 0.1, "time": 0.5}],
    )
    draws: Annotated[Count, Field(ge=4, le=10_000)] | None = Field(
        default=None,
        description="Draws of NUTS in each of two chains, of the most probable structure; left out, Laplace",
        examples=[200],
    )

    @property
    def wanted(self) -> bool:
        """Whether these fits are made: sensors inside a domain are fitted so by default."""
        return self.on is not None if self.enabled is None else self.enabled


class QuantitySettings(Section):
    """A quantity that follows from the coefficients, with its uncertainty."""

    name: Annotated[Name, Field(max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9_ -]*$")] = Field(
        description="Its name: letters, digits, blanks, - and _; it is also that of a file", examples=["diffusivity"]
    )
    kind: Literal["expression", "potential", "diffusion-potential"] = Field(
        default="expression",
        description="An expression; the potential of drift operators div(p*grad(f)); what stands under laplacian(f)",
        examples=["expression"],
    )
    expression: Text | None = Field(
        default=None,
        description="Of coefficients, operators in brackets, and of the axes: + - * / **, exp log sqrt abs …",
        examples=["2*[laplacian(u)]"],
    )
    equation: Name | None = Field(
        default=None, description="Field whose equation is meant, for diffusion-potential", examples=["u"]
    )
    axes: Annotated[dict[Name, tuple[Number, Number, Annotated[Count, Field(ge=2, le=2000)]]], Few] = Field(
        default={},
        description="Variables of the quantity: first value, last value, number",
        examples=[{"x": [-1, 1, 41]}],
    )
    level: Share = Field(default=0.95, description="Probability of the band", examples=[0.95])
    draws: Annotated[Count, Field(ge=2, le=100_000)] = Field(
        default=1000, description="Posterior draws, where the expression is not linear", examples=[1000]
    )


class OutputSettings(Section):
    """What is written where."""

    folder: Name = Field(
        default="result", description="Folder of the results, relative to this file", examples=["result"]
    )
    seed: Whole = Field(default=0, description="Seed of draws of the posterior", examples=[0])
    budget: Annotated[Number, Field(ge=0, le=86_400)] = Field(
        default=60.0,
        description="Seconds for what follows equation and verdict: forecast, and fits by forward solves",
        examples=[60.0],
    )


class Settings(Section):
    """A study of bvsi: from a data file to an equation."""

    title: Annotated[str, Field(max_length=200, strict=True)] = Field(
        default="", description="Title of the report", examples=["My study"]
    )
    data: DataSettings
    library: LibrarySettings
    noise: NoiseSettings = NoiseSettings()
    discretisation: DiscretisationSettings = DiscretisationSettings()
    selection: SelectionSettings = SelectionSettings()
    posterior: PosteriorSettings = PosteriorSettings()
    check: CheckSettings = CheckSettings()
    forecast: ForecastSettings = ForecastSettings()
    refine: RefineSettings = RefineSettings()
    quantity: Annotated[tuple[QuantitySettings, ...], Few] = ()
    output: OutputSettings = OutputSettings()
