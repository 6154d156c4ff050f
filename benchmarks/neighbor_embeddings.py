"""Neighbor embeddings against openTSNE, scikit-learn, umap-learn and PaCMAP: same data, one run, as ratios.

    MANIFOLDRY_DATA=folder python benchmarks/neighbor_embeddings.py [--quick] [--data digits ...] [--part fits ...]

Two threads each. ``fits``: a fit in a process that has fitted 1,500 points before, the best of two up to 20,000
points, for every library alike; with the memory it added and what became of the neighbors (1,000 sampled points,
k = 15), the labels (15 nearest, in the layout) and, for t-SNE, the divergence of every layout from the same
probabilities (perplexity 30). ``transform``: 10,000 new digits into 60,000. ``million``: a million points, ours alone.
``starts``: initial layouts of a sheet, ours alone, in seconds of the processor.
MNIST is left out when the folder has no mnist.npz; ``--quick`` takes the 1,797 digits and 20,000 points. Every part
stores its table. Needs the extra ``peers``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import peers
from manifoldry import datasets, metrics
from manifoldry._numerics.ranks import rank_measures
from peers import in_own_process, measure
from tables import Table

peers.MAX_SECONDS = 900
N_THREADS = 2
N_NEW = 10_000
PACKAGES = ("openTSNE", "umap-learn", "pacmap", "pynndescent")


def tsne(**settings):
    def make():
        from manifoldry import TSNE

        return TSNE(n_jobs=N_THREADS, **settings)

    return make


def umap():
    from manifoldry import UMAP

    return UMAP(n_jobs=N_THREADS)


def opentsne():
    from openTSNE import TSNE

    return TSNE(n_jobs=N_THREADS, random_state=0)


def sklearn_tsne():
    from sklearn.manifold import TSNE

    return TSNE(n_jobs=N_THREADS, random_state=0)


def umap_learn():
    from umap import UMAP

    return UMAP(n_jobs=N_THREADS)


def umap_seeded():
    from umap import UMAP

    return UMAP(random_state=0, n_jobs=1)


def pacmap():
    from pacmap import PaCMAP

    return PaCMAP(random_state=0)


LIBRARIES = {
    "TSNE": tsne(),
    "TSNE, 750 steps": tsne(max_iter=750, tol=0.0),
    "openTSNE": opentsne,
    "scikit-learn t-SNE": sklearn_tsne,
    "UMAP": umap,
    "umap-learn": umap_learn,
    "umap-learn, seeded": umap_seeded,
    "PaCMAP": pacmap,
}
WITH_DIVERGENCE = ("TSNE", "TSNE, 750 steps", "openTSNE", "scikit-learn t-SNE")
ONLY_ON = {"scikit-learn t-SNE": ("digits", "mnist10k")}
"""Peers that are not run on all data: scikit-learn's takes more than ten minutes at 70,000."""
WITH_TRANSFORM = ("TSNE", "openTSNE", "UMAP", "umap-learn", "PaCMAP")
DATA = ("digits", "mnist10k", "mnist50", "mnist784")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "iris":
        from sklearn.datasets import load_iris

        return load_iris().data.astype(np.float32), load_iris().target
    if name == "digits":
        digits = datasets.load("digits")
        return digits.X.astype(np.float32), digits.labels
    mnist = datasets.load("mnist")
    X = mnist.X.astype(np.float32)
    if name != "mnist784":
        centered = X - X.mean(axis=0)
        _, vectors = np.linalg.eigh(centered.T @ centered)
        X = np.ascontiguousarray(centered @ vectors[:, ::-1][:, :50])
    rows = slice(10_000 if name == "mnist10k" else None)
    return X[rows], mnist.labels[rows]


def layout(model, X: np.ndarray) -> np.ndarray:
    """Fit and return the coordinates; openTSNE's fit returns the embedding itself."""
    fitted = model.fit(X)
    return np.asarray(getattr(fitted, "embedding_", fitted))


def label_score(Y: np.ndarray, labels: np.ndarray, Q: np.ndarray | None = None, truth=None, k: int = 15) -> float:
    """Return the share of points whose k nearest (others) in the layout vote for their label."""
    from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

    if Q is not None:
        return float(KNeighborsClassifier(k).fit(Y, labels).score(Q, truth))
    near = NearestNeighbors(n_neighbors=k).fit(Y).kneighbors(return_distance=False)
    votes = np.apply_along_axis(np.bincount, 1, labels[near].astype(int), minlength=int(labels.max()) + 1)
    return float((votes.argmax(axis=1) == labels).mean())


