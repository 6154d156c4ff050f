"""Rows that come later: what ``partial_fit`` refuses, and how a method on a neighbor graph takes them in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse, vstack

from manifoldry._core import check
from manifoldry._core.parameters import check_parameters
from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, NeighborGraph
from manifoldry._core.warnings import EmbeddingWarning, collecting, warn
from manifoldry._numerics.extension.components import embed_pieces
from manifoldry.data._chunked import as_blocks
from manifoldry.data._chunked.sampling import RowMoments
from manifoldry.graph._incremental import grown_lists, updatable
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import known_neighbors, neighbor_graph
from manifoldry.methods._base._estimator import validated_rows

M = TypeVar("M")

RUN_PARAMETERS = ("n_jobs", "verbose", "callback")
"""Parameters on which the result does not depend."""


@dataclass(frozen=True)
class Growth:
    """What ``partial_fit`` leaves in a model for the next one, beside the fitted attributes.

    Parameters
    ----------
    neighbors : NeighborGraph, optional
        The neighbor lists, where they can be updated.
    graph : NeighborGraph, optional
        The graph of all points that was embedded; None if it was in pieces.
    computed : object
        What the method computed from it: the path lengths (n, n) of Isomap, the weights of locally linear embedding.
    settings : dict
        The parameters it was computed with.
    """

    neighbors: NeighborGraph | None
    graph: NeighborGraph | None
    computed: Any
    settings: dict[str, Any]

    def _check_loaded(self) -> None:
        """Refuse what was computed from another graph: compiled loops check no index."""
        n = None if self.graph is None else self.graph.n_points
        matrix, lists = self.computed if isinstance(self.computed, tuple) else (self.computed, None)
        sound = getattr(matrix, "shape", None) == (None if n is None else (n, n))
        sound &= matrix is None or matrix.dtype.kind == "f"
        if lists is not None:
            sound &= isinstance(lists, NeighborGraph) and lists.n_points == n and lists.n_edges == matrix.nnz
        if not sound:
            raise ValueError(f"A sample of {n} points has grown from parts of another size.")


def refuse_other_rows(model: Any, X: Any) -> None:
    """Refuse what ``partial_fit`` cannot take: rows in blocks, distances, graphs, and targets."""
    name = type(model).__name__
    if as_blocks(X) is not None:
        raise ValueError(
            f"{name}.partial_fit takes rows in memory; got rows in blocks: call it with one block after the other, or "
            "fit all of them at once."
        )
    if isinstance(X, NeighborGraph) or getattr(model, "_pairwise", False):
        what = "a neighbor graph" if isinstance(X, NeighborGraph) else f"metric={model.metric!r}"
        raise ValueError(
            f"{name}.partial_fit needs rows of features, whose distances to all earlier rows it can compute; got "
            f"{what}: fit all points again."
        )
    if getattr(model, "target_weight", 0.0):
        raise ValueError(
            f"{name}.partial_fit takes no targets, and target_weight={model.target_weight} asks for them: fit all rows "
            "with their y again, or set target_weight=0."
        )
    if hasattr(model, "sampled_rows_"):
        raise ValueError(
            f"This {name} was fitted to rows in blocks, of which it holds a sample: more rows would count "
            "differently from those. Call partial_fit with every block instead of fit, or fit all rows again."
        )


def kept_moments(model: Any) -> RowMoments | None:
    """Return the moments of the batches that principal components were updated by so far, None before the first.

    Another number of components is refused; a model that was fitted at once has kept none, which is told.
    """
    before: RowMoments | None = model.__dict__.get("_moments")
    if before is None and hasattr(model, "components_"):
        warn(
            f"{type(model).__name__}.fit kept no moments of its {model.n_samples_} rows, so partial_fit begins anew "
            "with this batch: for components of all rows call it with every batch, from the first on.",
            EmbeddingWarning,
        )
    if before is not None and model._asked != model.n_components:
        raise ValueError(
            f"The batches so far were taken with n_components={model._asked}; got {model.n_components}: set it back, "
            "or begin with another PCA."
        )
    return before


def stacked(old: Any, new: Any) -> Any:
    """Return the old rows above the new ones, sparse if the old are."""
    if issparse(old):
        return vstack([old, new], format="csr")
    return np.concatenate([old, new.toarray() if issparse(new) else new])


def rows_so_far(model: Any, X: Any, old: Any) -> Any:
    """Return the checked rows ``X`` below the ``old`` ones of a fitted model; of a model not fitted (None) alone."""
    if old is None:
        return model._validated(X, reset=True)
    rows = stacked(old, validated_rows(model, X, reset=False, sparse=model._takes_sparse, own=True))
    model._refuse_unrepresentable(rows)
    return rows


def grow(model: M, X: Any, old: Any, embed: Callable[[Any, Run], Embedding]) -> M:
    """Fit a model to its ``old`` rows, None before the first, and those of ``X``: ``embed`` gets all of them."""
    anything: Any = model
    refuse_other_rows(model, X)
    check_parameters(model)
    check.metric(anything._metric, ())
    check.metric_params(anything._metric, getattr(model, "metric_params", None))
    rows, run = rows_so_far(model, X, old), anything._run()
    with collecting(model):
        anything._check_parameters(rows.shape[0])
        fitted: M = anything._fit_points(rows, run, lambda: embed(rows, run))
    return fitted


def add_rows(model: M, X: Any) -> M:
    """Fit a method on a neighbor graph to its rows so far and those of ``X``, from what it had computed of the former.

    The method's ``_unfold_grown`` embeds all of them when their graph is connected, given the `Growth` so far, and
    returns what it computed beside the embedding.
    """
    anything: Any = model
    old = anything._inverse.X if hasattr(model, "embedding_") and hasattr(anything._inverse, "X") else None
    before: Growth | None = unchanged(model, getattr(model, "_growth", None))
    return grow(model, X, old, lambda rows, run: _embed_grown(anything, rows, before, run))


def unchanged(model: Any, growth: Any) -> Any:
    """Return what was kept, None if the parameters of the model have changed since."""
    return growth if growth is not None and _same(growth.settings, settings_of(model)) else None


def kept_rows(model: Any) -> Any:
    """Return the rows of the batches so far; a model that was fitted at once has kept none, which is told."""
    growth = getattr(model, "_growth", None)
    if growth is None and hasattr(model, "embedding_"):
        warn(
            f"{type(model).__name__}.fit kept none of its {len(model.embedding_)} rows, so partial_fit begins anew "
            "with these: to join all of them call it with every batch, from the first on.",
            EmbeddingWarning,
        )
    return None if growth is None else growth.rows


def _embed_grown(model: Any, rows: Array, before: Growth | None, run: Run) -> Embedding:
    n, rule = rows.shape[0], model._rule(rows.shape[0])
    found = None
    if updatable(rule):
        lists = None if before is None or before.neighbors is None else before.neighbors
        found = (lists and grown_lists(lists, rows, rule, run)) or neighbor_graph(rows, rule, run)
    with nullcontext() if found is None else known_neighbors(rows, found):
        sample = model._sample(rows, run)
    whole: dict[str, Any] = {"graph": None, "computed": None}

    def unfold(part: Sample, n_components: int, run: Run) -> Embedding:
        if part.n_points < n:
            embedded: Embedding = model._unfold(part, n_components, run)
            return embedded
        known = before if before is not None and before.graph is not None else None
        embedded, computed = model._unfold_grown(part, n_components, run, known)
        whole.update(graph=part.graph, computed=computed)
        return embedded

    embedding = embed_pieces(sample, unfold, model.n_components, model.disconnected, run)
    growth = Growth(None if found is None else found[0], **whole, settings=settings_of(model))
    return replace(
        embedding,
        notes={**sample.index.notes, **embedding.notes},
        fitted={**embedding.fitted, "_growth": growth},
    )


def settings_of(model: Any) -> dict[str, Any]:
    """Return the parameters on which the result depends."""
    return {name: value for name, value in model.get_params(deep=False).items() if name not in RUN_PARAMETERS}


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Tell whether two sets of parameters are equal; arrays among them are taken for different."""
    try:
        return bool(a == b)
    except ValueError:
        return False
