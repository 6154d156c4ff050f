"""Manifold charting beside the dimension reduction toolbox, mixtures of Gaussians, IPA and LTSA: errors, seconds.

    python benchmarks/charting.py [--seeds 10] [--points 1000] [--drtoolbox FOLDER]

Rolls and S-curves, one per seed. ``FOLDER`` has the toolbox's charting.m, mppca.m and infermfa.m, which are run by
Octave with their defaults (40 analyzers, 200 iterations); without it their row is left out. Errors are those after the
best affine map, as charting leaves that open. Stores the table.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.manifold import LocallyLinearEmbedding

from manifoldry import IPA, LTSA, MPPCA, ManifoldCharting, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._numerics.patches.affine import WeightedCharts
from manifoldry._numerics.patches.cover import Membership
from tables import Table

MAX_UNFOLDED_ERROR = 0.05
"""Share of the variance at the wrong place up to which a roll passes for unfolded, as in small_rolls.py."""
N_ANALYZERS = 40
"""Components of the mixtures: the toolbox's default."""
MIN_SHARE = 1e-12
"""Posterior probabilities below this are no membership."""

Timed = tuple[np.ndarray, float]


def timed(model: Any) -> Callable[[np.ndarray, int], Timed]:
    """Return what fits a model, with its CPU seconds."""

    def fit(X: np.ndarray, seed: int) -> Timed:  # noqa: ARG001
        began = time.process_time()
        Y = model().fit_transform(X)
        return Y, time.process_time() - began

    return fit


def by_mixture(X: np.ndarray, seed: int) -> Timed:
    """Align the charts of a mixture of probabilistic PCA, with its posterior probabilities as memberships."""
    began = time.process_time()
    mixture = MPPCA(n_clusters=N_ANALYZERS, n_components=2, n_init=1, random_state=seed).fit(X)
    shares = mixture.predict_proba(X)
    members = Membership.of_matrix(np.where(shares > MIN_SHARE, shares, 0.0))
    away = X[members.points] - mixture.subspaces_.means[members.patches]
    f = np.einsum("md,mdr->mr", away, mixture.subspaces_.bases[members.patches])
    Y = WeightedCharts.of(members, f, mixture.n_clusters_).eigenpairs(2, Run()).vectors
    return Y, time.process_time() - began


def by_toolbox(folder: Path) -> Callable[[np.ndarray, int], Timed]:
    """Return what runs the toolbox's charting by Octave, with the CPU seconds of the call alone."""

    def fit(X: np.ndarray, seed: int) -> Timed:
        with tempfile.TemporaryDirectory() as name:
            here = Path(name)
            np.savetxt(here / "X.txt", X)
            script = (
                f"warning('off', 'all'); addpath('{folder}'); X = load('{here / 'X.txt'}'); "
                f"randn('state', {seed + 1}); rand('state', {seed + 1}); t = cputime(); "
                f"Y = charting(X, 2, {N_ANALYZERS}, 200, 'Matlab'); t = cputime() - t; Y = real(Y); "
                f"save('-ascii', '-double', '{here / 'Y.txt'}', 'Y'); save('-ascii', '{here / 't.txt'}', 't');"
            )
            subprocess.run(["octave-cli", "--quiet", "--eval", script], check=True, capture_output=True, timeout=600)
            return np.loadtxt(here / "Y.txt").reshape(len(X), -1), float(np.loadtxt(here / "t.txt"))

    return fit


def sets(n: int) -> dict[str, Callable[[int], datasets.Dataset]]:
    """Return the sets, each by its seed."""
    return {
        "roll": lambda seed: datasets.swiss_roll(n, random_state=seed),
        "holed roll": lambda seed: datasets.swiss_roll(n, hole=True, random_state=seed),
        "S-curve": lambda seed: datasets.s_curve(n, random_state=seed),
    }


def error_of(Y: np.ndarray, truth: np.ndarray) -> float:
    """Return the affine error, 1 of coordinates that are no numbers."""
    return metrics.procrustes(Y, truth, kind="affine").error if np.isfinite(Y).all() else 1.0


def main() -> None:
    """Fit and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--drtoolbox", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = {
        "ManifoldCharting": timed(ManifoldCharting),
        "ManifoldCharting, flat charts": timed(lambda: ManifoldCharting(chart="flat")),
        "the same alignment of MPPCA": by_mixture,
        "IPA": timed(IPA),
        "LTSA": timed(LTSA),
        "scikit-learn's LTSA": timed(lambda: LocallyLinearEmbedding(n_neighbors=10, method="ltsa", n_components=2)),
    }
    if given.drtoolbox is not None:
        methods["drtoolbox's charting"] = by_toolbox(given.drtoolbox)
    columns = {"set": "", "method": "", "unfolded": "", "median error": ".1e", "largest error": ".1e", "CPU s": ".2f"}
    caption = (
        f"Surfaces of {given.points:,} points, {given.seeds} seeds: how many are unfolded (error below "
        f"{MAX_UNFOLDED_ERROR:g}), the error after the best affine map as a share of the variance, and the median CPU "
        "seconds of a fit; the toolbox is run by Octave."
    )
    table = Table("charting", caption, columns)
    for fit in methods.values():
        fit(datasets.s_curve(200).X, 0)  # what is compiled or loaded once
    for name, make in sets(given.points).items():
        found = {method: [] for method in methods}
        for seed in range(given.seeds):
            surface = make(seed)
            for method, fit in methods.items():
                Y, seconds = fit(surface.X, seed)
                found[method].append((error_of(Y, surface.truth), seconds))
        for method, pairs in found.items():
            errors, seconds = np.array(pairs).T
            unfolded = int((errors < MAX_UNFOLDED_ERROR).sum())
            table.add(
                set=name,
                method=method,
                unfolded=f"{unfolded} of {given.seeds}",
                median_error=float(np.median(errors)),
                largest_error=float(errors.max()),
                CPU_s=float(np.median(seconds)),
            )


if __name__ == "__main__":
    main()
