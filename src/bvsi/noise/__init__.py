"""Noise: models of it, and what the data tell of their own."""

from bvsi.noise.adding import add_noise
from bvsi.noise.level import NoiseLevel, estimate_noise
from bvsi.noise.models import IID, Covariance, Diagonal, Noise, PerField, PerTime, StateCovariance, UnknownScale
from bvsi.noise.outliers import Outliers, filled, find_outliers
from bvsi.noise.signal import SignalNoise, estimate_signal_noise, smoothed_signal

__all__ = [
    "IID",
    "Covariance",
    "Diagonal",
    "Noise",
    "NoiseLevel",
    "Outliers",
    "PerField",
    "PerTime",
    "SignalNoise",
    "StateCovariance",
    "UnknownScale",
    "add_noise",
    "estimate_noise",
    "estimate_signal_noise",
    "filled",
    "find_outliers",
    "smoothed_signal",
]
