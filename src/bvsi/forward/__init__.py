"""Forward solves of the equations that a library describes."""

from bvsi.forward.simulation import ThetaScheme, simulate

__all__ = ["ThetaScheme", "simulate"]
