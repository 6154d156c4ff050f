"""What the search for patches found, and what a fit leaves of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from manifoldry.geometry.dimension import IntrinsicDimension
from manifoldry.patches.advice import advice, chart_remarks
from manifoldry.patches.atlas import Atlas, History
from manifoldry.patches.charts import layout_kind
from manifoldry.patches.layout import PatchLayout, lay_out
from manifoldry.patches.overlaps import Overlaps
from manifoldry.patches.restarts import Chosen, edge_ratios
from manifoldry.patches.unfold import CenteredPatchInverse, CenteredPatchMap, PatchInverse, PatchMap
from manifoldry.run import Run
from manifoldry.values import Embedding, FloatArray, IntArray, NeighborGraph


def coordinates_of(made: tuple[PatchLayout, History]) -> FloatArray:
    """Return the coordinates of a layout, made with its history."""
    return made[0].unfolded.coordinates


def agrees(made: tuple[PatchLayout, History], graph: NeighborGraph) -> bool:
    """Tell whether the patches of a layout agree with each other."""
    return made[0].agrees_with(graph)


@dataclass(frozen=True)
class FoundLayout:
    """The layout of a sample that its points contradict least, their graph and their measured dimension.

    Patches and charts are those of the rows about the ``origin``.
    """

    graph: NeighborGraph
    dimension: IntrinsicDimension
    chosen: Chosen[tuple[PatchLayout, History]]
    origin: FloatArray

    @property
    def layout(self) -> PatchLayout:
        """The layout chosen."""
        return self.chosen.layout[0]

    @property
    def atlas(self) -> Atlas:
        """Its patches."""
        return self.layout.atlas

    def stitched_by(self, overlaps: Overlaps, n_components: int, run: Run) -> FoundLayout:
        """Return the same patches, stitched by overlaps of more points than the sample's."""
        layout = lay_out(self.atlas, n_components, run, overlaps=overlaps)
        return replace(self, chosen=replace(self.chosen, layout=(layout, self.chosen.layout[1])))

    def embedding(self, sample: IntArray, n_components: int, overlap: float, tol: float) -> Embedding:
        """Return the sample's embedding, with its maps and all that is known of it; ``sample`` are its rows."""
        chosen, layout = self.chosen, self.layout
        charts, stitched, unfolded = layout.atlas.charts, layout.unfolded.stitched, layout.unfolded
        holding = layout.overlaps[layout.holding]
        changes = edge_ratios(chosen.graph, unfolded.coordinates) - 1
        return Embedding(
            unfolded.coordinates,
            graph=chosen.graph,
            spectrum=unfolded.spectrum,
            trace=stitched.trace,
            certificate=replace(stitched.certificate, tol=tol) if charts.n_patches > 1 else None,
            extension=CenteredPatchMap(self.origin, PatchMap(layout.atlas.cover, charts, stitched)),
            inverse=CenteredPatchInverse(self.origin, PatchInverse.of(charts, stitched, holding, overlap)),
            notes={
                "n_patches": charts.n_patches,
                "layout": layout_kind(charts),
                "patch_components": charts.width,
                "dimension": self.dimension,
                "components": stitched.n_components,
                "edge_changes": chosen.layout[1],
                "contradictions": chosen.scores,
                "cut_edges": (self.graph.n_edges - chosen.graph.n_edges) // 2,
                "overlaps": len(layout.overlaps),
                "thin_overlaps": int((~layout.firm).sum()),
                "advice": advice(layout, n_components, self.dimension, chosen, changes),
                "remarks": chart_remarks(charts),
            },
            fitted={
                "patches_": layout.atlas,
                "mean_": self.origin,
                "sample_": sample,
                "residuals_": charts.residuals,
                "disagreement_": unfolded.disagreement,
                "distortion_": changes,
                "n_patches_": charts.n_patches,
            },
        )
