"""Store ZADU's measures with labels: run where zadu 0.5.4 and scikit-learn are installed, in this directory."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from zadu.measures import internal_validation_measure, neighborhood_hit

SEED = 17
rng = np.random.default_rng(SEED)
labels = rng.integers(4, size=200)
Y = rng.normal(size=(200, 2)) + labels[:, None] * [1.5, 0.5]
stored = {
    "made_with": f"zadu {version('zadu')}, scikit-learn {version('scikit-learn')}: 200 points, four classes in a row, "
    "labels = rng.integers(4, size=200), Y = rng.normal(size=(200, 2)) + labels * (1.5, 0.5)",
    "seed": SEED,
    "neighborhood_hit": {k: float(neighborhood_hit.measure(Y, labels, k=k)["neighborhood_hit"]) for k in (1, 10, 40)},
    "silhouette": float(internal_validation_measure.measure(Y, labels, "silhouette")["silhouette"]),
}
Path("labels.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
