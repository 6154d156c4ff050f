"""Approximate Euclidean search by an inverted file (FAISS IndexIVFFlat) with exact re-ranking.

The rows are projected onto their leading principal directions if there are many columns, and k-means splits them into
Voronoi cells; a query visits the cells nearest to it. The candidates found there are re-ranked by exact distance in
all columns. The numbers of cells and candidates are the least that reach the target recall on a sample whose true
neighbors are known: the recall reached there is the one reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.graph._engines import N_RECALL_ROWS, Brute, recall_by_distance, rerank

# Measured on MNIST, 70,000 rows, k = 15, 2 cores: 784 columns projected to 96 and re-ranked take about 3 s
# at recall 0.99, unprojected 12 s; 50 columns unprojected 1.1 s.
IVF_MAX_COLUMNS = 128
IVF_PROJECTED_COLUMNS = 96
IVF_PRINCIPAL_ROWS = 10_000
MIN_PROJECTION_ROWS, MAX_PROJECTION_ENTRIES = 1_000, 50_000_000
"""Entries of the rows of which principal directions are computed: 400 MB, or this many rows."""
MAX_COVARIANCE_COLUMNS, N_SPARE_DIRECTIONS = 2_000, 16
"""Columns beyond which no covariance matrix is formed: its eigenproblem takes columns^3, at 20,000 ten minutes."""
MIN_RECALL_ROWS, MAX_RECALL_WORK = 200, 2e10
"""The exact neighbors of a sample cost rows x n x columns; about half a second is spent on them."""
TARGET_RECALL = 0.991
"""Required on the sample, so that the recall is above 0.99: the standard error is below 0.001."""
SEARCH_EFFORTS = tuple((cells, 1.0) for cells in (8, 12, 16, 18, 20, 24, 32, 48, 64, 96, 128, 256))
PROJECTED_SEARCH_EFFORTS = ((16, 2.0), (24, 2.0), (24, 3.0), (32, 3.0), (48, 4.0), (64, 6.0), (128, 8.0), (256, 12.0))
"""Pairs (nprobe, candidates per neighbor wanted), cheapest first."""
MAX_SCALED_COORDINATE = 1e6
"""Coordinates of new points, in units of the fitted ones' extent, are cut at this: all are then as far away."""


