"""Neighbor embeddings against openTSNE, scikit-learn, umap-learn and PaCMAP: same data, one run, as ratios.

    MANIFOLDRY_DATA=folder python benchmarks/neighbor_embeddings.py [--data mnist50 ...] [--part fits|transform|...]

Two threads each. ``fits``: the second fit in a process, after a warm-up on 1,500 points, with the memory it added and
what became of the neighbors (1,000 sampled points, k = 15), the labels (15 nearest, in the layout) and, for t-SNE,
the divergence of every layout from the same probabilities (perplexity 30). ``transform``: 10,000 new digits into
60,000. ``start``: iris and 10,000 digits in a new process, imports included, with an empty and a filled cache of
compiled loops. ``million``: a million points, ours alone. MNIST is left out when the folder has no mnist.npz.
Needs the extra ``peers``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import peers
from manifoldry import datasets, quality
from peers import in_own_process, measure

peers.TIMEOUT = 900
THREADS = 2
NEW = 10_000


def tsne(**settings):
    def make():
        from manifoldry import TSNE

        return TSNE(n_jobs=THREADS, **settings)

    return make


def umap():
    from manifoldry import UMAP

    return UMAP(n_jobs=THREADS)


def opentsne():
    from openTSNE import TSNE

    return TSNE(n_jobs=THREADS, random_state=0)


def sklearn_tsne():
    from sklearn.manifold import TSNE

    return TSNE(n_jobs=THREADS, random_state=0)


def umap_learn():
    from umap import UMAP

    return UMAP(n_jobs=THREADS)


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
T_SNE = ("TSNE", "TSNE, 750 steps", "openTSNE", "scikit-learn t-SNE")
SLOW = {"scikit-learn t-SNE": ("digits", "mnist10k")}
"""Peers that are not run on all data: scikit-learn's takes more than ten minutes at 70,000."""
PLACES = ("TSNE", "openTSNE", "UMAP", "umap-learn", "PaCMAP")
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


def label_score(Y: np.ndarray, labels: np.ndarray, Q: np.ndarray | None = None, truth=None) -> float:
    """Return the share of points whose 15 nearest (others) in the layout vote for their label."""
    from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

    if Q is not None:
        return float(KNeighborsClassifier(15).fit(Y, labels).score(Q, truth))
    near = NearestNeighbors(n_neighbors=15).fit(Y).kneighbors(return_distance=False)
    votes = np.apply_along_axis(np.bincount, 1, labels[near].astype(int), minlength=int(labels.max()) + 1)
    return float((votes.argmax(axis=1) == labels).mean())


def divergence(X: np.ndarray):
    """Return the function from a layout to its Kullback-Leibler divergence from perplexity 30, Z to 1e-4."""
    from manifoldry.geometry.entropic import negative_entropy, perplexity_probabilities
    from manifoldry.neighbors.search import NeighborRule, neighbor_graph
    from manifoldry.run import Run
    from manifoldry.solve.divergence import JointDivergence
    from manifoldry.solve.repulsion import LayoutKernel, choose_repulsion

    run = Run(0)
    graph, _ = neighbor_graph(X, NeighborRule(90).resolve(len(X)), run)
    joint = perplexity_probabilities(graph, [30.0], run).joint()
    kernel = LayoutKernel.student_t()
    repulsion = choose_repulsion(kernel, len(X), 2, accuracy=1e-4)
    return JointDivergence(joint, negative_entropy(joint.data), kernel, repulsion, run).value


def fits(names: list[str]) -> None:
    print(
        f"{'data':9} {'library':20} {'seconds':>8} {'ratio':>6} {'added MB':>8} {'trust':>7} {'contin':>7} {'kept':>6} "
        f"{'labels':>7} {'KL':>7}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            X, labels = load(name)
            path = Path(folder) / f"{name}.npy"
            np.save(path, X)  # so that a cell's memory is that of its fit
            kl, base = divergence(X), 1.0
            for library in LIBRARIES:
                if name not in SLOW.get(library, DATA):
                    continue
                cell = in_own_process(__file__, [library, str(path)], Path(folder))
                lead = f"{name:9} {library:20}"
                if "error" in cell:
                    print(f"{lead} {cell['error']}", flush=True)
                    continue
                if library in ("TSNE", "UMAP"):
                    base = cell["seconds"]
                ranks = quality.rank_measures(X, cell["Y"], n_neighbors=15, sample=1000)
                print(
                    f"{lead} {cell['seconds']:8.2f} {cell['seconds'] / base:6.2f} {cell['added_mb']:8.0f} "
                    f"{ranks.trustworthiness:7.4f} {ranks.continuity:7.4f} {ranks.knn_kept:6.3f} "
                    f"{label_score(cell['Y'], labels):7.4f} {kl(cell['Y']) if library in T_SNE else np.nan:7.4f}",
                    flush=True,
                )


def place_new() -> None:
    """Time the second placing of 10,000 new digits in a layout of 60,000."""
    print(f"{'library':20} {'seconds':>8} {'ratio':>6} {'labels of the new':>18}")
    base = None
    for library in PLACES:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, "--place", library], capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(f"{library:20} {(done.stderr.strip().splitlines() or ['no message'])[-1][:100]}")
            continue
        result = json.loads(done.stdout.strip().splitlines()[-1])
        base = base or result["seconds"]
        print(
            f"{library:20} {result['seconds']:8.2f} {result['seconds'] / base:6.2f} {result['labels']:18.4f}",
            flush=True,
        )


