"""What `compare` says of a roll and of real sets, for every purpose that applies, with pictures to hold beside it.

MANIFOLDRY_DATA=folder python benchmarks/compare.py [--sets roll,digits] [--purposes "keep distances"] [--pictures out]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from contact_sheet import Panel, draw
from manifoldry import compare, datasets
from manifoldry.evaluation.selection._comparison import Comparison
from manifoldry.evaluation.selection._objectives import PURPOSES
from real_sets import SETS, RealSet

DEFAULT_SETS = "roll,digits,frey,olive_oil,flow,coil20"
"""The roll, three sets that the rules were made with in mind, and two that they were not."""
ROLL_POINTS = 1000


def read(name: str) -> RealSet:
    """Return a set by name; the roll with its length along the turn as the number to follow."""
    if name == "roll":
        roll = datasets.swiss_roll(ROLL_POINTS)
        assert roll.truth is not None
        return RealSet(roll.X, targets=roll.truth)
    return SETS[name]()


def applies(purpose: str, data: RealSet) -> bool:
    """Tell whether a purpose can be judged on a set."""
    return "labels" not in PURPOSES[purpose].needs or data.labels is not None


def picture(found: Comparison, data: RealSet, path: Path, title: str) -> None:
    """Draw all embeddings of a comparison in the order of their rank."""
    panels = [
        Panel(f"{place}. {name}", coordinates, data.color[found.rows])
        for place, (name, coordinates) in enumerate(found.embeddings.items(), 1)
    ]
    draw(panels, path, title)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=DEFAULT_SETS)
    parser.add_argument("--purposes", default=",".join(PURPOSES))
    parser.add_argument("--budget", type=float, default=None)
    parser.add_argument("--pictures", type=Path, default=None)
    options = parser.parse_args()
    for name in options.sets.split(","):
        data = read(name)
        for purpose in options.purposes.split(","):
            if not applies(purpose, data):
                continue
            began = time.process_time()
            labels = data.labels if purpose in ("see clusters", "features for a classifier") else None
            found = compare(data.X, purpose, options.budget, labels=labels)
            print(f"== {name}, {time.process_time() - began:.0f} CPU seconds\n{found}\n", flush=True)
            if options.pictures is not None:
                options.pictures.mkdir(parents=True, exist_ok=True)
                file = options.pictures / f"{name}_{purpose.replace(' ', '_')}.png"
                picture(found, data, file, f"{name}: {purpose}, {np.size(found.rows):,} points")


if __name__ == "__main__":
    main()
