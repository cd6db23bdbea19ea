"""The facade: select, infer, report. Forecasts are in :mod:`bvsi.discovery.forecasting`, which imports the solvers."""

from bvsi.discovery.facade import discover
from bvsi.discovery.method import Method, Paper, default_discretisation
from bvsi.discovery.result import Discovery, equation_text, undetermined, with_uncertainty
