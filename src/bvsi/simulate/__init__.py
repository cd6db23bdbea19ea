"""Forward solves of the equations that a library describes."""

from bvsi.simulate.scheme import ThetaScheme
from bvsi.simulate.simulate import simulate

__all__ = ["ThetaScheme", "simulate"]
