"""``--scale auto``: columns of mixed units are standardized, all others are left as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from manifoldry._core.values import Array
from manifoldry._numerics.geometry.scales import dominating_columns, in_sentences
from manifoldry.data._tables.preparation import Scale
from manifoldry.evaluation.diagnosis import Diagnosis, Finding
from manifoldry.evaluation.diagnosis._finding import Severity

AskedScale = Scale | Literal["auto"]
"""What ``--scale`` may be: a way to scale, or "auto"."""


@dataclass(frozen=True)
class MixedUnits:
    """Why the columns of a table were standardized.

    Parameters
    ----------
    sentence : str
        Which columns dominate the distances.
    share : float
        Their share of the squared distances.
    """

    sentence: str
    share: float

    @property
    def done(self) -> str:
        """What was found and what was done about it."""
        return f"{self.sentence} The columns have different units, so all of them were standardized."

    @property
    def told(self) -> str:
        """The same, and how to turn it off."""
        return f"{self.done} Use --scale none to keep them as they are."

    def finding(self, severity: Severity = "note") -> Finding:
        """Return it as a finding about the data."""
        return Finding("scales", self.done, self.share, "use --scale none to keep the columns as they are", severity)


def resolved_scale(
    asked: AskedScale, X: Any, names: Sequence[str], metric: Any = "euclidean", *, nonnegative: bool = False
) -> tuple[Scale, MixedUnits | None]:
    """Return how the columns are scaled, and why if that was left to the data.

    Parameters
    ----------
    asked : str
        The option.
    X : ndarray or sparse array of shape (n, d)
        The rows as they were read, or a sample of them. NaN stands for missing values.
    names : sequence of str
        Names of the columns.
    metric : str or callable
        Metric of the method.
    nonnegative : bool
        Whether the method needs numbers of at least 0, which standardized columns are not.
    """
    if asked != "auto":
        return asked, None
    found = None if nonnegative else mixed_units(X, names, metric)
    return ("none", None) if found is None else ("standard", found)


def mixed_units(X: Any, names: Sequence[str], metric: Any = "euclidean") -> MixedUnits | None:
    """Return which columns dominate all distances because of their units; None if there are no such columns.

    Counts, pixels, principal components, sparse matrices and metrics that do not depend on units have none; see
    `geometry.scales.dominating_columns`.
    """
    if hasattr(X, "tocsr") or X.shape[0] < 2:
        return None
    found = dominating_columns(_complete(X), metric)
    return None if found is None else MixedUnits(found.sentence(in_sentences(names)), found.share)


def _complete(rows: Array) -> Array:
    """Return the rows with medians in place of missing values, as an imputer has them."""
    missing = ~np.isfinite(rows)
    if not missing.any():
        return rows
    return np.where(missing, np.nanmedian(np.where(missing, np.nan, rows), axis=0), rows)


def preparation_facts(scale: str, pca: int | None, units: MixedUnits | None) -> dict[str, Any]:
    """Return what a record says of how rows were prepared."""
    facts: dict[str, Any] = {"scale": scale, "pca": pca}
    return facts if units is None else {**facts, "mixed_units": asdict(units)}


def recorded_units(preparation: Mapping[str, Any]) -> MixedUnits | None:
    """Return why columns were standardized, from what a record says of the preparation."""
    facts = preparation.get("mixed_units")
    return None if facts is None else MixedUnits(facts["sentence"], facts["share"])


def with_units(found: Diagnosis, units: MixedUnits | None, severity: Severity = "note") -> Diagnosis:
    """Return a diagnosis of standardized columns that also says why they were."""
    if units is None:
        return found
    return Diagnosis([units.finding(severity), *(each for each in found if each.topic != "scales")], found.subject)
