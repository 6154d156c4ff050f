"""Swiss rolls of few points, one per seed: whether the unfolding methods unfold them at their defaults.

    python benchmarks/small_rolls.py [--sizes 300 600] [--seeds 24] [--hole] [--methods IPA TesseraMap] [--plot FOLDER]

Prints the rigid error of every seed, and how many are unfolded: an error below 0.05. Errors of unfolded rolls are below
0.02, as no bend of a sheet that stays flat costs more; a fold puts a tenth of the variance and more at the wrong place.
``--plot`` draws a sheet of all layouts, colored by the true arc length.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import manifoldry
from manifoldry import datasets, metrics
from manifoldry._core.warnings import EmbeddingWarning

MAX_UNFOLDED_ERROR = 0.05


def fit(method: str, n: int, hole: bool, seed: int) -> tuple[Any, Any, float, float]:
    """Return the roll, its layout, the rigid error and the CPU seconds of the fit."""
    roll = datasets.swiss_roll(n, hole=hole, random_state=seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmbeddingWarning)
        Y = getattr(manifoldry, method)(n_components=2).fit_transform(roll.X)
    return roll, Y, metrics.procrustes(Y, roll.truth).error, time.process_time() - began


def draw(fits: list[tuple[Any, Any, float, float]], path: Path) -> None:
    """Draw all layouts, side by side."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(4, -(-len(fits) // 4), figsize=(18, 9), squeeze=False)
    for panel in panels.flat:
        panel.axis("off")
    for seed, (panel, (roll, Y, error, _)) in enumerate(zip(panels.flat, fits, strict=False)):
        panel.scatter(*Y.T, c=roll.truth[:, 0], s=4)
        panel.set_title(f"{seed}: {error:.2g}", color="black" if error < MAX_UNFOLDED_ERROR else "red", fontsize=9)
        panel.set_aspect("equal")
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> None:
    """Fit, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 600])
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--hole", action="store_true")
    parser.add_argument("--methods", nargs="+", default=["IPA", "TesseraMap"])
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    for method in given.methods:
        for n in given.sizes:
            fits = [fit(method, n, given.hole, seed) for seed in range(given.seeds)]
            errors, seconds = [found[2] for found in fits], [found[3] for found in fits]
            unfolded = sum(error < MAX_UNFOLDED_ERROR for error in errors)
            print(f"{method}, {n} points: {unfolded} of {len(fits)} unfolded, {max(seconds):.1f} CPU seconds at most")
            print("  " + " ".join(f"{error:.2g}" for error in errors), flush=True)
            if given.plot is not None:
                given.plot.mkdir(parents=True, exist_ok=True)
                draw(fits, given.plot / f"small_rolls_{method}_{n}{'_holed' if given.hole else ''}.png")


if __name__ == "__main__":
    main()
