"""Reports of a discovery: one HTML file, Markdown, LaTeX, and a small view for notebooks."""

from bvsi.app.report.equation import equation_latex
from bvsi.app.report.markdown import markdown_report
from bvsi.app.report.notebook import notebook_html
from bvsi.app.report.page import html_report
from bvsi.app.report.settings_section import versions

__all__ = ["equation_latex", "html_report", "markdown_report", "notebook_html", "versions"]