def divergence(X: np.ndarray):
    """Return the function from a layout to its Kullback-Leibler divergence from perplexity 30, Z to 1e-4."""
    from manifoldry._core.run import Run
    from manifoldry._numerics.descent.divergence import JointDivergence
    from manifoldry._numerics.geometry.neighbor_affinity import negative_entropy, perplexity_probabilities
    from manifoldry._numerics.repulsion import LayoutKernel, choose_repulsion
    from manifoldry.graph._search import NeighborRule, neighbor_graph

    run = Run(0)
    graph, _ = neighbor_graph(X, NeighborRule(90).resolve(len(X)), run)
    joint = perplexity_probabilities(graph, [30.0], run).joint()
    kernel = LayoutKernel()
    repulsion = choose_repulsion(kernel, len(X), 2, accuracy=1e-4)
    return JointDivergence(joint, negative_entropy(joint.data), kernel, repulsion, run).value


def fits(names: list[str]) -> None:
    """Compare fits of the sets, each library in a process of its own."""
    caption = (
        "Neighbor embeddings with two threads, in a process that has fitted 1,500 points before, the best of two up to "
        "20,000 points. k = 15 for trustworthiness, continuity, neighbors kept (1,000 sampled points) and labels "
        "(share of points that their neighbors in the layout vote right). KL: divergence from perplexity 30."
    )
    columns = {"data": "", "library": "", "seconds": ".2f", "times ours": ".2f", "added MB": ".0f", "trust": ".4f"}
    columns |= {"continuity": ".4f", "kept": ".3f", "labels": ".4f", "KL": ".4f"}
    table = Table("neighbor_embeddings", caption, columns, PACKAGES)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            compare_fits(table, name, Path(folder))


def compare_fits(table: Table, name: str, folder: Path) -> None:
    X, labels = load(name)
    path = folder / f"{name}.npy"
    np.save(path, X)  # so that a cell's memory is that of its fit
    kl, base = divergence(X), 1.0
    for library in LIBRARIES:
        if name not in ONLY_ON.get(library, DATA):
            continue
        cell = in_own_process(__file__, [library, str(path)], folder)
        if "error" in cell:
            table.add(data=name, library=library, error=cell["error"])
            continue
        if library in ("TSNE", "UMAP"):
            base = cell["seconds"]
        ranks = rank_measures(X, cell["Y"], n_neighbors=15, sample=1000)
        table.add(
            data=name,
            library=library,
            seconds=cell["seconds"],
            times_ours=cell["seconds"] / base,
            added_MB=cell["added_mb"],
            trust=float(ranks.trustworthiness),
            continuity=float(ranks.continuity),
            kept=float(ranks.knn_kept),
            labels=label_score(cell["Y"], labels),
            KL=float(kl(cell["Y"])) if library in WITH_DIVERGENCE else None,
        )


def fit_cell(library: str, path: str, save: str) -> None:
    X = np.load(path)
    result = measure(lambda rows: layout(LIBRARIES[library](), rows), X, 2 if len(X) <= 20_000 else 1)
    np.save(save, result.pop("Y"))
    print(json.dumps(result))


def transforms(quick: bool) -> None:
    """Time the second transform of new digits, 10,000 into a layout of 60,000."""
    known, new = (1_500, 297) if quick else (60_000, N_NEW)
    caption = f"Placing {new:,} new digits in a layout of {known:,}, the second time; labels by 15 neighbors there."
    columns = {"library": "", "seconds": ".2f", "times ours": ".2f", "labels of the new": ".4f"}
    table = Table("neighbor_embeddings_transform", caption, columns, PACKAGES)
    base = 1.0
    for library in WITH_TRANSFORM:
        found = _in_new_process("--place", library, "digits" if quick else "mnist50")
        if isinstance(found, str):
            table.add(library=library, error=found)
            continue
        if library in ("TSNE", "UMAP"):
            base = found["seconds"]
        table.add(
            library=library,
            seconds=found["seconds"],
            times_ours=found["seconds"] / base,
            labels_of_the_new=found["labels"],
        )


