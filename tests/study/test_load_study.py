"""What is wrong with a study file is reported with line, place and nearest name, all at once."""

import pytest

from bvsi.app.study import StudyError, load_study
from study.study_cases import BASE, refused, written


def test_a_small_study_loads(tmp_path):
    study = load_study(written(tmp_path, ""))
    assert study.settings.library.equations == {"u": ("laplacian(u)", "u*dx(u)", "u")}
    assert study.settings.title == "Burgers"
    assert study.settings.posterior.estimator == "profile"


CASES = [
    ("[nois]\nsigma = 1", 13, "nois", "did you mean 'noise'"),
    ("[noise]\n\nsigm = 1e-3", 15, "noise.sigm", "did you mean 'sigma'"),
    ('[noise]\nsigma = "big"', 14, "noise.sigma", "a positive number, or a table such as {u = 1e-3}, is needed"),
    ("[noise]\nsigma = -1", 14, "noise.sigma", "a number above 0 is needed, not -1"),
    ("[noise]\nsigma = true", 14, "noise.sigma", "a number is needed, not True"),
    ("[noise]\nsigma = nan", 14, "noise.sigma", "is needed, not nan"),
    ("[noise]\nsigma = {u = inf}", 14, "noise.sigma.u", "needed, not inf"),
    ("[noise]\nsigma = {v = 1.0}", 14, "noise.sigma.v", "no field 'v'"),
    ("[noise]\nunknown = true\nsigma = 1.0", 14, "noise.unknown", "remove one of them"),
    ("[noise]\nrobust = 1", 14, "noise.robust", "true or false is needed, not 1"),
    ('[discretisation]\ntests = "spline"', 14, "discretisation.tests", "Did you mean 'splines'?"),
    ("[discretisation]\ngap = 3", 14, "discretisation.gap", 'set tests = "splines"'),
    ('[discretisation]\ntests = "splines"\ngap = {w = 3}', 15, "discretisation.gap.w", "x, y and z"),
    ('[discretisation]\ntests = "splines"\nelement = "Q2"', 15, "discretisation.element", 'tests = "elements"'),
    ("[discretisation]\ndegree = 2.5", 14, "discretisation.degree", "a whole number is needed, not 2.5"),
    ('[selection]\nmethod = "sweep"\ncriterion = "exact-bic"', 15, "selection.criterion", "backward"),
    ('[selection]\ncriterion = "wald"', 14, "selection.criterion", "set method"),
    ("[posterior]\nparticles = 10", 14, "posterior.particles", 'estimator = "svgd"'),
    (
        '[posterior]\nconstraints = ["laplacian(u) > 0",\n "laplacan(u) > 0"]',
        15,
        "posterior.constraints[1]",
        "did you mean",
    ),
    ('[posterior]\nconstraints = ["u > 1", "u < 0"]', 14, "posterior.constraints", "cannot hold"),
    ('[posterior.priors]\n"lap(u)" = {distribution = "flat"}', 14, "posterior.priors.'lap(u)'", "laplacian(u)"),
    ('[posterior.priors]\nu = {distribution = "norml"}', 14, "posterior.priors.u.distribution", "'normal'?"),
    ('[posterior.priors]\nu = {distribution = "normal", mean = 1}', 14, "posterior.priors.u", "'variance' is missing"),
    ('[posterior.priors]\nu = {distribution = "uniform", lower = 2, upper = 1}', 14, "posterior.priors.u", "positive"),
    (
        '[posterior.priors]\nu = {distribution = "normal", men = 1, variance = 1, mean = 1}',
        14,
        "posterior.priors.u.men",
        "'mean'?",
    ),
    ('[posterior.priors]\nu = "normal"', 14, "posterior.priors.u", "a table"),
    ("[forecast]\nholdout = 1.5", 14, "forecast.holdout", "a number below 1 is needed, not 1.5"),
    ('[[quantity]]\nname = "a"\nexpression = "2*[lap(u)]"', 15, "quantity[0].expression", "lap(u)"),
    ('[[quantity]]\nname = "a"', 13, "quantity[0]", "needs expression"),
    ('[[quantity]]\nname = "../a"\nexpression = "[u]"', 14, "quantity[0].name", "letters, digits"),
    (
        '[[quantity]]\nname = "a"\nexpression = "y*[u]"\naxes = {x = [0, 1, 5]}',
        15,
        "quantity[0].expression",
        "name 'y'",
    ),
    (
        '[[quantity]]\nname = "a"\nexpression = "[u]"\naxes = {x = [1, 0, 5]}',
        16,
        "quantity[0].axes.x",
        "below the last",
    ),
    ('[[quantity]]\nname = "a"\nkind = "potential"\naxes = {x = [0, 1, 5]}', 15, "quantity[0].kind", "potential"),
    ('[output]\nfolder = ".."', 14, "output.folder", "a folder of its own"),
    ('[output]\nfolder = "a/.."', 14, "output.folder", "a folder of its own"),
    ("sigma = 1.0", 13, "library.equations.sigma", "a list is needed"),
    ("[library]\nkeep = []", 13, "", "not valid TOML"),
]


