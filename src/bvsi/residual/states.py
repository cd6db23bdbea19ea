"""States at which operators are linearised, so that Σ is right to second order in the noise.

    Cov(g̃_i(u + ε), g̃_j(u + ε)) = Σ_{k≥1} σ^{2k}/k! g_i^(k) g_j^(k),      g̃ = exp(−½σ²∂²) g, without the bias of noise

Jacobians at the data û = u + ε make it too large on average, σ² g_i^(1) g_j^(1) + σ⁴ g_i^(2) g_j^(2) + …, those at
smooth states, σ² g_i^(1) g_j^(1), too small. At states u + ζ with Var ζ = v, and without the bias that ζ gives them,

    c_i = exp(−½v∂²) g_i^(1)        σ² E[c_i c_j] = σ² Σ_{k≥0} v^k/k! g_i^(k+1) g_j^(k+1)

which for v = σ²/2 agrees in the terms with σ² and σ⁴, for all pairs of operators at once, and is short of the next by
σ⁶/24 g_i^(3) g_j^(3): for cubes at 100% noise by 5%. Σ stays a product C Σ_u Cᵀ, and so positive.

The smooth states are those of :mod:`bvsi.data.denoise`. Those of the residuals, û − ε̂, do not serve: ε̂ has as small a
part of the noise as there are residuals to a value.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from bvsi.data import Data
from bvsi.data.denoise import Smoother, smoothers
from bvsi.residual.discrete import State

HALF = 0.5  # part of the variance of the noise that states keep, see above
# Values of an axis, nodes of a mesh too, beyond which it is smoothed in parts: a decomposition of 1,200 takes half a
# second.
_LONGEST = 1200


# Smoothers of data that are in use: one set of data is assembled anew for every value of parameters in its operators.
_KNOWN: WeakKeyDictionary[Data, dict[str, Smoother]] = WeakKeyDictionary()


def half_noisy(state: State, data: Data) -> State:
    """The fields of a state (n, T) with half of the variance of their noise, and that variance.

    Parameters
    ----------
    data
        Where and when its values are, on the nodes of the space.
    """
    fields, variance = dict(state.fields), dict(state.variance)
    if data not in _KNOWN:
        _KNOWN[data] = smoothers(data, _LONGEST)
    for name, smoother in _KNOWN[data].items():
        values, kept = smoother.keeping(HALF, state.fields[name].T)
        fields[name], variance[name] = values.T, kept * state.variance[name]
    return replace(state, fields=fields, variance=variance)
