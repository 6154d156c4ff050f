"""Embeddings of disconnected graphs: bridged, each component by itself, or the largest component alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, Extension, FloatArray, IntArray
from manifoldry._core.warnings import DisconnectedWarning, warn
from manifoldry.graph._operations import Policy, components, connect, raise_for_components, with_edges
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborIndex

GAP_SHARE = 0.2  # Least space between components drawn side by side, as a share of their mean width
MIN_ROOMY_SHARE = 0.1
"""Least size of a component, relative to the largest, that gets enough space for k-means to separate it."""
MAX_GAP = 2.0  # most space between components, in widths of the widest: beyond, the shapes would be too small
EmbedConnected = Callable[[NeighborhoodData, int, Run], Embedding]
"""Embeds a sample with a connected graph in n_components dimensions."""


def embed_components(
    sample: NeighborhoodData, embed: EmbedConnected, n_components: int, disconnected: Policy, run: Run
) -> Embedding:
    """Embed a sample whose graph may have several components, as ``disconnected`` specifies."""
    parts = components(sample.graph)
    notes: dict[str, object] = {"components": len(parts)}
    if len(parts) == 1:
        embedding = embed(sample, n_components, run)
    elif disconnected == "bridge":
        sample, notes["bridges"] = _with_bridges(sample, parts)
        embedding = embed(sample, n_components, run)
    elif disconnected == "largest":
        embedding = _largest_component(sample, parts, embed, n_components, run)
    elif disconnected == "apart":
        embedding = _separate_components(sample, parts, embed, n_components, run)
    else:
        raise_for_components(parts, ("bridge", "apart", "largest"))
    return replace(embedding, graph=embedding.graph or sample.graph, notes={**notes, **embedding.notes})


def _with_bridges(sample: NeighborhoodData, parts: list[IntArray]) -> tuple[NeighborhoodData, FloatArray]:
    if sample.X is None:
        raise ValueError(
            f"The given graph has {len(parts)} components and no distances between them to bridge; "
            "use disconnected='apart' or 'largest', or add edges."
        )
    rule = sample.index.rule
    advice = "raise n_neighbors or radius, or set disconnected='apart'"
    _, bridges = connect(sample.graph, sample.X, parts, rule.metric, rule.metric_params, advice)
    if sample.targets is not None and np.isfinite(sample.targets.distance):
        i, j = bridges[:, :2].astype(np.int64).T
        bridges = np.column_stack([i, j, sample.targets.lengths(i, j, bridges[:, 2])])
    graph = with_edges(sample.graph, bridges)
    return replace(sample, graph=graph, neighbors=with_edges(sample.neighbors, bridges)), bridges


def _largest_component(
    sample: NeighborhoodData, parts: list[IntArray], embed: EmbedConnected, width: int, run: Run
) -> Embedding:
    left_out = sample.n_points - len(parts[0])
    warn(
        f"The neighbor graph has {len(parts)} connected components, and {left_out} "
        f"{'point outside the largest has' if left_out == 1 else 'points outside the largest have'} no coordinates "
        "(NaN): raise n_neighbors or radius, or set disconnected='apart'.",
        DisconnectedWarning,
    )
    embedding = _embed_component(sample, parts[0], embed, width, run)
    coordinates = np.full((sample.n_points, width), np.nan)
    coordinates[parts[0]] = embedding.coordinates
    notes, fitted = {**embedding.notes, "left_out": left_out}, _joint_attributes([embedding], parts, sample.n_points)
    return replace(embedding, coordinates=coordinates, graph=None, notes=notes, fitted=fitted)


def _separate_components(
    sample: NeighborhoodData, parts: list[IntArray], embed: EmbedConnected, width: int, run: Run
) -> Embedding:
    embeddings = [_embed_component(sample, members, embed, width, run) for members in parts]
    shifted = side_by_side([embedding.coordinates for embedding in embeddings])
    coordinates, label = np.empty((sample.n_points, width)), np.empty(sample.n_points, dtype=np.int64)
    for number, (members, (rows, _)) in enumerate(zip(parts, shifted, strict=True)):
        coordinates[members], label[members] = rows, number
    extensions = [embedding.extension for embedding in embeddings if embedding.extension is not None]
    extension = SeparateComponents(sample.index, label, extensions, [shift for _, shift in shifted])
    fitted = _joint_attributes(embeddings, parts, sample.n_points)
    notes = dict(embeddings[0].notes)  # those of the largest component, with the findings of all
    for kind in ("advice", "surface_advice", "remarks"):
        messages = dict.fromkeys(message for embedding in embeddings for message in embedding.notes.get(kind, ()))
        notes |= {kind: tuple(messages)} if messages else {}
    return replace(
        embeddings[0],
        coordinates=coordinates,
        graph=None,
        extension=extension if len(extensions) == len(embeddings) else None,
        inverse=None,
        notes=notes,
        fitted=fitted,
    )


def _joint_attributes(embeddings: list[Embedding], parts: list[IntArray], n_points: int) -> dict[str, Any]:
    """Return fitted attributes: sparse matrices of edges over all points, numbers of the largest component."""
    fitted = {
        name: value for name, value in embeddings[0].fitted.items() if len(embeddings) == 1 or np.ndim(value) == 0
    }
    for name in [name for name, value in embeddings[0].fitted.items() if issparse(value)]:
        pairs = zip((embedding.fitted.get(name) for embedding in embeddings), parts[: len(embeddings)], strict=True)
        blocks = [(block.tocoo(), members) for block, members in pairs if block is not None]
        rows = np.concatenate([members[block.row] for block, members in blocks])
        columns = np.concatenate([members[block.col] for block, members in blocks])
        entries = np.concatenate([block.data for block, _ in blocks])
        fitted[name] = csr_array((entries, (rows, columns)), shape=(n_points, n_points))
    return fitted


def _embed_component(
    sample: NeighborhoodData, members: IntArray, embed: EmbedConnected, width: int, run: Run
) -> Embedding:
    """Embed one component in as many dimensions as its points can span, padded with zeros to ``width``."""
    n_components = min(width, len(members) - 1)
    if n_components == 0:
        return Embedding(np.zeros((1, width)), extension=SinglePointExtension(width))
    embedding = embed(sample.part(members, run), n_components, run)
    # New points given by distances or a graph have a column for every fitted point.
    columns = members if sample.pairwise or sample.X is None else None
    extension = None if embedding.extension is None else ComponentExtension(embedding.extension, columns, width)
    return replace(embedding, coordinates=padded(embedding.coordinates, width), extension=extension)


def padded(array: FloatArray, width: int) -> FloatArray:
    """Return an array with columns of zeros added, so that its last axis has at least this width."""
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, max(0, width - array.shape[-1]))])


@dataclass(frozen=True)
class SinglePointExtension:
    """The extension of a component of one point or of copies of one: new points get its coordinates."""

    width: int

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        return np.zeros((X.shape[0], self.width))


@dataclass(frozen=True)
class ComponentExtension:
    """The extension of one component, by its columns of distances, padded with zeros to ``width`` columns."""

    extension: Extension
    columns: IntArray | None
    width: int

    def __call__(self, X: Array, run: Run) -> FloatArray:
        if not X.shape[0]:
            return np.zeros((0, self.width))
        return padded(self.extension(X if self.columns is None else X[:, self.columns], run), self.width)


@dataclass(frozen=True)
class SeparateComponents:
    """The extension of separate components: by that of the nearest fitted point; NaN without any neighbor."""

    index: NeighborIndex
    label: IntArray
    extensions: list[Extension]
    shifts: list[FloatArray]

    def __call__(self, X: Array, run: Run) -> FloatArray:
        nearest = self.index.nearest(X, run)
        label = np.where(nearest >= 0, self.label[nearest], -1)
        coordinates = np.full((X.shape[0], len(self.shifts[0])), np.nan)
        for number in np.unique(label[label >= 0]):
            rows = np.flatnonzero(label == number)
            coordinates[rows] = self.extensions[number](X[rows], run) + self.shifts[number]
        return coordinates


def side_by_side(layouts: list[FloatArray]) -> list[tuple[FloatArray, FloatArray]]:
    r"""Shift components along the first axis so that they do not overlap; return (rows, shift) of each.

    The space between two lets k-means find the components: means are apart by twice the larger radius, and merging two
    costs :math:`\Delta^2 n_a n_b / (n_a + n_b)`, more than the scatter of another component that a free mean would
    save.
    """
    widths = np.array([np.ptp(layout[:, 0]) for layout in layouts])
    least, most = GAP_SHARE * (widths.mean() or 1.0), MAX_GAP * widths.max(initial=0.0)
    squares = [((layout - layout.mean(axis=0)) ** 2).sum(axis=1) for layout in layouts]
    scatter = max(float(square.sum()) for square in squares)
    large = MIN_ROOMY_SHARE * max(map(len, layouts))
    shifted: list[tuple[FloatArray, FloatArray]] = []
    right = 0.0
    for number, layout in enumerate(layouts):
        shift = -(layout.min(axis=0) + layout.max(axis=0)) / 2
        left = 0.0
        if number:
            previous = shifted[-1][0]
            left = right + least
            if min(len(previous), len(layout)) >= large:
                radius = np.sqrt(max(squares[number - 1].max(), squares[number].max()))
                separation = np.sqrt(2 * scatter * (1 / len(previous) + 1 / len(layout)))
                inside = (right - previous[:, 0].mean()) + (layout[:, 0].mean() - layout[:, 0].min())
                left = right + max(least, 2 * radius - inside, min(separation - inside, most))
        shift[0] = left - layout[:, 0].min()
        shifted.append((layout + shift, shift))
        right = left + widths[number]
    return shifted