@pytest.mark.parametrize("text, line, place, words", CASES)
def test_a_fault_has_line_place_and_remedy(tmp_path, text, line, place, words):
    base = BASE if not text.startswith("[library]") else BASE + "[library]\n"
    error = refused(tmp_path, text + "\n", base=base)
    told = str(error).splitlines()[1]
    assert told.startswith(f"  line {line}, {place}: " if place else "  line "), told
    assert words in told


LIBRARY = [
    ('u = ["lapacian(u)"]', 8, "library.equations.u[0]", "did you mean laplacian"),
    ('u = ["u",\n\n "u + v"]', 10, "library.equations.u[1]", "unknown name 'v'"),
    ('v = ["u"]', 8, "library.equations.v", "no field 'v'"),
    ('u = ["u", " u "]', 7, "library.equations", "twice"),
    ("u = []", 7, "library.equations", "0 operators"),
    ('u = "u"', 8, "library.equations.u", "a list is needed"),
    ("u = [3]", 8, "library.equations.u[0]", "a text in quotes is needed, not 3"),
    ('u = ["u"]\n[library]\nkeep = ["u", "u**2"]', 10, "library.keep[1]", "'u**2' is not among the operators"),
    ('u = ["u"]\n[library]\nkeep = "every"', 10, "library.keep", "'all' is needed"),
    ('u = ["u"]\n[library]\nboundary = "noflux"', 10, "library.boundary", "Did you mean 'no-flux'?"),
    ('u = ["u"]\n[library]\nboundary = {v = "no-flux"}', 10, "library.boundary.v", "has no equation"),
    ('u = ["u"]\n[library]\nboundary = 3', 10, "library.boundary", "a condition such as"),
    ('u = ["u"]\n[library]\ntime_order = 5', 10, "library.time_order", "at most 4"),
    ('u = ["u"]\n[library]\ndefinitions = {u = "u**2"}', 10, "library.definitions.u", "is a field"),
    ('u = ["u"]\n[library.definitions]\nphi = "u**"', 10, "library.definitions.phi", "not an expression"),
    ('u = ["phi"]\n[library.definitions]\nphi = "psi"', 10, "library.definitions.phi", "unknown name 'psi'"),
    ('"ｕ" = ["u"]', 8, "library.equations.'ｕ'", "not ASCII"),
]


@pytest.mark.parametrize("text, line, place, words", LIBRARY)
def test_a_fault_of_the_library(tmp_path, text, line, place, words):
    base = BASE[: BASE.index("u = [")]
    # the header of [library] comes after its sub-table, as TOML allows
    told = str(refused(tmp_path, text + "\n", base=base)).splitlines()[1]
    assert told.startswith(f"  line {line}, {place}: "), told
    assert words in told


