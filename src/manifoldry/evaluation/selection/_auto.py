"""The comparison as an estimator: it fits several methods, keeps the best one for a purpose, and says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from manifoldry._core import check
from manifoldry._core.parameters import Described, Positive
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray
from manifoldry.evaluation.selection._candidates import Clock, checked_methods
from manifoldry.evaluation.selection._compare import ComparisonTask, checked_labels, run_comparison, target_dimension
from manifoldry.evaluation.selection._comparison import Comparison
from manifoldry.evaluation.selection._input import MIN_POINTS_CHOSEN
from manifoldry.evaluation.selection._objectives import PURPOSES, purpose_of
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._embedder import Metric

PurposeName = Literal[
    "keep distances",
    "keep neighbors",
    "see clusters",
    "order along a path",
    "features for a classifier",
    "reconstruct",
]
JUDGED_BY_LABELS = ("see clusters", "features for a classifier")
"""Purposes for which the targets of a fit are taken for labels."""


@estimator
class AutoEmbedding(Embedder):
    """The best of several methods for a stated purpose, by `compare`.

    Parameters
    ----------
    n_components : int
        Target dimension; 1 for the purpose "order along a path".
    purpose : str
        "keep distances", "keep neighbors", "see clusters", "order along a path", "features for a classifier" or
        "reconstruct".
    budget : float, optional
        Seconds, as in `compare`. None is no clock: the same seed gives the same bits.
    methods : list of str or estimators, optional
        Methods instead of those of the purpose; PCA is always among them.
    metric : str or callable
        As in scikit-learn, or "precomputed".
    random_state : int, Generator or None
        Seed of all fits and samples.
    n_jobs, verbose, callback
        As in `Isomap`; the callback also hears the fits.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates by the best method.
    best_estimator_ : estimator
        The best method, fitted.
    comparison_ : Comparison
        The ranking with figures and reasons, all fitted methods, and what was left out.
    diagnostics_ : dict
        Seconds, ``method`` (the name of the best), ``n_neighbors`` of the shared graph, and ``reasons`` in sentences.

    Notes
    -----
    `transform` and `inverse_transform` are those of the best method. Targets given to `fit` are the labels of the
    purposes "see clusters" and "features for a classifier", which needs them; other purposes ignore them.

    Examples
    --------
    >>> from manifoldry import AutoEmbedding, datasets
    >>> roll = datasets.swiss_roll(300)
    >>> model = AutoEmbedding(purpose="keep distances", methods=["Isomap", "LTSA"]).fit(roll.X)
    >>> model.embedding_.shape, model.transform(roll.X[:5]).shape
    ((300, 2), (5, 2))
    """

    purpose: PurposeName = "keep neighbors"
    budget: Positive | None = None
    methods: Annotated[Any, Described("a list of names or estimators")] | None = None
    metric: Metric = "euclidean"

    best_estimator_: Any = fitted()
    comparison_: Comparison = fitted()

    _invertible = True

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        check.enough_points(n_points, MIN_POINTS_CHOSEN)
        purpose = PURPOSES[self.purpose]
        target_dimension(purpose, self.n_components, n_points)
        checked_methods(self.methods, purpose)

    def _embed(self, X: Any, run: Run) -> Embedding:
        return self._embed_with(X, None, run)

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        labels = self._labels(y, X.shape[0])
        purpose = purpose_of(self.purpose, labels is not None)
        wanted = checked_methods(self.methods, purpose)
        names = getattr(self, "feature_names_in_", None)
        task = ComparisonTask(X, purpose, labels, wanted, self.n_components, self.metric, names)
        with run.stage("compare"):
            found = run_comparison(task, Clock(self.budget), run)
            best = found.best.estimator
            coordinates = best.embedding_ if len(best.embedding_) == X.shape[0] else best.transform(X)
        return Embedding(
            coordinates,
            extension=BestMap(best),
            inverse=BestInverse(best) if hasattr(best, "inverse_transform") else None,
            notes={
                "method": found.best.name,
                "n_neighbors": found.n_neighbors,
                "reasons": (*found.verdicts, *found.best.reasons, *found.best.warnings),
            },
            fitted={"best_estimator_": best, "comparison_": found},
        )

    def _labels(self, y: Any, n_points: int) -> Array | None:
        """Return the targets as labels, for the purposes that are judged by them."""
        if y is None or self.purpose not in JUDGED_BY_LABELS or len(np.unique(y)) < 2:
            return None
        return checked_labels(y, n_points)


@dataclass(frozen=True)
class BestMap:
    """New points to the coordinates of the best method."""

    model: Any

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return coordinates (n_new, n_components)."""
        placed: FloatArray = self.model.transform(X)
        return placed


@dataclass(frozen=True)
class BestInverse:
    """Coordinates of the best method back to points."""

    model: Any

    def __call__(self, Y: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return points (n_new, n_features)."""
        points: FloatArray = self.model.inverse_transform(Y)
        return points
