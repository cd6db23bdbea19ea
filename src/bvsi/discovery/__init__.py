"""The facade: select, infer, report."""

from bvsi.discovery.equation import equation_text, with_uncertainty
from bvsi.discovery.facade import discover
from bvsi.discovery.forecasting import forecast, simulate_found
from bvsi.discovery.method import default_discretisation
from bvsi.discovery.result import Discovery

__all__ = [
    "Discovery",
    "default_discretisation",
    "discover",
    "equation_text",
    "forecast",
    "simulate_found",
    "with_uncertainty",
]