@pytest.mark.parametrize(
    "text, words",
    [
        ("title = Burgers", "texts stand in quotes"),
        ("title = 'a'\ntitle = 'b'", "line 2"),
        ("= 3", "line 1"),
        ("a = [1,", "not valid TOML"),
        ("a = " + "[" * 3000, "nested"),
        ("a" + ".a" * 100 + " = 1", "a key of many parts"),
        ("a" + " = {a" * 25 + " = 1" + "}" * 25, "nested"),
        ("a = " + "1" * 4900, "not valid TOML"),
        ("a = 2020-13-40", "not valid TOML"),
        ("a = '" + "x" * 6000 + "'", "6006 characters in one line"),
        ("", "the key 'data' is missing"),
        ("data = 3\nlibrary = []", "a table is needed, not 3"),
        ("\x00", "not valid TOML"),
        ("# \x1b[31m", "not valid TOML"),
    ],
)
def test_what_is_no_study_is_refused(tmp_path, text, words):
    assert words in str(refused(tmp_path, text, base=""))


def test_all_faults_are_told_at_once_in_the_order_of_the_file(tmp_path):
    error = refused(tmp_path, '[noise]\nsigm = 1\n[data2]\n[check]\nenabled = "yes"\n')
    assert [problem.line for problem in error.problems] == [14, 15, 17]
    semantic = refused(
        tmp_path, '[noise]\nsigma = {w = 1.0}\n[selection]\nrounds = 3\n[posterior]\nconstraints = ["v > 0"]\n'
    )
    assert [problem.line for problem in semantic.problems] == [14, 14, 16, 18]


def test_a_key_of_another_table_is_sent_home(tmp_path):
    assert "it belongs to [posterior]" in str(refused(tmp_path, "[noise]\nestimator = 'nuts'\n"))


def test_hundreds_of_faults_are_counted(tmp_path):
    path = written(tmp_path, "[noise]\n" + "".join(f"key{i} = 1\n" for i in range(3000)))
    with pytest.raises(StudyError) as caught:
        load_study(path)
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("3000 errors.")
    assert lines[-1] == "  … and 2980 more."
    assert len(lines) == 22


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(StudyError, match="cannot be read"):
        load_study(tmp_path / "absent.toml")
    with pytest.raises(StudyError, match="cannot be read"):
        load_study(tmp_path)
    with pytest.raises(StudyError, match="cannot be read"):
        load_study("a\x00b")
    path = tmp_path / "study.toml"
    path.write_bytes(b"title = 'a'\nb = '\xff\xfe'\n")
    with pytest.raises(StudyError, match="line 2: this is not UTF-8"):
        load_study(path)
    path.write_bytes(b"# comment\n" * 30_000)
    with pytest.raises(StudyError, match="more than 250000 bytes"):
        load_study(path)


def test_a_byte_order_mark_is_no_fault(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(BASE, encoding="utf-8-sig")
    assert load_study(path).settings.title == "Burgers"


HOSTILE = [
    "u.__class__",
    "().__class__.__bases__[0].__subclasses__()",
    "__import__('os').system('touch pwned')",
    "eval('1')",
    "u**999999999",
    "u**(9**9**9)",
    "exp(exp(exp(exp(9))))",
    "u" + "*u" * 3000,
    "(" * 500 + "u" + ")" * 500,
    "dx(" * 80 + "u" + ")" * 80,
    "ｕ",
    "lаplacian(u)",  # Cyrillic a
    "u\\u202e",
    "u\\u0000",
    "u\\nimport os",
    "lambda: u",
    "[u for u in x]",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "where",
    [
        'u = ["{}"]',
        'u = ["u"]\n[library.definitions]\nphi = "{}"',
        'u = ["u"]\n[posterior]\nconstraints = ["{} > 0"]',
        'u = ["u"]\n[posterior.priors]\n"{}" = {{distribution = "flat"}}',
        'u = ["u"]\n[[quantity]]\nname = "q"\nexpression = "{}"',
        'u = ["u"]\n[[quantity]]\nname = "q"\nexpression = "[{}]"',
        '"{}" = ["u"]',
    ],
)
def test_hostile_texts_are_refused_wherever_they_stand(tmp_path, text, where):
    path = written(tmp_path, where.format(text), base=BASE[: BASE.index("u = [")])
    with pytest.raises(StudyError) as caught:
        load_study(path)
    assert len(str(caught.value)) < 3000
    assert [p.name for p in tmp_path.iterdir()] == ["study.toml"]