def _in_new_process(*words: str) -> dict[str, float] | str:
    """Run this script with these options and return its last line, or what went wrong."""
    command = [sys.executable, "-W", "ignore", __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no message"])[-1][:100]
    return json.loads(done.stdout.strip().splitlines()[-1])


def place_cell(library: str, name: str) -> None:
    X, labels = load(name)
    known = 1_500 if name == "digits" else len(X) - N_NEW
    fitted = LIBRARIES[library]().fit(X[:known])
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        Q = np.asarray(fitted.transform(X[known:], **({"basis": X[:known]} if library == "PaCMAP" else {})))
        seconds.append(time.perf_counter() - start)
    Y = np.asarray(getattr(fitted, "embedding_", fitted))
    print(json.dumps({"seconds": min(seconds), "labels": label_score(Y, labels[:known], Q, labels[known:])}))


def million(quick: bool) -> None:
    """Time a million points: the holed Swiss roll by UMAP, and 50 columns by both."""
    n = 20_000 if quick else 1_000_000
    caption = f"{n:,} points, ours alone: the holed Swiss roll, and a hundred curved clusters in 50 columns."
    columns = {"data": "", "method": "", "seconds": ".1f", "peak MB": ".0f", "trust": ".4f"}
    table = Table("million_points", caption, columns)
    for data, method in (("holed roll", "UMAP"), ("50 columns", "UMAP"), ("50 columns", "TSNE")):
        found = _in_new_process("--million", data, method, str(n))
        if isinstance(found, str):
            table.add(data=data, method=method, error=found)
        else:
            table.add(data=data, method=method, **found)


def million_cell(data: str, method: str, n: int) -> None:
    import resource

    if data == "holed roll":
        X = datasets.swiss_roll(n, hole=True).X.astype(np.float32)
    else:  # a hundred curved clusters of ten dimensions in fifty columns
        rng = np.random.default_rng(0)
        kind = rng.integers(100, size=n)
        inner = rng.standard_normal((n, 10), dtype=np.float32)
        X = np.empty((n, 50), dtype=np.float32)
        for label in range(100):
            rows = np.flatnonzero(kind == label)
            turn = rng.standard_normal((10, 50), dtype=np.float32)
            X[rows] = (
                6 * rng.standard_normal(50, dtype=np.float32) + inner[rows] @ turn + 0.3 * (inner[rows] ** 2) @ turn
            )
    start = time.perf_counter()
    Y = LIBRARIES[method]().fit(X).embedding_
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    trust = float(metrics.trustworthiness(X, Y, n_neighbors=15, sample=300))
    print(json.dumps({"seconds": seconds, "peak_MB": peak / 1e6, "trust": trust}))


def starts(quick: bool) -> None:
    """Compare initial layouts of the holed Swiss roll."""
    from manifoldry import TSNE, UMAP

    n = 2_000 if quick else 20_000
    roll = datasets.swiss_roll(n, hole=True)
    caption = (
        f"Initial layouts of the holed Swiss roll, {n:,} points. The error is against the true coordinates, after the "
        "best similarity; k = 15, 1,000 sampled points; seconds of the processor, after a fit of 1,500 points."
    )
    columns = {"method": "", "init": "", "processor seconds": ".1f", "trust": ".4f", "continuity": ".4f"}
    columns |= {"kept": ".3f", "similarity error": ".4f", "KL": ".3f"}
    table = Table("neighbor_embeddings_starts", caption, columns)
    for method, words in ((UMAP, ("spectral", "pca", "ipa")), (TSNE, ("pca", "spectral", "ipa"))):
        for init in words:
            method(init=init, n_jobs=N_THREADS).fit(roll.X[:1500])
            began = time.process_time()
            model = method(init=init, n_jobs=N_THREADS).fit(roll.X)
            seconds = time.process_time() - began
            ranks = rank_measures(roll.X, model.embedding_, n_neighbors=15, sample=1000)
            table.add(
                method=method.__name__,
                init=init,
                processor_seconds=seconds,
                trust=float(ranks.trustworthiness),
                continuity=float(ranks.continuity),
                kept=float(ranks.knn_kept),
                similarity_error=metrics.procrustes(model.embedding_, roll.truth, kind="similarity").error,
                KL=getattr(model, "kl_divergence_", None),
            )


PARTS = {"transform": transforms, "million": million, "starts": starts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sets only")
    parser.add_argument("--data", nargs="*", choices=DATA, help="only these sets")
    parser.add_argument("--part", nargs="*", choices=("fits", *PARTS), default=["fits", *PARTS])
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--place", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--million", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        fit_cell(*options.cell, options.save)
    elif options.place:
        place_cell(*options.place)
    elif options.million:
        million_cell(*options.million[:2], int(options.million[2]))
    else:
        run_parts(options)


def run_parts(options: argparse.Namespace) -> None:
    has_mnist = "mnist" in datasets.available()
    if "fits" in options.part:
        names = options.data or (["digits"] if options.quick else DATA)
        fits([name for name in names if name == "digits" or has_mnist])
    for part, work in PARTS.items():
        if part in options.part and (has_mnist or options.quick or part != "transform"):
            work(options.quick)


if __name__ == "__main__":
    main()
