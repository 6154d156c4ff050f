"""Known manifolds with their true coordinates, and real data by name.

Every generator returns a `Dataset`. Besides the number of points and its own sizes it takes ``noise``,
``unevenness`` and ``random_state``. `GENERATORS` lists the generators by name. `load` returns real data; `available`
lists its names.

Examples
--------
>>> from manifoldry import datasets
>>> roll = datasets.swiss_roll(1500, hole=True, noise=0.1, random_state=3)
>>> roll
Dataset('swiss_roll', n=1500, D=3, intrinsic_dim=2, known: truth, parameters)
"""

from __future__ import annotations

from collections.abc import Callable

from manifoldry.data.datasets._dataset import Dataset
from manifoldry.data.datasets._flat import (
    cylinder,
    dual_spiral,
    helix,
    open_box,
    s_curve,
    spiral,
    star,
    swiss_roll,
    v_shape,
    wave,
)
from manifoldry.data.datasets._real import available, load
from manifoldry.data.datasets._surfaces import fishbowl, gaussian_clusters, half_globe, sphere, torus, twin_peaks

GENERATORS: dict[str, Callable[..., Dataset]] = {
    generator.__name__: generator
    for generator in (
        *(swiss_roll, s_curve, v_shape, dual_spiral, twin_peaks, star, wave, spiral, helix, torus, sphere),
        *(half_globe, fishbowl, open_box, cylinder, gaussian_clusters),
    )
}

__all__ = [
    "GENERATORS",
    "Dataset",
    "available",
    "cylinder",
    "dual_spiral",
    "fishbowl",
    "gaussian_clusters",
    "half_globe",
    "helix",
    "load",
    "open_box",
    "s_curve",
    "sphere",
    "spiral",
    "star",
    "swiss_roll",
    "torus",
    "twin_peaks",
    "v_shape",
    "wave",
]
