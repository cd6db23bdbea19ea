"""Colours that stay apart for colour-blind readers (Okabe and Ito)."""

BLUE = "#0072B2"
ORANGE = "#D55E00"
GREY = "#7f7f7f"
SERIES = (ORANGE, BLUE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
FIELD_MAP = "viridis"
RESIDUAL_MAP = "RdBu_r"
