"""Unfolded points as an embedding: what the programs over their Gram matrices have in common."""

from __future__ import annotations

from typing import Any

from manifoldry.extend.local import forward
from manifoldry.neighbors.sample import Sample
from manifoldry.run import Run
from manifoldry.solve.scaling import principal_axes
from manifoldry.solve.semidefinite import PairDistances, Stretched
from manifoldry.solve.semidefinite.points import MAX_GRAM_PAIRS
from manifoldry.solve.spectrum import lost_variance_advice
from manifoldry.values import Embedding


def distances_fit(sample: Sample, pairs: PairDistances, method: Any) -> bool:
    """Tell whether points with these distances are known: rows, of which none were duplicates put apart."""
    of_rows = sample.X is not None and method.metric == "euclidean" and method.edge_lengths == "distance"
    return bool(of_rows and sample.graph.lengths.min() >= pairs.lengths.min())


def refuse_many_pairs(method: str, pairs: PairDistances) -> None:
    """Refuse more distances than a program over all Gram matrices takes."""
    if len(pairs) > MAX_GRAM_PAIRS:
        raise ValueError(
            f"{method} keeps up to {MAX_GRAM_PAIRS:,} distances, of 1,500 to 2,400 points; got {len(pairs):,} of "
            f"{pairs.n_points:,} points: lower n_neighbors, fit a sample and transform the rest, or use FastMVU."
        )


def embed_unfolded(
    sample: Sample, solution: Stretched, n_components: int, run: Run, *, advice: tuple[str, ...] = (), **notes: Any
) -> Embedding:
    """Return unfolded points in their first principal axes, with what was reached and proven."""
    coordinates, spectrum = principal_axes(solution.V, n_components)
    spectrum = spectrum.head(max(n_components, solution.certificate.rank))
    lost = lost_variance_advice(spectrum.values, n_components, run.stopped)
    return Embedding(
        coordinates,
        spectrum=spectrum,
        trace=solution.trace,
        certificate=solution.certificate,
        extension=forward(sample, coordinates) if sample.X is not None else None,
        notes={**notes, "advice": advice, "surface_advice": lost},
        fitted={
            "stretch_": -solution.certificate.objective,
            "error_": solution.error,
            "error_certificate_": solution.error_certificate,
        },
    )
