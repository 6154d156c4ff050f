"""The findings of a fit: their order, and the dimension that a fitted method suggests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from manifoldry._core.run import Run
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import FloatArray
from manifoldry._core.warnings import DisconnectedWarning, EmbeddingWarning

if TYPE_CHECKING:
    from manifoldry._numerics.elbow import Suggestion
    from manifoldry._numerics.geometry.dimension import IntrinsicDimension
    from manifoldry._numerics.geometry.scales import DominatingColumns

Finding = tuple[str, type[Warning]]
"""A text, and the category of its warning."""

CERTIFICATES = ("certificate_", "error_certificate_")
"""The attributes of a fitted estimator that prove something."""

MAX_SHOWN = 4
"""Findings shown below the representation of a fitted estimator."""


class NotConvergedWarning(EmbeddingWarning, ConvergenceWarning):
    """An iteration ended at its limit, before the tolerance; the category of scikit-learn's warnings of that."""


def plain(texts: Iterable[str]) -> list[Finding]:
    """Return texts as findings of the general category."""
    return [(text, EmbeddingWarning) for text in texts]


def ranked(
    warnings: Iterable[Finding],
    causes: Iterable[str],
    advice: Iterable[str],
    symptoms: Iterable[str],
    unproven: Iterable[str],
) -> tuple[list[Finding], list[Finding]]:
    """Return findings on the input and the run, and those on the result, each from causes to consequences."""
    steps: dict[type[Warning], list[Finding]] = {DisconnectedWarning: [], NotConvergedWarning: [], EmbeddingWarning: []}
    for message, category in warnings:
        group = category if category in steps else EmbeddingWarning
        steps[group].append((message, group))
    return [*plain(causes), *steps[EmbeddingWarning]], [
        *plain(advice),
        *steps[DisconnectedWarning],
        *plain(symptoms),
        *steps[NotConvergedWarning],
        *plain(unproven),
    ]


def scale_sentence(columns: DominatingColumns, method: str, names: Any) -> str:
    """Return the finding that few columns dominate all distances; ``names`` are those of all columns, if known."""
    from manifoldry._numerics.geometry.scales import in_sentences

    text = columns.sentence(None if names is None else in_sentences(names)).rstrip(".")
    return (
        f"{text}: scale the columns, as in make_pipeline(StandardScaler(), {method}()), unless all have the same unit."
    )


def certificates_of(model: object) -> list[Any]:
    """Return the certificates of a fitted estimator."""
    return [getattr(model, name) for name in CERTIFICATES if hasattr(model, name)]


def problems(model: object) -> tuple[str, ...]:
    """Return the findings of a fit that are worth a warning, the most important first: no remarks, nothing proven.

    Examples
    --------
    >>> from manifoldry import PCA, datasets
    >>> problems(PCA(n_components=2).fit(datasets.s_curve(300).X))
    ()
    """
    notes = getattr(model, "diagnostics_", {})
    proven = {each.sentence for each in certificates_of(model) if each.verdict != "bound only"}
    others = proven.union(notes.get("remarks", ()))
    return tuple(text for text in notes.get("advice", ()) if text not in others)


N_CURVE_DIMENSIONS = 10
"""Dimensions among which an elbow is searched: more components would not be examined individually."""
MAX_VARIANCE_ROWS = 2000
"""Maximum number of rows whose principal components are computed for a suggestion."""


def variance_left_over(rows: Any) -> FloatArray:
    """Return the shares of the variance that 1, 2, ..., 10 principal components leave out, of a sample of the rows."""
    run = Run(0, 1)
    chosen = np.sort(run.rng("variance").permutation(rows.shape[0])[:MAX_VARIANCE_ROWS])
    sample = rows[chosen].astype(float)
    with one_blas_thread():
        if issparse(sample):
            from manifoldry._numerics.scaling import center_gram

            product = center_gram((sample @ sample.T).toarray(), run)
        else:
            centered = sample - sample.mean(axis=0)
            product = centered @ centered.T if centered.shape[1] > len(centered) else centered.T @ centered
        # All eigenvalues of at most 2,000 rows by LAPACK take no longer than a few by iteration.
        values = np.maximum(np.linalg.eigvalsh(product)[::-1][:N_CURVE_DIMENSIONS], 0.0)
    return np.maximum(1.0 - np.cumsum(values) / (np.trace(product) or 1.0), 0.0)


def by_dimension(measured: IntrinsicDimension) -> Suggestion:
    """Return the measured dimension as a suggestion."""
    from manifoldry._numerics.elbow import Suggestion

    if not measured.n_measured:
        return Suggestion(1, "No point has three neighbors at different distances, as more dimensions would give it.")
    return Suggestion(
        int(measured),
        f"Around its points the data have about {measured.value:.1f} dimensions (half of the points between "
        f"{measured.low:.1f} and {measured.high:.1f}), by how the number of neighbors grows with their distance.",
    )
