"""Which clusters of pictures are called real: sets without clusters, sets with labels, t-SNE and UMAP.

    python benchmarks/null_comparison.py [--quick] [--curves] [--seeds 11 12 ...]

Every set is drawn anew with each seed and embedded by TSNE (perplexity 5, 10, 30) and UMAP (5 and 15 neighbors). Of
sets with labels, the clusters of the pictures are told apart by the labels: a *group* holds one class or several whole
ones (Jaccard similarity of at least 0.7 with the classes of which it has most points), a *fragment* is at least 80 % of
one class but misses much of it, all others are *mixed*. ``--quick`` takes two methods. ``--curves`` takes connected
curves of 450 points, and a few groups to compare with, in default pictures. Stores the table. Needs the data
(``MANIFOLDRY_DATA``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import manifoldry
from manifoldry import datasets, metrics
from manifoldry._core.values import Array
from real_sets import standardized
from tables import Table

Drawn = tuple[Array, Array | None]
METHODS: dict[str, Callable[[int], manifoldry.TSNE | manifoldry.UMAP]] = {
    "TSNE 5": lambda seed: manifoldry.TSNE(perplexity=5, random_state=seed),
    "TSNE 10": lambda seed: manifoldry.TSNE(perplexity=10, random_state=seed),
    "TSNE 30": lambda seed: manifoldry.TSNE(perplexity=30, random_state=seed),
    "UMAP 5": lambda seed: manifoldry.UMAP(n_neighbors=5, random_state=seed),
    "UMAP 15": lambda seed: manifoldry.UMAP(n_neighbors=15, random_state=seed),
}
QUICK = ("TSNE 5", "UMAP 15")
N_POINTS = 1_000
VERDICTS = ("real", "undecided", "artifact")
COLUMNS = {
    "data": "",
    "pictures": "d",
    "with a real cluster": "d",
    "clusters": "",
    "number": "d",
    **dict.fromkeys(VERDICTS, "d"),
    "CPU seconds a picture": ".1f",
}
CHOSEN_ON = {"square", "5-D cube", "10-D Gaussian", "Swiss roll", "noisy circle", "digits"}
"""Sets, with other seeds, on which the statistic and its threshold were chosen."""


def _sphere(rng: np.random.Generator) -> Array:
    points = rng.normal(size=(N_POINTS, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _roll(rng: np.random.Generator) -> Array:
    turn = 1.5 * np.pi * (1 + 2 * rng.random(N_POINTS))
    return np.stack([turn * np.cos(turn), 21 * rng.random(N_POINTS), turn * np.sin(turn)], axis=1)


def _circle(rng: np.random.Generator) -> Array:
    turn = 2 * np.pi * rng.random(N_POINTS)
    return np.stack([np.cos(turn), np.sin(turn)], axis=1) + 0.02 * rng.normal(size=(N_POINTS, 2))


def _mixture(rng: np.random.Generator, centers: Array, shares: list[float]) -> Drawn:
    labels = rng.choice(len(shares), p=shares, size=N_POINTS)
    return centers[labels] + rng.normal(size=(N_POINTS, centers.shape[1])), labels


def _moons(rng: np.random.Generator) -> Drawn:
    labels = np.arange(N_POINTS) % 2
    turn = np.pi * rng.random(N_POINTS)
    points = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    points[labels == 1] = [1.0, 0.5] - points[labels == 1]
    return points + 0.05 * rng.normal(size=points.shape), labels


def _real(name: str, n: int = N_POINTS, *, scale: bool = False) -> Callable[[np.random.Generator], Drawn]:
    def draw(rng: np.random.Generator) -> Drawn:
        data = datasets.load(name)
        rows = np.sort(rng.permutation(len(data.X))[:n])
        X = np.asarray(data.X, dtype=float)[rows]
        return standardized(X) if scale else X, None if data.labels is None else np.asarray(data.labels)[rows]

    return draw


STRUCTURELESS: dict[str, Callable[[np.random.Generator], Array]] = {
    "square": lambda rng: rng.random((N_POINTS, 2)),
    "3-D cube": lambda rng: rng.random((N_POINTS, 3)),
    "5-D cube": lambda rng: rng.random((N_POINTS, 5)),
    "10-D cube": lambda rng: rng.random((N_POINTS, 10)),
    "2-D Gaussian": lambda rng: rng.normal(size=(N_POINTS, 2)),
    "10-D Gaussian": lambda rng: rng.normal(size=(N_POINTS, 10)),
    "5-D Student t, 3 degrees": lambda rng: rng.standard_t(3, size=(N_POINTS, 5)),
    "3-D exponential": lambda rng: rng.exponential(size=(N_POINTS, 3)),
    "Swiss roll": _roll,
    "sphere": _sphere,
    "noisy circle": _circle,
}
LABELED: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "5 Gaussians far apart": lambda rng: _mixture(rng, 4.0 * rng.normal(size=(5, 10)), [0.2] * 5),
    "4 Gaussians of 70, 20, 7, 3 %": lambda rng: _mixture(rng, 5.0 * rng.normal(size=(4, 5)), [0.7, 0.2, 0.07, 0.03]),
    "3 Gaussians overlapping": lambda rng: _mixture(rng, 2.0 * np.eye(3, 10), [0.4, 0.3, 0.3]),
    "two moons": _moons,
    "digits": _real("digits"),
    "MNIST": _real("mnist", 3_000),
    "Fashion-MNIST": _real("fashion_mnist"),
    "COIL-20": _real("coil20_32", 1_440),
    "olive oil": _real("olive_oil", scale=True),
    "wine": _real("wine", scale=True),
    "pbmc3k": _real("pbmc3k_pca50"),
    "flow cytometry": _real("flow_cytometry"),
}


def _tree(rng: np.random.Generator, width: int, noise: float) -> Array:
    arms = rng.normal(size=(5, width))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    along = 10 * rng.random((N_CURVE, 1)) * arms[rng.integers(5, size=N_CURVE)]
    return along + noise * rng.normal(size=(N_CURVE, width))


def _branches(rng: np.random.Generator, width: int, noise: float) -> Array:
    """Return points along seven segments, each of which begins at a random point of an earlier one."""
    starts, ends = [np.zeros(width)], [5 * rng.normal(size=width) / np.sqrt(width)]
    for _ in range(6):
        of = rng.integers(len(starts))
        starts.append(starts[of] + rng.random() * (ends[of] - starts[of]))
        ends.append(starts[-1] + 5 * rng.normal(size=width) / np.sqrt(width))
    which = rng.integers(7, size=N_CURVE)
    A, B = np.array(starts)[which], np.array(ends)[which]
    return A + rng.random((N_CURVE, 1)) * (B - A) + noise * rng.normal(size=(N_CURVE, width))


def _walk(rng: np.random.Generator, width: int, noise: float) -> Array:
    return np.cumsum(rng.normal(size=(N_CURVE, width)), axis=0) + noise * rng.normal(size=(N_CURVE, width))


def _spiral(rng: np.random.Generator, width: int, noise: float) -> Array:
    turn = 6 * np.pi * np.sqrt(rng.random((N_CURVE, 1)))
    plane = np.linalg.qr(rng.normal(size=(width, 2)))[0]
    return turn * np.hstack([np.cos(turn), np.sin(turn)]) @ plane.T + noise * rng.normal(size=(N_CURVE, width))


def _helix(rng: np.random.Generator, width: int, noise: float) -> Array:
    turn = 8 * np.pi * rng.random((N_CURVE, 1))
    space = np.linalg.qr(rng.normal(size=(width, 3)))[0]
    points = np.hstack([3 * np.cos(turn), 3 * np.sin(turn), turn])
    return points @ space.T + noise * rng.normal(size=(N_CURVE, width))


def _gaussians(rng: np.random.Generator, centers: Array) -> Drawn:
    labels = np.arange(N_CURVE) % len(centers)
    return centers[labels] + rng.normal(size=(N_CURVE, centers.shape[1])), labels


N_CURVE = 450
CURVES: dict[str, Callable[[np.random.Generator], Array]] = {
    "tree of five arms, 2-D": lambda rng: _tree(rng, 2, 0.2),
    "tree of five arms, 5-D": lambda rng: _tree(rng, 5, 0.3),
    "tree of five arms, 10-D": lambda rng: _tree(rng, 10, 0.1),
    "seven branches, 3-D": lambda rng: _branches(rng, 3, 0.05),
    "seven branches, 10-D": lambda rng: _branches(rng, 10, 0.1),
    "seven thick branches, 10-D": lambda rng: _branches(rng, 10, 0.3),
    "random walk, 2-D": lambda rng: _walk(rng, 2, 0.0),
    "random walk, 3-D, noise": lambda rng: _walk(rng, 3, 0.5),
    "random walk, 10-D": lambda rng: _walk(rng, 10, 0.0),
    "spiral, 2-D": lambda rng: _spiral(rng, 2, 0.3),
    "spiral, 10-D": lambda rng: _spiral(rng, 10, 0.3),
    "helix, 3-D": lambda rng: _helix(rng, 3, 0.0),
    "helix, 10-D": lambda rng: _helix(rng, 10, 0.1),
}
GROUPS: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "2 Gaussians 4 sd apart, 5-D": lambda rng: _gaussians(rng, 4.0 * np.eye(2, 5) * [[1], [0]]),
    "2 Gaussians 4 sd apart, 10-D": lambda rng: _gaussians(rng, 4.0 * np.eye(2, 10) * [[1], [0]]),
    "8 Gaussians far apart": lambda rng: _gaussians(rng, 5.0 * rng.normal(size=(8, 5))),
}


def kind_of(cluster: Array, classes: Array) -> str:
    """Return whether a cluster (a mask) holds whole classes ("group"), a part of one ("fragment"), or neither."""
    names = np.unique(classes)
    held = [name for name in names if 2 * np.sum(cluster & (classes == name)) > np.sum(classes == name)]
    whole = np.isin(classes, held)
    if np.sum(cluster & whole) >= 0.7 * np.sum(cluster | whole):
        return "group"
    purity = max(np.sum(cluster & (classes == name)) for name in names) / np.sum(cluster)
    return "fragment" if purity >= 0.8 else "mixed"


def judge(X: Array, classes: Array | None, seed: int, methods: list[str]) -> tuple[Counter[tuple[str, str]], int]:
    """Return how many clusters of each kind got each verdict, and how many pictures have a real one."""
    counts: Counter[tuple[str, str]] = Counter()
    with_real = 0
    for name in methods:
        found = metrics.null_comparison(METHODS[name](seed), X, random_state=seed)
        with_real += len(found.real) > 0
        for i, verdict in enumerate(found.verdicts):
            counts["any" if classes is None else kind_of(found.labels == i, classes), verdict] += 1
    return counts, with_real


def caption(methods: list[str], seeds: list[int], *, curves: bool = False) -> str:
    chosen = (
        "The thresholds for curves were chosen on sets of these kinds, drawn with other seeds."
        if curves
        else "The statistic and its threshold were chosen on the sets marked with a star, drawn with other seeds."
    )
    named = f"pictures by {', '.join(methods)}, seeds {', '.join(map(str, seeds))}"
    return f"Verdicts on the clusters seen in {named}. {chosen}"


def totals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sums over all sets for each kind of clusters."""
    kinds = ("any", "group", "fragment", "mixed")
    summed = ("number", *VERDICTS)
    sums = {
        kind: {name: sum(row[name] for row in rows if row["clusters"] == kind) for name in summed} for kind in kinds
    }
    names = {kind: "all with labels" if kind != "any" else "all without clusters" for kind in kinds}
    return [{"data": f"**{names[kind]}**", "clusters": kind, **sums[kind]} for kind in kinds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11])
    parser.add_argument("--curves", action="store_true")
    given = parser.parse_args()
    methods = ["TSNE 30", "UMAP 15"] if given.curves else list(QUICK if given.quick else METHODS)
    warnings.simplefilter("ignore", manifoldry.EmbeddingWarning)
    told = caption(methods, given.seeds, curves=given.curves)
    table = Table("null_comparison_curves", told, COLUMNS) if given.curves else Table("null_comparison", told, COLUMNS)
    without, labeled = (CURVES, GROUPS) if given.curves else (STRUCTURELESS, LABELED)
    drawn = {name: (lambda rng, make=make: (make(rng), None)) for name, make in without.items()}
    for name, make in {**drawn, **labeled}.items():
        counts: Counter[tuple[str, str]] = Counter()
        with_real, began = 0, time.process_time()
        for seed in given.seeds:
            X, classes = make(np.random.default_rng([seed, 7]))
            found, pictures = judge(X, classes, seed, methods)
            counts, with_real = counts + found, with_real + pictures
        n_pictures = len(methods) * len(given.seeds)
        spent = (time.process_time() - began) / n_pictures
        for kind in sorted({kind for kind, _ in counts}):
            cells = {verdict: counts[kind, verdict] for verdict in VERDICTS}
            row = {"data": name + " *" * (name in CHOSEN_ON), "clusters": kind, "number": sum(cells.values()), **cells}
            row |= {"pictures": n_pictures, "with a real cluster": with_real, "CPU seconds a picture": spent}
            table.add(**row)
    for row in totals(table.rows):
        table.add(**row)


if __name__ == "__main__":
    main()
