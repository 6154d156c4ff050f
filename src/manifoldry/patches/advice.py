"""Diagnosis of an atlas and its embedding: findings in sentences, each with what to do."""

from __future__ import annotations

import numpy as np

from manifoldry.patches.atlas import Atlas
from manifoldry.patches.overlaps import MIN_TIGHTNESS, Overlaps
from manifoldry.values import Array, Spectrum

MAX_CHART_RESIDUAL = 0.1
"""Maximum residual of a chart, relative to the patch's spread, without a finding."""

MAX_TORN_SHARE = 0.02
"""Maximum share of edges that no patch holds, or that change by half, without a finding."""

MAX_LOST_VARIANCE = 0.05
"""Maximum share of the unfolded variance beyond n_components without a finding."""


def advice(
    atlas: Atlas, overlaps: Overlaps, firm: Array, n_components: int, parts: int, spectrum: Spectrum
) -> tuple[str, ...]:
    """Return the findings about unfolded patches, none if all is well."""
    found = []
    residuals, sizes = atlas.charts.residuals, atlas.charts.sizes
    rough = int((residuals > MAX_CHART_RESIDUAL).sum())
    if rough:
        found.append(
            f"{rough} of {len(residuals)} patches are not flat enough (their points are up to "
            f"{residuals.max():.0%} of the patch's spread away from its chart): use more patches, or more dimensions."
        )
    loose = overlaps[~firm]
    if len(loose):
        joined = np.zeros(len(sizes), dtype=bool)
        joined[overlaps.first[firm]] = joined[overlaps.second[firm]] = True
        hanging = int((~joined).sum()) if len(sizes) > 1 else 0
        if hanging:
            found.append(
                f"{hanging} of {len(sizes)} patches share too little with any other (least spread below "
                f"{MIN_TIGHTNESS:g} of a typical overlap): raise overlap, or use fewer patches."
            )
    if parts > 1:
        found.append(
            f"The patch graph is in {parts} pieces, which are laid side by side and say nothing about each other: "
            "raise n_neighbors or overlap if they belong together."
        )
    distortions = atlas.distortions
    torn = float((np.abs(np.nan_to_num(distortions)) > 0.5).mean()) if len(distortions) else 0.0
    if torn > MAX_TORN_SHARE:
        found.append(
            f"{torn:.0%} of the neighbor pairs are torn apart or change by more than half: use more patches, "
            "or fewer neighbors."
        )
    total = float(spectrum.values.sum())
    beyond = float(spectrum.values[n_components:].sum()) / total if total > 0 else 0.0
    if beyond > MAX_LOST_VARIANCE:
        found.append(
            f"The unfolded patches need {_dimensions(spectrum)} dimensions and {n_components} lose {beyond:.0%} of "
            "their variance: the intrinsic dimension looks larger than asked."
        )
    return tuple(found)


def _dimensions(spectrum: Spectrum) -> int:
    """Return how many dimensions hold all but a twentieth of the variance."""
    held = np.cumsum(spectrum.values) / spectrum.values.sum()
    return int(np.argmax(held >= 1 - MAX_LOST_VARIANCE)) + 1
