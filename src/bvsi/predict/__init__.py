"""What follows from the coefficients: a posterior pushed through a map."""

from bvsi.predict.push import diffusion_potential_map, potential_map, predict_function, predict_linear
