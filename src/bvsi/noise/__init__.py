"""Noise: models of it, and what the data say about their own."""

from bvsi.noise.correlation import Blurred
from bvsi.noise.level import NoiseLevel, add_noise, estimate_noise
from bvsi.noise.models import IID, Covariance, Diagonal, Noise, PerField, PerTime, StateCovariance, UnknownScale
from bvsi.noise.outliers import Outliers, find_outliers
from bvsi.noise.signal import SignalNoise, estimate_signal_noise, from_counts, from_replicates
