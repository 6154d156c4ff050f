"""Embeddings of graphs in several components: joined by bridges, embedded one by one, or the largest alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from manifoldry._core.run import Run
from manifoldry._core.values import Array, Embedding, Extension, FloatArray, IntArray
from manifoldry._core.warnings import DisconnectedWarning, warn
from manifoldry.graph._operations import Policy, components, connect, raise_disconnected, with_edges
from manifoldry.graph._sample import Sample
from manifoldry.graph._search import NeighborIndex

GAP_SHARE = 0.2
"""Least space between components laid side by side, as a share of their mean width."""
MIN_ROOMY_SHARE = 0.1
"""Least size of a piece, relative to the largest, that is given room to be told from the others by k-means."""

MAX_GAP = 2.0
"""Most space between them, in widths of the widest: beyond, the shapes would be too small to be seen."""

EmbedConnected = Callable[[Sample, int, Run], Embedding]
"""Embeds a sample whose graph is connected in so many dimensions."""


def embed_pieces(sample: Sample, embed: EmbedConnected, n_components: int, disconnected: Policy, run: Run) -> Embedding:
    """Embed a sample whose graph may have several components, as ``disconnected`` says."""
    parts = components(sample.graph)
    notes: dict[str, object] = {"components": len(parts)}
    if len(parts) == 1:
        embedding = embed(sample, n_components, run)
    elif disconnected == "bridge":
        sample, notes["bridges"] = _bridged(sample, parts)
        embedding = embed(sample, n_components, run)
    elif disconnected == "largest":
        embedding = _largest(sample, parts, embed, n_components, run)
    elif disconnected == "apart":
        embedding = _apart(sample, parts, embed, n_components, run)
    else:
        raise_disconnected(parts, ("bridge", "apart", "largest"))
    return replace(embedding, graph=embedding.graph or sample.graph, notes={**notes, **embedding.notes})


def _bridged(sample: Sample, parts: list[IntArray]) -> tuple[Sample, FloatArray]:
    if sample.X is None:
        raise ValueError(
            f"The given graph has {len(parts)} components and no distances between them to bridge; "
            "use disconnected='apart' or 'largest', or add edges."
        )
    rule = sample.index.rule
    advice = "raise n_neighbors or radius, or set disconnected='apart'"
    _, found = connect(sample.graph, sample.X, parts, rule.metric, rule.metric_params, advice)
    bridges = sample.index.remeasured(found)
    if sample.targets is not None and np.isfinite(sample.targets.distance):
        i, j = bridges[:, :2].astype(np.int64).T
        bridges = np.column_stack([i, j, sample.targets.lengths(i, j, bridges[:, 2])])
    graph = with_edges(sample.graph, bridges)
    return replace(sample, graph=graph, neighbors=with_edges(sample.neighbors, bridges)), bridges


def _largest(sample: Sample, parts: list[IntArray], embed: EmbedConnected, width: int, run: Run) -> Embedding:
    left_out = sample.n_points - len(parts[0])
    warn(
        f"The neighbor graph has {len(parts)} connected components, and {left_out} "
        f"{'point outside the largest has' if left_out == 1 else 'points outside the largest have'} no coordinates "
        "(NaN): raise n_neighbors or radius, or set disconnected='apart'.",
        DisconnectedWarning,
    )
    embedding = _piece(sample, parts[0], embed, width, run)
    coordinates = np.full((sample.n_points, width), np.nan)
    coordinates[parts[0]] = embedding.coordinates
    notes, fitted = {**embedding.notes, "left_out": left_out}, _joint_attributes([embedding], parts, sample.n_points)
    return replace(embedding, coordinates=coordinates, graph=None, notes=notes, fitted=fitted)


def _apart(sample: Sample, parts: list[IntArray], embed: EmbedConnected, width: int, run: Run) -> Embedding:
    pieces = [_piece(sample, members, embed, width, run) for members in parts]
    placed = side_by_side([piece.coordinates for piece in pieces])
    coordinates, label = np.empty((sample.n_points, width)), np.empty(sample.n_points, dtype=np.int64)
    for number, (members, (rows, _)) in enumerate(zip(parts, placed, strict=True)):
        coordinates[members], label[members] = rows, number
    extensions = [piece.extension for piece in pieces if piece.extension is not None]
    whole = len(extensions) == len(pieces)
    apart = Apart(sample.index, label, extensions, [shift for _, shift in placed]) if whole else None
    fitted = _joint_attributes(pieces, parts, sample.n_points)
    notes = dict(pieces[0].notes)
    for kind in ("advice", "surface_advice", "remarks"):
        said = dict.fromkeys(sentence for piece in pieces for sentence in piece.notes.get(kind, ()))
        notes |= {kind: tuple(said)} if said else {}
    return replace(
        pieces[0], coordinates=coordinates, graph=None, extension=apart, inverse=None, notes=notes, fitted=fitted
    )


def _joint_attributes(pieces: list[Embedding], parts: list[IntArray], n_points: int) -> dict[str, Any]:
    """Return fitted attributes: sparse matrices of edges over all points, numbers of the largest component.

    Of several components no array is kept: its rows would be those of one alone.
    """
    fitted = {name: value for name, value in pieces[0].fitted.items() if len(pieces) == 1 or np.ndim(value) == 0}
    for name in [name for name, value in pieces[0].fitted.items() if issparse(value)]:
        found = zip((piece.fitted.get(name) for piece in pieces), parts[: len(pieces)], strict=True)
        blocks = [(block.tocoo(), members) for block, members in found if block is not None]
        rows = np.concatenate([members[block.row] for block, members in blocks])
        columns = np.concatenate([members[block.col] for block, members in blocks])
        entries = np.concatenate([block.data for block, _ in blocks])
        fitted[name] = csr_array((entries, (rows, columns)), shape=(n_points, n_points))
    return fitted


def _piece(sample: Sample, members: IntArray, embed: EmbedConnected, width: int, run: Run) -> Embedding:
    """Embed one component in as many dimensions as its points can span, padded with zeros to ``width``."""
    n_components = min(width, len(members) - 1)
    if n_components == 0:
        return Embedding(np.zeros((1, width)), extension=LonePoint(width))
    embedding = embed(sample.part(members, run), n_components, run)
    if embedding.extension is None:
        return replace(embedding, coordinates=_padded(embedding.coordinates, width))
    # New points of a matrix of distances or of a graph come with a column for every fitted point.
    columns = members if sample.pairwise or sample.X is None else None
    extension = Piece(embedding.extension, columns, width)
    return replace(embedding, coordinates=_padded(embedding.coordinates, width), extension=extension)


def _padded(coordinates: FloatArray, width: int) -> FloatArray:
    return np.pad(coordinates, ((0, 0), (0, width - coordinates.shape[1])))


@dataclass(frozen=True)
class LonePoint:
    """The extension of a component of one point, or of copies of one, which every new point that comes to it joins."""

    width: int

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Place new points."""
        return np.zeros((X.shape[0], self.width))


