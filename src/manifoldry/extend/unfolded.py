"""Unfolded points as an embedding: what the programs over their Gram matrices have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from manifoldry.extend.local import forward
from manifoldry.neighbors.sample import Sample
from manifoldry.run import Run
from manifoldry.solve.scaling import principal_axes
from manifoldry.solve.semidefinite import PairDistances, Stretched
from manifoldry.solve.semidefinite.points import MAX_GRAM_PAIRS
from manifoldry.solve.spectrum import lost_variance_advice
from manifoldry.values import Embedding, Spectrum

MAX_SECONDS = 1800.0
"""Estimated seconds of a program beyond which it is not begun without a callback. Programs over all Gram matrices take
about 2e-10 times the cube of their kept distances (3,500 in 9 s, 7,000 in 68 s), so up to 9,000 of them, the most that
MVU, ColoredMVU and MVE solve, end within minutes, MVE's eight or so steps within 20; SPE has at most 600 points."""
MAX_LOST_LENGTH = 1e-3
"""What a squared relative length may lose with the dimensions that are left out: a tenth of the default slack."""
DUPLICATES_APART = "duplicates taken as a thousandth of the median distance apart"


def distances_fit(sample: Sample, pairs: PairDistances, method: Any) -> bool:
    """Tell whether points with these distances are known: rows, of which none were duplicates put apart."""
    of_rows = sample.X is not None and method.metric == "euclidean" and method.edge_lengths == "distance"
    return bool(of_rows and sample.graph.lengths.min() >= pairs.lengths.min())


def refuse_long(method: str, n_points: int, seconds: float, callback: Any) -> None:
    """Refuse a program that would take more than half an hour, unless a callback may end it before."""
    if seconds > MAX_SECONDS and callback is None:
        hours = seconds / 3600
        raise ValueError(
            f"{method} of {n_points:,} points would take about {hours:.2g} hours: use LandmarkMVU, FastMVU or IPA, or "
            "fit a sample and transform the rest. A time limit also allows the fit, which then ends with the layout "
            "reached: callback=lambda progress: progress.seconds > 3600."
        )


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
    solution = _of_kept_dimensions(sample, solution, spectrum)
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


def _of_kept_dimensions(sample: Sample, solution: Stretched, spectrum: Spectrum) -> Stretched:
    """Return the solution with as many dimensions as its distances need, and what was done with duplicates.

    Dimensions of little variance are left out, but not those that a short distance lives in: what is certified is what
    is returned. Duplicates are the exception. They are apart in the program and together in the result, so that the
    claim says it.
    """
    pairs = PairDistances.of_graph(sample.graph)
    once = sample.graph.rows() < sample.graph.indices
    close = sample.graph.lengths[once] < pairs.lengths  # set apart by the program
    certificate = solution.certificate
    rank = max(certificate.rank, pairs.only(~close).dimensions(spectrum, MAX_LOST_LENGTH))
    if close.any():
        certificate = replace(certificate, claim=f"{certificate.claim}, {DUPLICATES_APART}")
    return replace(solution, certificate=replace(certificate, rank=rank))
