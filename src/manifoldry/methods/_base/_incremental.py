"""Incremental fitting: the mixin of methods whose ``partial_fit`` updates an embedding of all rows so far."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from scipy.sparse import issparse, vstack

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import Array, Embedding, NeighborGraph
from manifoldry._core.warnings import collecting
from manifoldry._numerics.extension.components import embed_pieces
from manifoldry.data._chunked import as_blocks
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import grown_lists, known_neighbors, neighbor_graph, updatable

if TYPE_CHECKING:
    from manifoldry.methods._base._embedder import Embedder
    from manifoldry.methods._base._graph import GraphEmbedder
else:
    Embedder = object  # the class that the mixin is used with brings the base class

RUN_PARAMETERS = ("n_jobs", "verbose", "callback")
"""Parameters on which the result does not depend."""


@dataclass(frozen=True)
class Growth:
    """What ``partial_fit`` keeps in a model for the next call, in addition to the fitted attributes.

    Parameters
    ----------
    neighbors : NeighborGraph, optional
        The neighbor lists, where they can be updated.
    graph : NeighborGraph, optional
        The connected graph of all points that was embedded; None if it had several components.
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
        """Raise an error if a part belongs to another graph: compiled loops check no index."""
        n = None if self.graph is None else self.graph.n_points
        matrix, lists = self.computed if isinstance(self.computed, tuple) else (self.computed, None)
        sound = getattr(matrix, "shape", None) == (None if n is None else (n, n))
        sound &= matrix is None or matrix.dtype.kind == "f"
        if lists is not None:
            sound &= isinstance(lists, NeighborGraph) and lists.n_points == n and lists.n_edges == matrix.nnz
        if not sound:
            raise ValueError(f"A sample of {n} points has grown from parts of another size.")


class IncrementalMixin(Embedder):
    """Mixin of embedders with a ``partial_fit`` that embeds all rows so far, from what was computed of earlier rows.

    The methods here serve embedders with a neighbor graph, whose ``_unfold_grown`` embeds a connected sample, given the
    `Growth` so far, and returns what it computed in addition. Another embedder has its own ``_kept_rows`` and
    ``_embed_grown``.
    """

    def _update(self, X: Any) -> Self:
        """Fit to the rows so far and those of ``X``."""
        old, before = self._kept_rows(), self._unchanged_growth()
        self._check_new_rows(X)
        self._check_declared()
        check.metric(self._metric, ())
        rows = self._validated(X, reset=True) if old is None else self._stacked(old, X)
        run = self._run()
        with collecting(self):
            self._check_parameters(rows.shape[0])
            with one_blas_thread(openmp=False):
                self._finish(rows, self._embed_grown(rows, before, run), run)
        return self

    def _kept_rows(self) -> Any:
        """Return the rows so far, None before the first."""
        fitted = hasattr(self, "embedding_") and hasattr(self._inverse, "X")
        return self._inverse.X if fitted else None

    def _unchanged_growth(self) -> Any:
        """Return what the last call kept, None if the parameters have changed since."""
        growth = getattr(self, "_growth", None)
        try:
            return growth if growth is not None and growth.settings == self._settings() else None
        except ValueError:  # arrays among the parameters have no single truth value
            return None

    def _settings(self) -> dict[str, Any]:
        """Return the parameters on which the result depends."""
        return {name: value for name, value in self.get_params(deep=False).items() if name not in RUN_PARAMETERS}

    def _check_new_rows(self, X: Any) -> None:
        """Raise an error for what ``partial_fit`` cannot use: chunked data, distances, graphs, and targets."""
        name, model = type(self).__name__, cast(Any, self)
        if as_blocks(X) is not None:
            raise ValueError(
                f"{name}.partial_fit takes rows in memory; got chunked data: call it with one chunk after the other, "
                "or fit all of them at once."
            )
        if isinstance(X, NeighborGraph) or self._pairwise:
            what = "a neighbor graph" if isinstance(X, NeighborGraph) else f"metric={model.metric!r}"
            raise ValueError(
                f"{name}.partial_fit needs rows of features, whose distances to all earlier rows it can compute; got "
                f"{what}: fit all points again."
            )
        if getattr(self, "target_weight", 0.0):
            raise ValueError(
                f"{name}.partial_fit takes no targets, and target_weight={model.target_weight} asks for them: fit all "
                "rows with their y again, or set target_weight=0."
            )
        if hasattr(self, "sampled_rows_"):
            raise ValueError(
                f"This {name} was fitted to chunked data, of which it holds a sample: more rows would count "
                "differently from those. Call partial_fit with every block instead of fit, or fit all rows again."
            )

    def _stacked(self, old: Any, X: Any) -> Any:
        """Return the old rows above the new ones, checked; sparse if the old are."""
        new = self._validated_rows(X, reset=False, sparse=self._takes_sparse, own=True)
        if issparse(old):
            rows = vstack([old, new], format="csr")
        else:
            rows = np.concatenate([old, new.toarray() if issparse(new) else new])
        self._refuse_unrepresentable(rows)
        return rows

    def _unfold_grown(
        self, sample: Sample, n_components: int, run: Run, before: Growth | None
    ) -> tuple[Embedding, Any]:
        """Embed a sample with a connected graph, and return what was computed in addition."""
        raise NotImplementedError

    def _embed_grown(self, rows: Array, before: Any, run: Run) -> Embedding:
        """Embed all rows so far, from what was computed of earlier rows."""
        model = cast("GraphEmbedder", self)
        n, rule = rows.shape[0], model._rule(rows.shape[0])
        lists = None
        if updatable(rule):
            earlier = None if before is None else before.neighbors
            lists = (earlier and grown_lists(earlier, rows, rule, run)) or neighbor_graph(rows, rule, run)
        with nullcontext() if lists is None else known_neighbors(rows, lists):
            sample = model._sample(rows, run)
        parts: dict[str, Any] = {"graph": None, "computed": None}

        def unfold(part: Sample, n_components: int, run: Run) -> Embedding:
            if part.n_points < n:
                return model._unfold(part, n_components, run)
            usable = before if before is not None and before.graph is not None else None
            embedded, computed = self._unfold_grown(part, n_components, run, usable)
            parts.update(graph=part.graph, computed=computed)
            return embedded

        embedding = embed_pieces(sample, unfold, model.n_components, model.disconnected, run)
        growth = Growth(None if lists is None else lists[0], **parts, settings=self._settings())
        return replace(
            embedding,
            notes={**sample.index.notes, **embedding.notes},
            fitted={**embedding.fitted, "_growth": growth},
        )
