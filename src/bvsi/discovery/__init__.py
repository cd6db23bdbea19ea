"""The facade: select, infer, report."""

from bvsi.discovery.equation import equation_text, with_uncertainty
from bvsi.discovery.facade import default_discretisation, discover
from bvsi.discovery.result import Discovery

__all__ = ["Discovery", "default_discretisation", "discover", "equation_text", "with_uncertainty"]
