"""Texts of the small languages of bvsi: operators, quantities, constraints, axes, names of dimensions."""

from __future__ import annotations

from bvsi.studies.fuzz.documents import changed_tokens
from bvsi.studies.fuzz.odd import FLOATS, INTEGERS, NAMES, TEXTS, Rng, chance, pick

OPERATORS = (
    "u",
    "u**2",
    "dx(u)",
    "u*dx(u)",
    "laplacian(u)",
    "div(u*grad(u))",
    "dx(dx(dx(u)))",
    "biharmonic(u)",
    "1",
    "sin(x)*u",
)
QUANTITIES = (
    "[laplacian(u)]",
    "2*[laplacian(u)]/[dx(u)]",
    "exp(-[laplacian(u)]*x)",
    "[u: laplacian(u)]",
    "sqrt(abs([dx(u)]))",
    "[dx(u)]**2",
)
CONSTRAINTS = (
    "laplacian(u) > 0",
    "dx(u) <= 2*laplacian(u)",
    "dx(u) = -0.5",
    "u + u**2 >= 0",
    "-1 < dx(u) < 1",
    "u: laplacian(u) > 0",
)
_FUNCTIONS = (
    "dx",
    "dy",
    "dz",
    "grad",
    "div",
    "dot",
    "laplacian",
    "biharmonic",
    "diff",
    "recover",
    "sin",
    "exp",
    "log",
    "sqrt",
    "abs",
    "erf",
    "eval",
)
_WORDS = (
    "u",
    "x",
    "t",
    "pi",
    "y",
    "v",
    "u_",
    "_",
    "__import__",
    "lambda",
    "e",
    "I",
    "oo",
    "nan",
    "self",
    "True",
    "None",
    "u.real",
    "u[0]",
    "[u]",
    "[dx(u)]",
)
_JOINS = (
    "+",
    "-",
    "*",
    "/",
    "**",
    "//",
    "%",
    "@",
    "<",
    ">",
    "<=",
    "=",
    "==",
    ":",
    ",",
    ";",
    " ",
    "",
    " if ",
    " or ",
    " in ",
    ":=",
    ".",
    "\n",
    "|",
    "^",
    "~",
)
_HOSTILE = (
    "__import__('os').system('touch pwned-eval')", "().__class__.__bases__[0].__subclasses__()",
    "exec('open(\"pwned-exec\",\"w\")')",
    "(lambda: 1)()", "[c for c in (1,)]", "f'{u}'", "9**9**9**9", "((((((((((u))))))))))", "u" + "**2" * 60,
    "(" * 300 + "u" + ")" * 300, "-" * 3000 + "u",
    "1" + "0" * 400, "1e400", "0**-1", "u**-1", "u/0", "log(0)", "sqrt(-1)*u", "u**0.5", "u**1e9",
    "dx(" * 40 + "u" + ")" * 40, "diff(u, x, 99)", "dx(u, u)",
    "dx()", "grad(u)", "dot(grad(u), grad(u))", "div(u)", "recover(u)", "laplacian(laplacian(laplacian(u)))",
    "u*" * 500 + "u", "\u202eu", "ｕ", "u\x00", "0",
    "u-u", "0*u", "1e-300*u", "1e300*u", "exp(exp(exp(u)))", "sin(x)*" * 50 + "u", "t*u", "0x10*u", "1_0*u", "1j*u",
    "...", "''", "b''", "u if u else u", "*u",
)  # fmt: skip


def odd_expression(rng: Rng, valid: tuple[str, ...]) -> str:
    """A text near the language: a valid one changed, a hostile one, or random symbols."""
    kind = int(rng.integers(10))
    if kind == 0:
        return pick(rng, valid)
    if kind <= 2:
        return pick(rng, _HOSTILE)
    if kind == 3:
        return f"{pick(rng, _HOSTILE)}*{pick(rng, valid)}"
    if kind == 4:
        return changed_tokens(pick(rng, valid), rng)
    if kind == 5:
        text, place = pick(rng, valid), int(rng.integers(12))
        return (
            text[:place]
            + pick(rng, ("(", ")", "[", "]", "*", "**", "'", "\\", "\x1b", "é", "0", ".", "_", " "))
            + text[place:]
        )
    return _random(rng, 0)


def _random(rng: Rng, depth: int) -> str:
    kind = int(rng.integers(6 if depth < 5 else 2))
    if kind == 0:
        return pick(rng, _WORDS)
    if kind == 1:
        return str(pick(rng, (*INTEGERS, *FLOATS, 2, 0.5)))
    if kind <= 3:
        return f"{pick(rng, _FUNCTIONS)}({_random(rng, depth + 1)})"
    join = pick(rng, _JOINS[:5]) if chance(rng, 0.8) else pick(rng, _JOINS)
    text = f"{_random(rng, depth + 1)}{join}{_random(rng, depth + 1)}"
    return f"({text})" if kind == 5 else text


def odd_axis(rng: Rng) -> str:
    """A text for ``--axis``."""
    if chance(rng, 0.15):
        return pick(
            rng, ("x", "x=", "=0:1:5", "x=0:1", "x=0:1:5:6", "x=a:b:c", "x==0:1:5", ":::", "x=0:1:5,y=0:1:5", *TEXTS)
        )
    name = pick(rng, ("x", "y", "t", *NAMES)) if chance(rng, 0.5) else "x"
    first, last = (pick(rng, ("0", "1", "-1", *map(str, FLOATS), *map(str, INTEGERS))) for _ in range(2))
    count = pick(rng, ("2", "5", "5", "41", "0", "-1", "2000", "2001", "1e3", *map(str, INTEGERS)))
    return f"{name}={first}:{last}:{count}"


def odd_dims(rng: Rng) -> str:
    """A text for ``--dims``."""
    if chance(rng, 0.3):
        return pick(
            rng,
            (
                "t,x",
                "x,t",
                "t",
                "x",
                ",",
                "t,,x",
                "t,x,y",
                "t,t",
                "node,t",
                "time,x",
                "t;x",
                " t , x ",
                "t,x," * 200,
                "T,X",
                *NAMES,
            ),
        )
    return ",".join(pick(rng, ("t", "x", "y", "z", "node", "time", *NAMES)) for _ in range(int(rng.integers(1, 5))))


def argument(text: str) -> str:
    """A text that the system lets stand on a command line."""
    return text.replace("\x00", "").encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")[:100_000]
