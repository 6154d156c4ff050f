"""Write dimension_peers.json: what scikit-dimension says of the sets of dimension_sets.py.

    python benchmarks/dimension_peers.py      (in an environment that has scikit-dimension)

Its own defaults, but for expected simplex skewness and local PCA: the mean over 40 neighborhoods of 40 points, as it
compares directions one pair at a time.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import skdim

from dimension_sets import BENCHMARK, HELD_OUT, REAL, manifold, real

PATH = Path(__file__).with_suffix(".json")


def peers(X):
    found = {"MLE": skdim.id.MLE().fit(X).dimension_, "TwoNN": skdim.id.TwoNN().fit(X).dimension_}
    found["CorrInt"] = skdim.id.CorrInt().fit(X).dimension_
    near = skdim._commonfuncs.get_nn(X, k=40)[1][np.linspace(0, len(X) - 1, 40).astype(int)]
    found["lPCA"] = np.mean([skdim.id.lPCA().fit(X[members]).dimension_ for members in near])
    found["ESS"] = np.mean([skdim.id.ESS(random_state=0).fit_once(X[members]).dimension_ for members in near])
    return {name: round(float(value), 3) for name, value in found.items()}


def main():
    values = {}
    made = {"package": "scikit-dimension 0.5.0", "script": Path(__file__).name}
    for name in [*REAL, *BENCHMARK, *HELD_OUT]:
        tables = {"real": real(name)} if name in REAL else {str(n): manifold(name, n) for n in (500, 2500)}
        values[name] = {size: peers(X) for size, X in tables.items()}
        PATH.write_text(json.dumps({"made_with": made, "values": values}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
