"""The picture of a field that does not change: it is drawn without complaints."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from bvsi.app.plot.inspection import field_view, spectrum
from bvsi.data import Data, Grid


def test_a_constant_field_is_drawn():
    data = Data(np.linspace(0, 1, 21), {"u": np.zeros((21, 40))}, Grid(x=np.linspace(0, 1, 40)))
    axes = Figure().subplots(1, 2)
    field_view(axes[0], data, "u")
    spectrum(axes[1], data, "u", 1.0)
    axes[0].figure.canvas.draw()
    assert axes[1].get_yscale() == "linear"
