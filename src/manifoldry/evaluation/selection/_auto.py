"""The comparison as an estimator: it fits several methods and keeps the best one for a purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from manifoldry._core import check
from manifoldry._core.parameters import Described, Positive, PositiveInt, parameter
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, FloatArray
from manifoldry.evaluation._input import MIN_POINTS_CHOSEN
from manifoldry.evaluation.selection._candidates import Clock, checked_methods
from manifoldry.evaluation.selection._compare import ComparisonTask, checked_labels, run_comparison, target_dimension
from manifoldry.evaluation.selection._comparison import Comparison
from manifoldry.evaluation.selection._objectives import PURPOSES, purpose_of
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._embedder import Metric
from manifoldry.methods._base._texts import DISTANCES_METRIC_TEXT

PurposeName = Literal[
    "keep distances",
    "keep neighbors",
    "see clusters",
    "order along a path",
    "features for a classifier",
    "reconstruct",
]
LABEL_PURPOSES = ("see clusters", "features for a classifier")
"""Purposes for which the targets of a fit are used as labels."""


@estimator
class AutoEmbedding(Embedder):
    """Fit several methods and keep the best for a stated purpose, as `compare` ranks them.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates by the best method.
    best_estimator_ : estimator
        The best method, fitted.
    comparison_ : Comparison
        The ranking with metrics and reasons, all fitted methods, and what was left out.
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

    n_components: PositiveInt = parameter(
        'Dimension of the embedding; 1 for the purpose "order along a path".', default=2, kw_only=False
    )
    purpose: PurposeName = parameter("What the embedding is for.", default="keep neighbors")
    budget: Positive | None = parameter(
        "Seconds for all fits; None is no limit, and the same seed gives bit-identical results.", default=None
    )
    methods: Annotated[Any, Described("a list of names or estimators")] | None = parameter(
        "Methods to compare; None uses those of the purpose. PCA is always among them.", default=None
    )
    metric: Metric = parameter(DISTANCES_METRIC_TEXT, default="euclidean")

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
        methods = checked_methods(self.methods, purpose)
        names = getattr(self, "feature_names_in_", None)
        task = ComparisonTask(X, purpose, labels, methods, self.n_components, self.metric, names)
        with run.stage("compare"):
            comparison = run_comparison(task, Clock(self.budget), run)
            best = comparison.best.estimator
            coordinates = best.embedding_ if len(best.embedding_) == X.shape[0] else best.transform(X)
        return Embedding(
            coordinates,
            extension=BestMap(best),
            inverse=BestInverse(best) if hasattr(best, "inverse_transform") else None,
            notes={
                "method": comparison.best.name,
                "n_neighbors": comparison.n_neighbors,
                "reasons": (*comparison.verdicts, *comparison.best.reasons, *comparison.best.warnings),
            },
            fitted={"best_estimator_": best, "comparison_": comparison},
        )

    def _labels(self, y: Any, n_points: int) -> Array | None:
        """Return the targets as labels, for the purposes that are evaluated with them."""
        if y is None or self.purpose not in LABEL_PURPOSES or len(np.unique(y)) < 2:
            return None
        return checked_labels(y, n_points)


@dataclass(frozen=True)
class BestMap:
    """New points to the coordinates of the best method."""

    model: Any

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return coordinates (n_new, n_components)."""
        coordinates: FloatArray = self.model.transform(X)
        return coordinates


@dataclass(frozen=True)
class BestInverse:
    """Coordinates of the best method back to points."""

    model: Any

    def __call__(self, Y: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return points (n_new, n_features)."""
        points: FloatArray = self.model.inverse_transform(Y)
        return points
