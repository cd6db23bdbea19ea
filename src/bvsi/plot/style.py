"""Colours that stay apart for colour-blind readers (Okabe and Ito)."""

BLUE = "#0072B2"
ORANGE = "#D55E00"
GREY = "#7f7f7f"
FIELD_MAP = "viridis"
