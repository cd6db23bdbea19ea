"""Study files that cannot be used: their form, their settings, and hostile texts in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cli.malformed import BASE, EQUATIONS, Case, study, taken


def study_cases() -> Iterator[Case]:
    """All of them; the data are there and whole."""
    for name, content in _FORMS.items():
        yield Case(f"study: {name}", partial(_content, content if isinstance(content, bytes) else content.encode()))
    for name, more in _SETTINGS.items():
        yield Case(f"setting: {name}", study(f"{BASE}{more}\n", "good.nc"))
    for name, table in _TABLES.items():
        yield Case(f"data: {name}", study(f"[data]\n{table}\n{EQUATIONS}", "good.nc"))
    for name, text in _OPERATORS.items():
        yield Case(f"operator: {name}", study(_library(["u", text]), "good.nc"))
    for name, text in _QUANTITIES.items():
        more = f'[[quantity]]\nname = "q"\nexpression = {json.dumps(text)}\n'
        yield Case(f"quantity: {name}", study(BASE + more, "good.nc"))
    for name, texts in _CONSTRAINTS.items():
        more = f"[posterior]\nconstraints = {json.dumps(texts)}\n"
        yield Case(f"constraints: {name}", study(BASE + more, "good.nc"))
    for name, prior in _PRIORS.items():
        yield Case(f"prior: {name}", study(f"{BASE}[posterior]\n{prior}\n", "good.nc"))


def _content(content: bytes, folder: Path, whole: Path) -> None:
    (folder / "study.toml").write_bytes(content)
    taken(whole, folder, "good.nc")


def _library(operators: list[str]) -> str:
    return f'[data]\nfile = "good.nc"\nfields = ["u"]\n[library.equations]\nu = {json.dumps(operators)}\n'


_FORMS: dict[str, str | bytes] = {
    "empty": "",
    "text that is not TOML": "u_t = laplacian(u)\n",
    "key twice": BASE.replace("[data]\n", '[data]\nfile = "a.nc"\n'),
    "table twice": f"{BASE}[data]\n",
    "list that does not end": BASE.rstrip("]\n"),
    "JSON": '{"data": {"file": "good.nc"}}',
    "binary": bytes(range(256)),
    "zero byte": BASE.replace("u", "\x00", 1),
    "escape of a terminal": f"# \x1b[2J\n{BASE}",
    "nested deeply": "a = " + "[" * 4000,
    "key of many parts": "a" + ".a" * 4000 + " = 1",
    "number of many digits": "a = " + "9" * 4900,
    "a megabyte": "# comment\n" * 100_000,
    "thousands of unknown keys": BASE + "[noise]\n" + "".join(f"key{i} = 1\n" for i in range(3000)),
    "another program's": '[project]\nname = "x"\nversion = "1"\n',
    "date that does not exist": "a = 2024-02-31\n",
}

_SETTINGS = {
    "unknown table": "[nois]\nsigma = 1.0",
    "unknown key": "[noise]\nsigm = 1.0",
    "unknown key in another script": '[noise]\n"σ" = 1.0',
    "unknown key with an escape": '[noise]\n"\\u001b[31m" = 1.0',
    "key of another table": '[noise]\nestimator = "nuts"',
    "negative sigma": "[noise]\nsigma = -1e-3",
    "sigma zero": "[noise]\nsigma = 0.0",
    "sigma NaN": "[noise]\nsigma = nan",
    "sigma infinite": "[noise]\nsigma = inf",
    "sigma as text": '[noise]\nsigma = "1e-3"',
    "sigma of an unknown field": "[noise]\nsigma = {v = 1e-3}",
    "blur of an unknown axis": "[noise]\nsigma = 1e-3\nblur = {q = 0.2}",
    "blur of an axis that the data lack": "[noise]\nsigma = 1e-3\nblur = {z = 0.2}",
    "blur of width zero": "[noise]\nsigma = 1e-3\nblur = {x = 0.0}",
    "switch as number": "[check]\nenabled = 1",
    "degree as fraction": '[discretisation]\ntests = "splines"\ndegree = 2.5',
    "degree too high": '[discretisation]\ntests = "splines"\ndegree = 999',
    "unknown tests": '[discretisation]\ntests = "finite-volumes"',
    "elements for another geometry": '[discretisation]\ntests = "elements"\nelement = "Q9"',
    "gap without splines": '[discretisation]\ntests = "elements"\ngap = 3.0',
    "criterion of another method": '[selection]\nmethod = "sweep"\ncriterion = "exact-bic"',
    "unknown estimator": '[posterior]\nestimator = "lasso"',
    "draws of another estimator": "[posterior]\ndraws = 100",
    "no chains": '[posterior]\nestimator = "nuts"\nchains = 0',
    "too many draws": '[posterior]\nestimator = "nuts"\ndraws = 10000000000',
    "holdout above one": "[forecast]\nholdout = 1.5",
    "seed below zero": "[forecast]\nseed = -1",
    "seed with too many digits": "[output]\nseed = 99999999999999999999",
    "results in the folder above": '[output]\nfolder = ".."',
    "results in a file": '[output]\nfolder = "good.nc"',
    "results in a name with a newline": '[output]\nfolder = "a\\nb"',
    "quantity with a path as name": '[[quantity]]\nname = "../q"\nexpression = "[u]"',
    "two quantities of one name": '[[quantity]]\nname = "q"\nexpression = "[u]"\n' * 2,
    "quantity of too many points": '[[quantity]]\nname = "q"\nexpression = "x*y*z*[u]"\n'
    "axes = {x = [0, 1, 2000], y = [0, 1, 2000], z = [0, 1, 2000]}",
    "quantity with axis turned round": '[[quantity]]\nname = "q"\nexpression = "x*[u]"\naxes = {x = [1, 0, 9]}',
    "quantity without expression": '[[quantity]]\nname = "q"',
    "potential without drift": '[[quantity]]\nname = "q"\nkind = "potential"\naxes = {x = [0, 1, 5]}',
    "title with 10 kB": f'[output]\nfolder = "{"t" * 4900}"',
}

_TABLES = {
    "no file": "",
    "no files": "files = []",
    "absent file": 'file = "godo.nc"',
    "absent folder": 'file = "absent/good.nc"',
    "file as number": "file = 3",
    "file of an unknown kind": 'file = "study.toml"',
    "empty name": 'file = ""',
    "newline in the name": 'file = "good\\n.nc"',
    "escape in the name": 'file = "\\u001b[2Jgood.nc"',
    "writing from right to left in the name": 'file = "good\\u202e.nc"',
    "name too long": f'file = "{"a" * 390}.nc"',
    "time as number": 'file = "good.nc"\ntime = 3',
    "axes to w": 'file = "good.nc"\naxes = {x = "w"}',
    "spacing below zero": 'file = "good.nc"\nspacing = {x = -0.1}',
    "missing in other words": 'file = "good.nc"\nmissing = "none"',
    "period below zero": 'file = "good.nc"\nperiodic = {x = -1.0}',
    "range of three": 'file = "good.nc"\nselect = {x = [0.0, 1.0, 2.0]}',
    "range of texts": 'file = "good.nc"\nselect = {x = ["a", "b"]}',
    "memory as text": 'file = "good.nc"\nmax_memory = "4 GB"',
    "field twice": 'file = "good.nc"\nfields = ["u"]\nauxiliary = ["u"]',
}

_OPERATORS = {
    "misspelt": "laplacan(u)",
    "unknown name": "k*u",
    "not closed": "laplacian(u",
    "nothing": "",
    "comparison": "u > 0",
    "attribute": "u.__class__",
    "way to all classes": "().__class__.__bases__[0].__subclasses__()",
    "import": "__import__('os').system('touch hacked')",
    "eval": "eval('1')",
    "comprehension": "[u for u in (1, 2)]",
    "text": "'u'",
    "format": "f'{u}'",
    "star": "dx(*u)",
    "keyword": "dx(u=u)",
    "await": "await u",
    "walrus": "(u := 3)",
    "index": "u[0]",
    "imaginary": "1j*u",
    "comment": "u # + v",
    "10 kB": "u" + "*u" * 1900,
    "nested deeply": "(" * 800 + "u" + ")" * 800,
    "derivatives of derivatives": "dx(" * 70 + "u" + ")" * 70,
    "huge exponent": "u**99999999999",
    "tower": "9**9**9**9*u",
    "negative huge exponent": "u**-99999999",
    "division by zero": "u/0",
    "logarithm of a negative number": "log(-1)*u",
    "number of many digits": "1" * 1500 + "*u",
    "vector": "grad(u)",
    "gradient of a gradient": "grad(grad(u))",
    "too many arguments": "laplacian(u, u)",
    "look-alike": "lаplacian(u)",  # the first a is Cyrillic
    "writing from right to left": "u\u202e*2",
    "escape of a terminal": "u*\x1b[31m2",
    "axis that is not there": "dy(u)",
    "name of Python": "None*u",
    "true": "True*u",
    "the same twice": " u ",
    "seven derivatives": "dx(dx(dx(dx(dx(dx(dx(u)))))))",
}

_QUANTITIES = {
    "no operator": "2*x",
    "unknown operator": "2*[laplacan(u)]",
    "not closed": "2*[u",
    "attribute": "[u].real",
    "import": "__import__('os').system('touch hacked')*[u]",
    "import as operator": "[__import__('os').system('touch hacked')]",
    "tower": "9**9**9**9*[u]",
    "call of a call": "exp([u])([u])",
    "unknown function": "gamma([u])",
    "unknown variable": "x*[u]",
    "10 kB": "[u]" + "+[u]" * 900,
    "nested deeply": "(" * 500 + "[u]" + ")" * 500,
    "look-alike": "ｅxp([u])",
}

_CONSTRAINTS = {
    "contradiction": ["u > 1", "u < 0"],
    "contradiction of three": ["u + laplacian(u) > 1", "u < 0", "laplacian(u) < 0.5"],
    "contradiction with itself": ["u > u + 1"],
    "unknown operator": ["v > 0"],
    "no comparison": ["u"],
    "import": ["__import__('os').system('touch hacked') > 0"],
    "huge number": ["u > 1e999"],
    "chain": ["0 < u < 1 < laplacian(u) < 0"],
    "look-alike": ["ｕ > 0"],
}

_PRIORS = {
    "of an unknown operator": 'priors = {"dx(u)" = {distribution = "flat"}}',
    "of an unknown kind": 'priors = {u = {distribution = "cauchy-ish"}}',
    "with negative variance": 'priors = {u = {distribution = "normal", mean = 0.0, variance = -1.0}}',
    "without variance": 'priors = {u = {distribution = "normal", mean = 0.0}}',
    "with bounds turned round": 'priors = {u = {distribution = "uniform", lower = 1.0, upper = 0.0}}',
    "as text": 'priors = {u = "normal"}',
    "joint, with another length": 'joint_priors = [{operators = ["u"], mean = [0.0, 1.0], covariance = [[1.0]]}]',
    "joint, not positive definite": (
        'joint_priors = [{operators = ["u", "laplacian(u)"], mean = [0.0, 0.0], covariance = [[1.0, 2.0], [2.0, 1.0]]}]'
    ),
    "twice": 'priors = {u = {distribution = "flat"}}\n'
    'joint_priors = [{operators = ["u"], mean = [0.0], covariance = [[1.0]]}]',
}
