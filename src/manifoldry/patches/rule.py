"""Which patches a method is asked for: given ones, those of a clustering, or cells in a number given or found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from manifoldry import check
from manifoldry.neighbors.search import NeighborIndex
from manifoldry.patches.atlas import (
    Atlas,
    ChartOptions,
    History,
    build_atlas,
    choose_atlas,
    cluster_atlas,
    voronoi_atlas,
)
from manifoldry.patches.cover import ListedCover, cell_labels, lists_members, member_weights
from manifoldry.patches.restarts import Trial
from manifoldry.run import Run
from manifoldry.values import FloatArray


@dataclass(frozen=True)
class PatchRule:
    """The parameters of `IPA` that say what its patches are."""

    n_patches: int | Literal["auto"]
    clustering: Any = "kmeans"
    patches: Any = None

    @property
    def given(self) -> bool:
        """Whether there are labels or lists of members, or an estimator of labels."""
        return self.patches is not None or not isinstance(self.clustering, str)

    @property
    def free(self) -> bool:
        """Whether neither the patches nor their number are given."""
        return not self.given and isinstance(self.n_patches, str)

    def refuse_too_many(self, n_components: int, n_points: int) -> None:
        """Refuse more patches than have points enough for a chart of so many dimensions."""
        if not isinstance(self.n_patches, str):
            most = max(1, n_points // (n_components + 1))
            because = f" (each patch needs {n_components + 1} of the {n_points} points)"
            check.integer("n_patches", self.n_patches, 1, most, because)

    def atlas(
        self,
        rows: FloatArray,
        trial: Trial,
        index: NeighborIndex,
        dimension: float,
        options: ChartOptions,
        run: Run,
    ) -> tuple[Atlas, History]:
        """Return patches and charts of the sample, and the edge distortion for the numbers of patches tried."""
        graph = trial.graph
        if lists_members(self.patches):
            atlas = build_atlas(rows, graph, ListedCover(member_weights(self.patches, len(rows)), index), options, run)
        elif (labels := cell_labels(self.patches, self.clustering, rows)) is not None:
            atlas = cluster_atlas(rows, graph, labels, index, options, run)
        elif isinstance(self.n_patches, str):
            return choose_atlas(rows, graph, options, run, dimension, trial.number, trial.scale)
        else:
            atlas = voronoi_atlas(rows, graph, self.n_patches, options, run, trial.number)
        return atlas, [(atlas.charts.n_patches, atlas.distortion)]


def refuse_apart(n_pieces: int, disconnected: str) -> None:
    """Refuse a patch graph in several pieces, where these are not to be laid side by side."""
    if n_pieces > 1 and disconnected == "raise":
        raise ValueError(
            f"The patch graph is in {n_pieces} pieces; raise n_neighbors or overlap, or set disconnected='apart'."
        )
