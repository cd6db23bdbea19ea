"""Forward solves of the equations that a library describes."""

from bvsi.forward.scheme import ThetaScheme
from bvsi.forward.simulation import simulate

__all__ = ["ThetaScheme", "simulate"]
