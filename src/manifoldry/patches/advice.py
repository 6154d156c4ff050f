"""What the patches tell a doctor: findings in sentences, each with what to do."""

from __future__ import annotations

import numpy as np

from manifoldry.patches.overlaps import THIN, Overlaps
from manifoldry.patches.survey import Survey
from manifoldry.values import Array, Spectrum

NOT_FLAT = 0.1
"""Residual of a chart, relative to the patch's spread, that is worth a word."""

TORN = 0.02
"""Share of edges that no patch holds, or that change by half, that is worth a word."""

BEYOND = 0.05
"""Share of the unfolded variance beyond the wanted dimensions that is worth a word."""


def advice(
    survey: Survey, overlaps: Overlaps, firm: Array, n_components: int, parts: int, spectrum: Spectrum
) -> tuple[str, ...]:
    """Return findings about unfolded patches; none is good news."""
    found = []
    residuals, sizes = survey.charts.residuals, survey.charts.sizes
    rough = int((residuals > NOT_FLAT).sum())
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
                f"{hanging} of {len(sizes)} patches share too little with any other (least spread below {THIN:g} of a "
                "typical overlap): raise overlap, or use fewer patches."
            )
    if parts > 1:
        found.append(
            f"The patch graph is in {parts} pieces, which are laid side by side and say nothing about each other: "
            "raise n_neighbors or overlap if they belong together."
        )
    changes = survey.changes
    torn = float((np.abs(np.nan_to_num(changes)) > 0.5).mean()) if len(changes) else 0.0
    if torn > TORN:
        found.append(
            f"{torn:.0%} of the neighbor pairs are torn apart or change by more than half: use more patches, "
            "or fewer neighbors."
        )
    total = float(spectrum.values.sum())
    beyond = float(spectrum.values[n_components:].sum()) / total if total > 0 else 0.0
    if beyond > BEYOND:
        found.append(
            f"The unfolded patches need {_dimensions(spectrum)} dimensions and {n_components} lose {beyond:.0%} of "
            "their variance: the intrinsic dimension looks larger than asked."
        )
    return tuple(found)


def _dimensions(spectrum: Spectrum) -> int:
    """Return how many dimensions hold all but a twentieth of the variance."""
    held = np.cumsum(spectrum.values) / spectrum.values.sum()
    return int(np.argmax(held >= 1 - BEYOND)) + 1
