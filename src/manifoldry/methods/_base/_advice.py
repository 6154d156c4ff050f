"""What a fit says of itself when it ends: all findings in ``diagnostics_``, and one warning, of the most important."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from manifoldry._core.registry import is_for_pictures
from manifoldry._core.run import Run
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.values import FloatArray, NeighborGraph
from manifoldry._core.warnings import Collected, DisconnectedWarning, EmbeddingWarning, issue, warn
from manifoldry._numerics.eigen import largest
from manifoldry._numerics.elbow import Suggestion
from manifoldry._numerics.geometry.dimension import IntrinsicDimension
from manifoldry._numerics.geometry.scales import DominatingColumns, dominating_columns, in_sentences
from manifoldry._numerics.scaling import center_gram

Finding = tuple[str, type[Warning]]
"""A sentence, and the category of its warning."""

CERTIFICATES = ("certificate_", "error_certificate_")
"""The attributes of a fitted estimator that prove something."""

MAX_SHOWN = 4
"""Sentences shown below the representation of a fitted estimator."""


class NotConvergedWarning(EmbeddingWarning, ConvergenceWarning):
    """An iteration ended at its limit, before the tolerance; the category of scikit-learn's warnings of that."""


@contextmanager
def iterating(model: Any) -> Iterator[None]:
    """Say in our words, as a finding of the fit, that an iteration of scikit-learn has not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
    most = getattr(model, "max_iter", None)
    if most is not None and getattr(model, "n_iter_", 0) >= most and model.tol > 0:
        warn(
            f"The iteration ended after max_iter={most} steps, before the tolerance tol={model.tol:g} was reached: "
            "raise max_iter or tol.",
            NotConvergedWarning,
        )


def report(model: Any, X: Any, collected: Collected, causes: Iterable[str] = (), symptoms: Iterable[str] = ()) -> None:
    """Leave all findings of a fit in ``diagnostics_``, the most important first, and warn of the first.

    Where few columns dominate all distances, that is the finding, and what follows from it is a remark. Other findings
    are ordered from causes to consequences: defects of the input, what the steps of the fit warned of, what the method
    says itself (``advice`` among its notes), a graph in several components, defects of the layout, iterations that did
    not converge, certificates that prove nothing. After those come remarks, which are not worth a warning
    (``remarks`` has them alone), and what is proven. What a method says of unfolding (``surface_advice`` among its
    notes) is a remark where the data has more dimensions than the layout, and cannot be unfolded anyway.

    Parameters
    ----------
    model : estimator
        Fitted, with ``diagnostics_``.
    X : rows, distances, affinities or a graph
        What it was fitted to, as its ``metric`` says.
    collected : Collected
        What the steps of the fit warned of and remarked.
    causes, symptoms : iterable of str
        Defects of the input and of the result.
    """
    notes = model.diagnostics_
    unfolded = notes.pop("surface_advice", ())
    remarks = [*notes.get("remarks", ()), *collected.remarks]
    if may_be_surface(model):
        notes["advice"] = (*notes.get("advice", ()), *unfolded)
    else:
        remarks += unfolded
    first, second = _ranked(model, collected, causes, symptoms)
    if not is_for_pictures(type(model)) and np.isfinite(getattr(model, "embedding_", np.nan)).all():
        # A linear map or features of a joined graph are what they would be of a connected one.
        remarks += [sentence for sentence, category in second if category is DisconnectedWarning]
        second = [(sentence, category) for sentence, category in second if category is not DisconnectedWarning]
    found = [*first, *second]
    dominating = _dominating(model, X)
    if dominating is not None:
        notes["dominating_columns"] = {"columns": dominating.columns, "share": dominating.share}
        remarks = [sentence for sentence, _ in second] + remarks
        found = [*_plain([_scale_sentence(model, dominating)]), *first]
    sentences = tuple(sentence for sentence, _ in found)
    notes["remarks"] = tuple(sentence for sentence in dict.fromkeys(remarks) if sentence not in sentences)
    proven = (each.sentence for each in certificates_of(model))
    notes["advice"] = tuple(dict.fromkeys((*sentences, *notes["remarks"], *proven)))
    if found:
        (sentence, category), others = found[0], len(set(sentences)) + len(notes["remarks"]) - 1
        issue(f"{type(model).__name__}: {sentence}{_elsewhere(others)}", category)


def _ranked(
    model: Any, collected: Collected, causes: Iterable[str], symptoms: Iterable[str]
) -> tuple[list[Finding], list[Finding]]:
    """Return findings on the input and the run, and those on the result, each from causes to consequences."""
    steps: dict[type[Warning], list[Finding]] = {DisconnectedWarning: [], NotConvergedWarning: [], EmbeddingWarning: []}
    for message, category in collected.warnings:
        known = category if category in steps else EmbeddingWarning
        steps[known].append((message, known))
    unproven = [each.sentence for each in certificates_of(model) if each.verdict == "bound only"]
    return [*_plain(causes), *steps[EmbeddingWarning]], [
        *_plain(model.diagnostics_.get("advice", ())),
        *steps[DisconnectedWarning],
        *_plain(symptoms),
        *steps[NotConvergedWarning],
        *_plain(unproven),
    ]


def may_be_surface(model: Any) -> bool:
    """Tell whether the measured dimension of the data is not above that of the layout, so that it may be unfolded."""
    measured = model.diagnostics_.get("dimension")
    return measured is None or round(measured.value) <= model.embedding_.shape[1]


def _dominating(model: Any, X: Any) -> DominatingColumns | None:
    """Return the columns that dominate the distances of a fit, unless its class says that it ``_ignores_units``."""
    if isinstance(X, NeighborGraph) or getattr(model, "_ignores_units", False):
        return None
    return dominating_columns(X, getattr(model, "metric", "euclidean"))


def _scale_sentence(model: Any, found: DominatingColumns) -> str:
    names = getattr(model, "feature_names_in_", None)
    told = found.sentence(None if names is None else in_sentences(names)).rstrip(".")
    example = f"make_pipeline(StandardScaler(), {type(model).__name__}())"
    return f"{told}: scale the columns, as in {example}, unless all have the same unit."


def _plain(sentences: Iterable[str]) -> list[Finding]:
    return [(sentence, EmbeddingWarning) for sentence in sentences]


def _elsewhere(others: int) -> str:
    if not others:
        return ""
    return f' ({others} more finding{"" if others == 1 else "s"} in diagnostics_["advice"])'


def certificates_of(model: Any) -> list[Any]:
    """Return the certificates of a fitted estimator."""
    return [getattr(model, name) for name in CERTIFICATES if hasattr(model, name)]


def problems(model: Any) -> tuple[str, ...]:
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
    return tuple(sentence for sentence in notes.get("advice", ()) if sentence not in others)


def repr_with_advice(text: str, model: Any) -> str:
    """Return the representation of an estimator with the findings of its fit below, and to which rows that was."""
    notes = getattr(model, "diagnostics_", {})
    told = [f"Fitted to {notes['fitted_to']}."] if "fitted_to" in notes else []
    told += notes.get("advice", ())
    if len(told) > MAX_SHOWN + 1:
        told[MAX_SHOWN:] = [f'{len(told) - MAX_SHOWN} more in diagnostics_["advice"].']
    return "\n".join([text, *(f"  # {sentence}" for sentence in told)])


# What every method can suggest: the dimension of the data, measured at the fit, or what principal components leave.

N_CURVE_DIMENSIONS = 10
"""Dimensions among which an elbow is sought: more components would not be looked at one by one."""
MAX_VARIANCE_ROWS = 2000
"""Rows of which principal components are computed for a suggestion."""


def variance_left_over(rows: Any) -> FloatArray:
    """Return the shares of the variance that 1, 2, ..., 10 principal components leave out, of a sample of the rows."""
    run = Run(0, 1)
    chosen = np.sort(run.rng("variance").permutation(rows.shape[0])[:MAX_VARIANCE_ROWS])
    sample = rows[chosen].astype(float)
    with one_blas_thread():
        if issparse(sample):
            product = center_gram((sample @ sample.T).toarray(), run)
        else:
            centered = sample - sample.mean(axis=0)
            product = centered @ centered.T if centered.shape[1] > len(centered) else centered.T @ centered
        values = np.maximum(largest(product, min(N_CURVE_DIMENSIONS, len(product)), run=run).values, 0.0)
    return np.maximum(1.0 - np.cumsum(values) / (np.trace(product) or 1.0), 0.0)


def by_dimension(measured: IntrinsicDimension) -> Suggestion:
    """Return the measured dimension as a suggestion."""
    if not measured.n_measured:
        return Suggestion(1, "No point has three neighbors at different distances, as more dimensions would give it.")
    return Suggestion(
        int(measured),
        f"Around its points the data have about {measured.value:.1f} dimensions (half of the points between "
        f"{measured.low:.1f} and {measured.high:.1f}), by how the number of neighbors grows with their distance.",
    )
