"""Sphinx: pages in MyST, tutorials that are executed, an API reference from the docstrings. Needs no network.

``BVSI_DOCS_EXECUTE=off`` leaves the tutorials unexecuted, for a quick look at text.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import bvsi
from docutils import nodes
from latex2mathml.converter import convert
from myst_nb.core import render

# kernels inherit these: one core, and no remarks of the debugger in the pages
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
# %%sh cells find the bvsi of this environment, and write no bars
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

project = "bvsi"
author = "the bvsi authors"
project_copyright = author
version = release = bvsi.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "myst_nb"]
exclude_patterns = ["images"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "amsmath"]
myst_heading_anchors = 3
nb_execution_mode = os.environ.get("BVSI_DOCS_EXECUTE", "force")
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_ipywidgets_js: dict[str, Any] = {}  # they would come from the network
suppress_warnings = ["myst-nb.lexer"] if nb_execution_mode == "off" else []  # only a kernel names its language

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    name: name for name in ("Array", "ArrayLike", "Floats", "Integers", "Mask", "Progress", "Source")
}
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, as for parameters
python_maximum_signature_line_length = 88

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"bvsi {bvsi.__version__}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00578a", "color-brand-content": "#00578a"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#56B4E9"},
}


_coalesce = render.coalesce_streams


def _joined_streams(outputs: list[Any]) -> list[Any]:
    """What a cell printed, as it was printed: myst-nb would end a line wherever the kernel sent a piece of it."""
    streams: dict[str, Any] = {}
    others = []
    for one in outputs:
        known = streams.get(one["name"]) if one["output_type"] == "stream" else None
        if known is not None:
            known["text"] += one["text"]
            continue
        others.append(one)
        if one["output_type"] == "stream":
            streams[one["name"]] = one
    joined: list[Any] = _coalesce(others)
    return joined


render.coalesce_streams = _joined_streams


def _process_signature(
    _app: Any, _what: str, _name: str, _thing: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Signatures as Python writes them: aliases by their name, and no ``<factory>``, which Sphinx cannot parse."""
    plain = re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", signature or "").replace("<factory>", "...")
    return plain or None, returned


def _mathml(translator: Any, node: nodes.Element) -> None:
    """Formulas as MathML, which browsers show without a script, and so without the network."""
    block = isinstance(node, nodes.math_block)
    formula = convert(node.astext(), display="block" if block else "inline")
    translator.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.add_html_math_renderer("mathml", inline_renderers=(_mathml, None), block_renderers=(_mathml, None))
    app.connect("autodoc-process-signature", _process_signature)