def place_cell(library: str) -> None:
    X, labels = load("mnist50")
    fitted = LIBRARIES[library]().fit(X[:-NEW])
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        Q = np.asarray(fitted.transform(X[-NEW:], **({"basis": X[:-NEW]} if library == "PaCMAP" else {})))
        seconds.append(time.perf_counter() - start)
    Y = np.asarray(getattr(fitted, "embedding_", fitted))
    print(json.dumps({"seconds": min(seconds), "labels": label_score(Y, labels[:-NEW], Q, labels[-NEW:])}))


START = """
import time; begin = time.perf_counter()
import numpy as np
X = np.load({path!r})
{imports}
{make}.fit(X)
print(time.perf_counter() - begin)
"""
STARTS = {
    "TSNE": ("from manifoldry import TSNE", "TSNE()"),
    "UMAP": ("from manifoldry import UMAP", "UMAP()"),
    "openTSNE": ("from openTSNE import TSNE", "TSNE()"),
    "umap-learn": ("from umap import UMAP", "UMAP()"),
}


def first_fits() -> None:
    """Time import and first fit in a new process, with an empty and with a filled cache of kernels."""
    print(f"{'data':9} {'library':12} {'empty cache':>12} {'filled':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("iris", "mnist10k"):
            path = Path(folder) / f"{name}.npy"
            np.save(path, load(name)[0])
            for library, (imports, make) in STARTS.items():
                code = START.format(path=str(path), imports=imports, make=make)
                cache = Path(folder) / f"{library}-{name}"
                seconds = [_timed(code, cache) for _ in range(3)]
                print(f"{name:9} {library:12} {seconds[0]:12.2f} {min(seconds[1:]):8.2f}", flush=True)


def _timed(code: str, cache: Path) -> float:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def million() -> None:
    """Time a million points: the holed Swiss roll by UMAP, and 50 columns by both."""
    print(f"{'data':14} {'method':6} {'seconds':>8} {'peak MB':>8} {'trust':>7}")
    for data, method in (("holed roll", "UMAP"), ("50 columns", "UMAP"), ("50 columns", "TSNE")):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, "--million", data, method],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(f"{data:14} {method:6} {(done.stderr.strip().splitlines() or ['no message'])[-1][:100]}")
            continue
        result = json.loads(done.stdout.strip().splitlines()[-1])
        print(
            f"{data:14} {method:6} {result['seconds']:8.1f} {result['peak_mb']:8.0f} {result['trust']:7.4f}", flush=True
        )


def million_cell(data: str, method: str) -> None:
    import resource

    n = 1_000_000
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
    trust = float(quality.trustworthiness(X, Y, n_neighbors=15, sample=300))
    print(json.dumps({"seconds": seconds, "peak_mb": peak / 1e6, "trust": trust}))


PARTS = {"transform": place_new, "start": first_fits, "million": million}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA))
    parser.add_argument("--part", nargs="*", choices=("fits", *PARTS), default=["fits", *PARTS])
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--million", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        library, X = options.cell[0], np.load(options.cell[1])
        repeats = 1 if len(X) > 20_000 and library in ("openTSNE", "scikit-learn t-SNE") else 2
        result = measure(lambda X: layout(LIBRARIES[library](), X), X, repeats)
        np.save(options.save, result.pop("Y"))
        print(json.dumps(result))
    elif options.place:
        place_cell(options.place)
    elif options.million:
        million_cell(*options.million)
    else:
        names = [name for name in options.data if name == "digits" or "mnist" in datasets.available()]
        if "fits" in options.part:
            fits(names)
        for part, work in PARTS.items():
            if part in options.part and (part == "million" or "mnist" in datasets.available()):
                work()


if __name__ == "__main__":
    main()
