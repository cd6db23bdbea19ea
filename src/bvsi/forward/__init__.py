"""Forward solves of the equations that a library describes."""

from bvsi.forward.simulation import ThetaScheme, simulate
