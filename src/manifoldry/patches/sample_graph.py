"""The neighbor graph of a sample that patches are made on: what is connected, and what targets take apart."""

from __future__ import annotations

from manifoldry.geometry.supervised import supervised_lists
from manifoldry.neighbors.graph import join_small_components, symmetrize
from manifoldry.neighbors.sample import Sample
from manifoldry.neighbors.search import NeighborIndex, NeighborRule, neighbor_graph
from manifoldry.neighbors.targets import Targets
from manifoldry.run import Run
from manifoldry.values import FloatArray, NeighborGraph


def sample_graph(
    rows: FloatArray, rule: NeighborRule, targets: Targets | None, run: Run
) -> tuple[NeighborGraph, NeighborIndex]:
    """Return the undirected graph of the rows, at their distances, and the index of them.

    Targets decide who is a neighbor: cells that hold two classes without an edge between them are divided, as those of
    two sheets are, and patches do not extend from one to the other. Lengths are those of the points, as patches are.
    """
    neighbors, index = neighbor_graph(rows, rule, run)
    if targets is None:
        return join_small_components(symmetrize(neighbors), rows, run), index
    sample = Sample(rows, neighbors, symmetrize(neighbors), index)
    return symmetrize(supervised_lists(sample, targets, run)[1]), index
