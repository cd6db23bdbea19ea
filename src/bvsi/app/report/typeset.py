"""Formulas as LaTeX, as MathML, and as plain text with Unicode signs."""

from __future__ import annotations

import re

from bvsi.app.report.formula import (
    Fenced,
    Formula,
    Fraction,
    Function,
    Juxtaposition,
    Name,
    Number,
    Root,
    Script,
    Symbol,
    Verbatim,
)
from bvsi.app.report.markup import Markup, element, joined
from bvsi.app.units import unit_latex

# key: LaTeX, the character
_SYMBOLS = {
    "nabla": (r"\nabla", "∇"),
    "partial": (r"\partial", "∂"),
    "dot": (r"\cdot", "·"),
    "plus": ("+", "+"),
    "minus": ("-", "−"),
    "negative": ("-", "−"),
    "equals": ("=", "="),
    "pi": (r"\pi", "π"),
    "integral": (r"\int", "∫"),
    "domain": (r"\Omega", "Ω"),
    "facets": (r"\mathcal{E}", "ℰ"),
    "boundary": (r"\partial\Omega", "∂Ω"),
}
_LETTERS = frozenset({"pi", "domain", "facets", "boundary"})
_BINARY = frozenset({"plus", "minus", "equals"})
_GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "zeta": "ζ",
    "eta": "η",
    "theta": "θ",
    "iota": "ι",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "xi": "ξ",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "phi": "φ",
    "chi": "χ",
    "psi": "ψ",
    "omega": "ω",
}
# kind: LaTeX left and right, characters left and right
_FENCES = {
    "round": (r"\left(", r"\right)", "(", ")"),
    "angle": (r"\left\langle ", r"\right\rangle", "⟨", "⟩"),
    "jump": (r"\left[", r"\right]", "[", "]"),
    "average": (r"\left\{", r"\right\}", "{", "}"),
}
_LATEX_FUNCTIONS = {"asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan", "erf": r"\operatorname{erf}"}
_LATEX_SPECIAL = {
    **{character: f"\\{character}" for character in "#$%&_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": "-",
}
_RAISED = str.maketrans("0123456789-+−()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺⁻⁽⁾ⁿ")
_LOWERED = str.maketrans("0123456789aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")


def latex(formula: Formula) -> str:
    """LaTeX in math mode; what is not an operator is set in typewriter letters."""
    match formula:
        case Number(digits=digits, exponent=exponent, unit=unit):
            digits = digits.replace("−", "-")  # of an interval
            power = f"\\times 10^{{{exponent}}}" if exponent else ""
            return f"{digits}{power}" + (f"\\,{unit_latex(unit)}" if unit else "")
        case Name(text=text, subscript=subscript):
            return _latex_name(text) + (f"_{{{_latex_name(subscript)}}}" if subscript else "")
        case Symbol(key=key):
            return _SYMBOLS[key][0]
        case Script(base=base, below=below, above=above):
            lower = "" if below is None else f"_{{{latex(below)}}}"
            return f"{latex(base)}{lower}" + ("" if above is None else f"^{{{latex(above)}}}")
        case Fraction(top=top, bottom=bottom):
            return f"\\frac{{{latex(top)}}}{{{latex(bottom)}}}"
        case Fenced(inner=inner, kind=kind):
            left, right, *_ = _FENCES[kind]
            return f"{left}{latex(inner)}{right}"
        case Root(inner=inner):
            return f"\\sqrt{{{latex(inner)}}}"
        case Juxtaposition(parts=parts, spaced=spaced):
            return _latex_row([latex(part) for part in parts], spaced)
        case Function(text=text):
            return _LATEX_FUNCTIONS.get(text, f"\\{text}")
        case Verbatim(text=text):
            return f"\\texttt{{{latex_text(text)}}}"


def latex_text(text: str) -> str:
    """A text for LaTeX outside math mode: specials escaped, what is not printable ASCII as a question mark."""
    out = "".join(_LATEX_SPECIAL.get(character, character) for character in text)
    return "".join(character if " " <= character <= "~" else "?" for character in out)


def _latex_row(parts: list[str], spaced: bool) -> str:
    """Factors with thin spaces; none where a dot or bracket sets them apart."""
    text = ""
    for part in parts:
        near = not text or text.endswith(r"\cdot") or part == r"\cdot"
        # a command ends at the next letter, so that a blank has to follow it
        text += (" " if near and text else "") + part if near else ((r"\," if spaced else " ") + part)
    return re.sub(r" (?=\\left)", "", text)


def _latex_name(text: str) -> str:
    if text.isascii() and text in _GREEK:
        return f"\\{text}"
    return latex_text(text) if len(text) == 1 or text.isdigit() else f"\\mathrm{{{latex_text(text)}}}"


def mathml(formula: Formula) -> Markup:
    """Presentation MathML, without the ``math`` element around it."""
    match formula:
        case Number(unit=unit) if unit:
            bare = mathml(Number(formula.digits, formula.exponent))
            return element("mrow", bare, element("mspace", width="0.2em"), element("mtext", unit))
        case Number(digits=digits, exponent=0):
            return element("mn", digits)
        case Number(digits=digits, exponent=exponent):
            power = element("msup", element("mn", "10"), element("mn", str(exponent).replace("-", "−")))
            return element("mrow", element("mn", digits), element("mo", "×"), power)
        case Name(text=text, subscript=subscript):
            letters = element("mi", _GREEK.get(text, text))
            return letters if not subscript else element("msub", letters, _subscript(subscript))
        case Symbol(key=key):
            return _mathml_symbol(key)
        case Script(base=base, below=below, above=above):
            scripts = [mathml(script) for script in (below, above) if script is not None]
            tag = {(True, False): "msub", (False, True): "msup"}.get((below is not None, above is not None), "msubsup")
            return element(tag, mathml(base), *scripts)
        case Fraction(top=top, bottom=bottom):
            return element("mfrac", mathml(top), mathml(bottom))
        case Fenced(inner=inner, kind=kind):
            *_, left, right = _FENCES[kind]
            return element("mrow", element("mo", left), mathml(inner), element("mo", right))
        case Root(inner=inner):
            return element("msqrt", mathml(inner))
        case Juxtaposition(parts=parts, spaced=spaced):
            thin = element("mspace", width="0.17em") if spaced else ""
            return element("mrow", joined([mathml(part) for part in parts], thin))
        case Function(text=text):
            return element("mi", text)
        case Verbatim(text=text):
            return element("mtext", text)


def _subscript(text: str) -> Markup:
    return element("mn" if text.isdigit() else "mi", text)


def _mathml_symbol(key: str) -> Markup:
    character = _SYMBOLS[key][1]
    if key in _LETTERS:
        return element("mi", character)
    # spaces around a sign depend on what it does, which the browser cannot know
    space = "0.22em" if key in _BINARY else "0"
    return element("mo", character, lspace=space, rspace=space, form="infix" if key in _BINARY else None)


def plain(formula: Formula) -> str:
    """One line of Unicode, for labels: ∇·(p ∇x²)."""
    match formula:
        case Number(digits=digits, exponent=exponent, unit=unit):
            power = f"×10{str(exponent).translate(_RAISED)}" if exponent else ""
            return f"{digits}{power} {unit}".rstrip()
        case Name(text=text, subscript=subscript):
            return _GREEK.get(text, text) + _lowered(subscript)
        case Symbol(key=key):
            character = _SYMBOLS[key][1]
            return f" {character} " if key in _BINARY else character
        case Script(base=base, below=below, above=above):
            lower = "" if below is None else _lowered(plain(below))
            return f"{plain(base)}{lower}" + ("" if above is None else _raised(plain(above)))
        case Fraction(top=top, bottom=bottom):
            return f"{_in_brackets(top)}/{_in_brackets(bottom)}"
        case Fenced(inner=inner, kind=kind):
            *_, left, right = _FENCES[kind]
            return f"{left}{plain(inner)}{right}"
        case Root(inner=inner):
            return f"√({plain(inner)})"
        case Juxtaposition(parts=parts, spaced=spaced):
            texts = [f"({plain(p)})" if isinstance(p, Fraction) and len(parts) > 1 else plain(p) for p in parts]
            # where there is no small letter a subscript runs into what follows
            texts = [f"{t} " if re.search(r"_\w+$", t) and t is not texts[-1] else t for t in texts]
            return (" " if spaced else "").join(texts).replace(" · ", "·").replace("  ", " ")
        case Function(text=text) | Verbatim(text=text):
            return text


def _in_brackets(formula: Formula) -> str:
    return f"({plain(formula)})" if isinstance(formula, Juxtaposition | Fraction) else plain(formula)


def _raised(text: str) -> str:
    raised = text.translate(_RAISED)
    return raised if not re.search(r"[^⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ]", raised) else f"^({text})" if len(text) > 1 else f"^{text}"


def _lowered(text: str) -> str:
    lowered = text.translate(_LOWERED)
    changed = all(a != b for a, b in zip(text, lowered, strict=True))
    return lowered if changed else f"_{text}"
