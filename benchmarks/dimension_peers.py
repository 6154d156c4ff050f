"""Write results/dimension_peers.json: what scikit-dimension says of the sets of dimension_sets.py.

    python benchmarks/dimension_peers.py      (in an environment that has scikit-dimension)

Its own defaults, but for expected simplex skewness, which takes 40 neighbors instead of 100 and 600 points at most: it
compares their directions one pair at a time, and for local PCA, which takes 40 neighbors of each of 100 points.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import skdim

from dimension_sets import BENCHMARK, HELD_OUT, REAL, manifold, real

PATH = Path(__file__).parent / "results" / "dimension_peers.json"


def peers(X):
    found = {"MLE": skdim.id.MLE().fit(X).dimension_, "TwoNN": skdim.id.TwoNN().fit(X).dimension_}
    found["CorrInt"] = skdim.id.CorrInt().fit(X).dimension_
    near = skdim._commonfuncs.get_nn(X, k=40)[1]
    found["lPCA"] = np.mean(
        [skdim.id.lPCA().fit(X[near[i]]).dimension_ for i in range(0, len(X), max(1, len(X) // 100))]
    )
    if len(X) <= 600:
        found["ESS"] = skdim.id.ESS(random_state=0).fit(X, n_neighbors=40).dimension_
    return {name: round(float(value), 3) for name, value in found.items()}


def main():
    values = {}
    for name in [*BENCHMARK, *HELD_OUT]:
        values[name] = {str(n): peers(manifold(name, n)) for n in (500, 2500)}
    for name in REAL:
        values[name] = {"real": peers(real(name))}
    stored = {"made_with": {"package": "scikit-dimension 0.5.0", "script": Path(__file__).name}, "values": values}
    PATH.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
