"""What neighbor embeddings share beyond one fit: a fit in steps, and new rows inserted into a fitted layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from scipy.spatial import cKDTree
from sklearn.utils.validation import check_is_fitted

from manifoldry._core import check
from manifoldry._core.csgraph import connected_components
from manifoldry._core.run import Run, one_blas_thread
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray, Trace
from manifoldry._core.warnings import collecting
from manifoldry._numerics.descent.alignment import Confinement, joined
from manifoldry._numerics.descent.initialization import Start, initial_layout
from manifoldry._numerics.descent.optimizer import Descent

MAX_OUTER_SHARE = 0.05
"""Largest share of the affinities of a group of new rows with rows outside it, at which it begins at a free position.
New rows of a fitted cluster have between a tenth and all of theirs with fitted rows."""
MIN_GROUP_SIZE = 5  # fewer rows are outliers, which stay near their neighbors
N_FREE_POSITIONS, FREE_MARGIN = 4096, 0.5
"""Random positions that are tried for a new group, and how far they go beyond the layout, as a share of its width."""


@dataclass(frozen=True)
class LayoutProblem:
    """One layout before its descent: affinities, its usual start, whether it is centered, and the steps of a fit.

    ``alignment_weight`` is the usual weight in a sequence, at which trustworthiness hardly falls (benchmark sequences).

    ``initial`` scales a start, ``descent`` prepares the descent from an initial layout, and ``embedding`` returns the
    result of a layout, its trace and the name of its start.
    """

    weights: csr_array
    otherwise: str  # the start for init="auto"
    centered: bool
    alignment_weight: float
    initial: Callable[[Start], FloatArray]
    descent: Callable[[FloatArray], Descent]
    embedding: Callable[[FloatArray, Trace, str], Embedding]


class UpdateMixin:
    """New rows for a fitted layout, which stays where it is."""

    def update(self, X: Any, *, max_shift: float = 0.02) -> Self:
        """Insert new rows into the fitted layout, which stays where it is.

        The neighbors of all rows are listed again, and the new rows move in the layout until they have found their
        positions relative to the fitted rows and to each other: new rows that resemble each other and no fitted row
        form a new cluster. Afterwards the model is one of all rows. `transform` in contrast changes nothing: it maps
        each new row by itself, next to the most similar fitted rows.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_new, n_features)
            New rows. ``embedding_`` has their coordinates after those of the rows before.
        max_shift : float
            Largest distance that a fitted row moves, as a share of the width of the layout; 0 fixes all of them.

        Returns
        -------
        self : estimator
            Fitted to all rows. After an error it is unchanged.

        Examples
        --------
        >>> from manifoldry import UMAP, datasets
        >>> X = datasets.gaussian_clusters(300, random_state=0).X
        >>> model = UMAP(n_epochs=50).fit(X[:280]).update(X[280:])
        >>> model.embedding_.shape
        (300, 2)
        """
        check_is_fitted(self)
        model = cast(Any, self)
        max_shift = check.number("max_shift", max_shift, 0.0)
        with collecting(self):
            run = model._run()
            model._check_declared()
            points = self._with_new_rows(X)
            model._check_parameters(points.shape[0])
            with run.on_gpu(X, points), one_blas_thread(openmp=False):
                model._finish(points, self._inserted(points, max_shift, run), run)
        return self

    def _with_new_rows(self, X: Any) -> Array:
        """Return the rows of the fit and the validated new ones; raise an error for models without rows."""
        model, name = cast(Any, self), type(self).__name__
        before = getattr(model._inverse, "X", None)
        if before is None:
            raise ValueError(
                f"{name}.update needs a model fitted to rows; this one was fitted to distances or a graph."
            )
        if hasattr(model, "sampled_rows_"):
            raise ValueError(
                f"{name}.update needs a model fitted to rows in memory; this one was fitted to a sample of chunked "
                "data: fit the rows of the sample, or use transform."
            )
        if "target_metric" in model.diagnostics_:
            raise ValueError(
                f"{name}.update needs a model fitted without targets, because new rows have none: fit it without y, or "
                "fit all rows with y, where -1 or NaN marks an unknown target."
            )
        if model.n_components != model.embedding_.shape[1]:
            raise ValueError(
                f"The fitted layout has {model.embedding_.shape[1]} columns and n_components is {model.n_components}: "
                "set it back, or fit again."
            )
        rows = model._validated(X, reset=False)
        if issparse(before) or issparse(rows):
            return vstack([csr_array(before), csr_array(rows)], format="csr", dtype=before.dtype)
        return np.concatenate([before, rows.astype(before.dtype, copy=False)])

    def _inserted(self, points: Array, max_shift: float, run: Run) -> Embedding:
        """Return the embedding of all rows: a descent in which the first ones stay near their positions."""
        model = cast(Any, self)
        n, fitted = points.shape[0], model.embedding_
        problem: LayoutProblem = model._problem(points, n, run)
        start = np.concatenate([fitted, model._map_rows(points[len(fitted) :])]).astype(np.float64)
        with run.stage("initialization"):
            for group in new_groups(problem.weights, len(fitted)):
                start[group] = free_position(start, group, points[group], run)
        descent = problem.descent(start)
        descent.phases = [phase for phase in descent.phases if phase.name != "early exaggeration"]
        position = np.argsort(descent.order)  # of a row in the descent
        distance = max_shift * float(np.ptp(fitted, axis=0).max())
        stays = Confinement(position[: len(fitted)], fitted.astype(np.float64), distance)
        with run.stage("descent"):
            layout, trace = joined([descent], stays).run(run)
        return problem.embedding(layout, trace, "update")


def new_groups(weights: csr_array, n_fitted: int) -> list[IntArray]:
    """Return the groups of new rows, those after the first ``n_fitted``, that have hardly any affinity to others."""
    total = np.asarray(weights.sum(axis=1)).reshape(-1)
    with_fitted = np.asarray(weights[:, :n_fitted].sum(axis=1)).reshape(-1)
    new = np.flatnonzero(with_fitted <= MAX_OUTER_SHARE * total)
    new = new[new >= n_fitted]
    inner = csr_array(weights[new][:, new])
    count, label = connected_components(inner, directed=False) if len(new) else (0, new)
    within = np.bincount(label, np.asarray(inner.sum(axis=1)).reshape(-1), count)
    all_of_it = np.bincount(label, total[new], count)
    groups = [new[label == c] for c in np.flatnonzero(all_of_it - within <= MAX_OUTER_SHARE * all_of_it)]
    return [group for group in groups if len(group) >= MIN_GROUP_SIZE]


def free_position(start: FloatArray, group: IntArray, rows: Array, run: Run) -> FloatArray:
    """Return coordinates for the rows of a group, at the nearest of some free positions of a layout."""
    others = np.delete(start, group, axis=0)
    low, high = others.min(axis=0), others.max(axis=0)
    width = float((high - low).max())
    rng = run.rng(f"new group {group[0]}")
    centers = rng.uniform(low - FREE_MARGIN * width, high + FREE_MARGIN * width, (N_FREE_POSITIONS, start.shape[1]))
    clearance = cKDTree(others).query(centers)[0]
    radius = 0.5 * width * (len(group) / len(start)) ** (1 / start.shape[1])  # as densely as the others
    distances = np.linalg.norm(centers - start[group].mean(axis=0), axis=1)
    free = clearance >= min(2.0 * radius, float(clearance.max()))
    center = centers[free][np.argmin(distances[free])]
    return center + 0.5 * radius * initial_layout("pca", rows, csr_array((len(group),) * 2), start.shape[1], run)