class FaissIVF:
    """Approximate k-nearest search; ``recall`` was measured on a sample, with (nprobe, candidates) ``effort``."""

    name = "faiss_ivf"

    def __init__(self, X: Array, k: int, run: Run) -> None:
        import faiss

        self.X = X
        n, columns = X.shape
        rng = run.rng("cells")
        self.mean = X.mean(axis=0, dtype=np.float64)
        # FAISS computes in single precision, in which squares of numbers near 1 neither overflow nor vanish.
        self.unit = 2.0 ** np.frexp(max((X.max(axis=0) - self.mean).max(), (self.mean - X.min(axis=0)).max()))[1]
        self.basis = None
        if columns > IVF_MAX_COLUMNS:
            some = X[rng.choice(n, projection_rows(n, columns, IVF_PRINCIPAL_ROWS), replace=False)]
            self.basis = projection_basis(some - self.mean, IVF_PROJECTED_COLUMNS, run.rng("projection"))
        Z = self._project(X, self.basis)
        n_cells = int(2 * np.sqrt(n))
        self.index = faiss.IndexIVFFlat(faiss.IndexFlatL2(Z.shape[1]), Z.shape[1], n_cells)
        self.index.cp.seed = int(rng.integers(2**31 - 1))
        self.index.cp.niter = 6
        self.index.cp.min_points_per_centroid = 1  # or FAISS writes a warning
        self.index.cp.max_points_per_centroid = 40
        with _faiss_threads(run.n_jobs):  # each centroid is summed by one thread: the same bits for any number
            self.index.train(Z)
            self.index.add(Z)
        rows = min(n, N_RECALL_ROWS, max(MIN_RECALL_ROWS, int(MAX_RECALL_WORK / X.size)))
        sample = np.sort(rng.choice(n, rows, replace=False))
        self.effort, self.recall = self._tune(sample, k + 1, Z, run)

    def __getstate__(self) -> dict[str, Any]:
        # FAISS's own bytes are read without checks; the cells follow from their centers and the rows.
        centers = self.index.quantizer.reconstruct_n(0, self.index.nlist)
        return {**{name: value for name, value in vars(self).items() if name != "index"}, "centers": centers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        import faiss

        centers = state.pop("centers")
        self.__dict__.update(state)
        Z = self._project(self.X, self.basis)
        cells, width = self.effort
        if not 0 < len(centers) <= len(Z) or type(cells) is not int or width < 1:
            raise ValueError(f"A search over {len(Z)} rows has no {len(centers)} cells, or its effort is not possible.")
        self.index = faiss.IndexIVFFlat(faiss.IndexFlatL2(Z.shape[1]), Z.shape[1], len(centers))
        self.index.quantizer.add(centers)
        self.index.is_trained = True
        self.index.add(Z)

    def _tune(self, sample: IntArray, k: int, Z: Array, run: Run) -> tuple[tuple[int, float], float]:
        """Return the least effort that reaches the target recall on the sample, and its recall."""
        import faiss

        whole = Z if self.basis is None else self._project(self.X, None)
        with _faiss_threads(run.n_jobs):
            candidates = faiss.knn(whole[sample], whole, k + 4)[1]
        truth, _ = rerank(self.X[sample], self.X, candidates, k, run)
        recall = 0.0
        for effort in SEARCH_EFFORTS if self.basis is None else PROJECTED_SEARCH_EFFORTS:
            self.effort = effort
            found, _ = self.nearest(self.X[sample], k, run)
            recall = recall_by_distance(found, truth)
            if recall >= TARGET_RECALL:
                break
        return self.effort, recall

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:  # noqa: ARG002
        """Return k near fitted points of each row of Q, nearly all of them the nearest."""
        cells, width = self.effort
        n_candidates = min(self.index.ntotal, int(np.ceil(k * width)) + 4)
        self.index.nprobe = min(cells, self.index.nlist)
        Z = self._project(Q, self.basis)
        candidates = np.empty((len(Z), n_candidates), dtype=np.int64)
        with _faiss_threads(run.n_jobs):
            # Queries of one cell visit the same cells, which then are in cache.
            order = np.argsort(self.index.quantizer.search(Z, 1)[1][:, 0], kind="stable")
            candidates[order] = self.index.search(Z[order], n_candidates)[1]
        distances, indices = rerank(Q, self.X, candidates, k, run)
        short = np.flatnonzero(indices[:, -1] < 0)  # the cells visited hold fewer points than asked for
        if len(short):
            distances[short], indices[short] = Brute(self.X, "euclidean", None).nearest(Q[short], k, run)
        return distances, indices

    def _project(self, Q: Array, basis: FloatArray | None) -> Array:
        """Return the rows about the mean, in the directions of the basis, in single precision and units of its own."""
        Z = np.empty((len(Q), Q.shape[1] if basis is None else basis.shape[1]), dtype=np.float32)
        for lo in range(0, len(Q), 8192):
            centered = (Q[lo : lo + 8192] - self.mean) / self.unit
            np.clip(centered, -MAX_SCALED_COORDINATE, MAX_SCALED_COORDINATE, out=centered)
            Z[lo : lo + 8192] = centered if basis is None else centered @ basis
        return Z


def projection_rows(n: int, columns: int, most: int) -> int:
    """Return how many of n rows are enough to find the principal directions: ``most``, fewer where they are wide."""
    return min(n, most, max(MIN_PROJECTION_ROWS, MAX_PROJECTION_ENTRIES // columns))


def projection_basis(centered: Array, m: int, rng: np.random.Generator) -> FloatArray:
    """Return ``m`` leading principal directions in columns, ascending; of many columns they are nearly those."""
    from scipy.linalg import eigh

    size = centered.shape[1]
    if size <= MAX_COVARIANCE_COLUMNS:
        _, vectors = eigh(centered.T @ centered, subset_by_index=(size - m, size - 1))
        return np.ascontiguousarray(vectors)
    # No matrix of columns x columns: one step of subspace iteration from random directions, with a few to spare, keeps
    # 0.99 of the variance that the leading directions have.
    start = rng.standard_normal((len(centered), m + N_SPARE_DIRECTIONS))
    span, _ = np.linalg.qr(centered.T @ (centered @ (centered.T @ start.astype(centered.dtype))))
    scores = centered @ span
    _, turn = np.linalg.eigh(scores.T @ scores)
    return np.ascontiguousarray(span @ turn[:, -m:])


@contextmanager
def _faiss_threads(n: int) -> Iterator[None]:
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
