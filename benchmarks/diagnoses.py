"""What `diagnose` says about every real set, as it is stored and as it is commonly prepared, and about known shapes.

    MANIFOLDRY_DATA=folder python benchmarks/diagnoses.py [--sets digits,frey_faces]

To be read beside the pictures: a finding that is wrong on a real set is worse than none.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.preprocessing import StandardScaler

from manifoldry import datasets, diagnose
from manifoldry._core.values import FloatArray

SHAPES = ("swiss_roll", "s_curve", "sphere", "torus", "half_globe", "fishbowl", "cylinder", "twin_peaks", "helix")
SCALED = ("wine", "breast_cancer", "wine_quality", "olive_oil")
"""Sets whose columns have different units, shown scaled too."""


def sets() -> dict[str, Callable[[], FloatArray]]:
    """Return every set by name, to be loaded when its turn comes."""
    found: dict[str, Callable[[], FloatArray]] = {}
    for name in SHAPES:
        found[name] = lambda name=name: datasets.GENERATORS[name](1500).X
    found["swiss_roll with a hole"] = lambda: datasets.swiss_roll(1500, hole=True).X
    found["swiss_roll of 400"] = lambda: datasets.swiss_roll(400).X
    found["normal numbers"] = lambda: np.random.default_rng(0).normal(size=(1500, 10))
    for name in datasets.available():
        found[name] = lambda name=name: datasets.load(name).X
        if name in SCALED:
            found[f"{name} scaled"] = lambda name=name: StandardScaler().fit_transform(datasets.load(name).X)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="", help="names, separated by commas; all by default")
    chosen = [name for name in parser.parse_args().sets.split(",") if name]
    for name, load in sets().items():
        if chosen and name not in chosen:
            continue
        X = load()
        began = time.process_time()
        found = diagnose(X, n_jobs=1)
        print(f"=== {name}, {time.process_time() - began:.1f} s of processor time\n{found}\n", flush=True)


if __name__ == "__main__":
    main()