@dataclass(frozen=True)
class Piece:
    """The extension of one component, by its own columns of distances, padded with zeros to ``width`` columns."""

    extension: Extension
    columns: IntArray | None
    width: int

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points in the component's own coordinates."""
        if not X.shape[0]:
            return np.zeros((0, self.width))
        return _padded(self.extension(X if self.columns is None else X[:, self.columns], run), self.width)


@dataclass(frozen=True)
class Apart:
    """Each new point goes to the component of its nearest fitted one; without any neighbor it has no place (NaN)."""

    index: NeighborIndex
    label: IntArray
    extensions: list[Extension]
    shifts: list[FloatArray]

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Place new points, each in its component's part of the picture."""
        near = self.index.nearest(X, run)
        label = np.where(near >= 0, self.label[near], -1)
        coordinates = np.full((X.shape[0], len(self.shifts[0])), np.nan)
        for number in np.unique(label[label >= 0]):
            mine = np.flatnonzero(label == number)
            coordinates[mine] = self.extensions[number](X[mine], run) + self.shifts[number]
        return coordinates


def side_by_side(pieces: list[FloatArray]) -> list[tuple[FloatArray, FloatArray]]:
    r"""Shift the pieces along the first axis so that they stand in a row without overlap; return (rows, shift).

    The space between two is such that k-means with one mean per piece finds the pieces:

    - every point is nearer to its own mean: means are apart by twice the larger of the two radii;
    - no two pieces are better given one mean. For :math:`n_a` and :math:`n_b` points with means :math:`\Delta` apart
      that costs :math:`\Delta^2 n_a n_b / (n_a + n_b)`, and the mean so won saves at most the scatter S of another
      piece, so :math:`\Delta^2 \ge 2 S (1 / n_a + 1 / n_b)`; for that the gap grows to two widths at most.

    Pieces of less than a tenth of the largest one's points only keep clear of the others: a few stray points must not
    take the room from the rest.
    """
    widths = np.array([np.ptp(piece[:, 0]) for piece in pieces])
    least, most = GAP_SHARE * (widths.mean() or 1.0), MAX_GAP * widths.max(initial=0.0)
    squares = [((piece - piece.mean(axis=0)) ** 2).sum(axis=1) for piece in pieces]
    scatter = max(float(square.sum()) for square in squares)
    large = MIN_ROOMY_SHARE * max(map(len, pieces))
    placed: list[tuple[FloatArray, FloatArray]] = []
    right = 0.0
    for number, piece in enumerate(pieces):
        shift = -(piece.min(axis=0) + piece.max(axis=0)) / 2
        left = 0.0
        if number:
            before = placed[-1][0]
            left = right + least
            if min(len(before), len(piece)) >= large:
                radius = np.sqrt(max(squares[number - 1].max(), squares[number].max()))
                apart = np.sqrt(2 * scatter * (1 / len(before) + 1 / len(piece)))
                inside = (right - before[:, 0].mean()) + (piece[:, 0].mean() - piece[:, 0].min())
                left = right + max(least, 2 * radius - inside, min(apart - inside, most))
        shift[0] = left - piece[:, 0].min()
        placed.append((piece + shift, shift))
        right = left + widths[number]
    return placed
