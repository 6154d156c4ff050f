"""What a fit says of itself when it ends: all findings in ``diagnostics_``, and one warning, of the most important."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from manifoldry.warnings import Collected, DisconnectedWarning, EmbeddingWarning, issue

CERTIFICATES = ("certificate_", "error_certificate_")
"""The attributes of a fitted estimator that prove something."""

MAX_SHOWN = 4
"""Sentences shown below the representation of a fitted estimator."""


class NotConvergedWarning(EmbeddingWarning, ConvergenceWarning):
    """An iteration ended at its limit, before the tolerance; the category of scikit-learn's warnings of that."""


def report(model: Any, collected: Collected, causes: Iterable[str] = (), symptoms: Iterable[str] = ()) -> None:
    """Leave all findings of a fit in ``diagnostics_``, the most important first, and warn of the first.

    They are ordered from causes to consequences: defects of the input, what the steps of the fit warned of, what the
    method says itself (``advice`` among its notes), a graph in several components, defects of the layout, iterations
    that did not converge, certificates that prove nothing. After those come remarks, which are not worth a warning
    (``remarks`` has them alone), and what is proven.

    Parameters
    ----------
    model : estimator
        Fitted, with ``diagnostics_``.
    collected : Collected
        What the steps of the fit warned of and remarked.
    causes, symptoms : iterable of str
        Defects of the input and of the result.
    """
    notes = model.diagnostics_
    steps = {DisconnectedWarning: [], NotConvergedWarning: [], EmbeddingWarning: []}  # type: ignore[var-annotated]
    for message, category in collected.warnings:
        known = category if category in steps else EmbeddingWarning
        steps[known].append((message, known))
    certificates = certificates_of(model)
    unproven = [each.sentence for each in certificates if each.verdict == "bound only"]
    found = [
        *_plain(causes),
        *steps[EmbeddingWarning],
        *_plain(notes.get("advice", ())),
        *steps[DisconnectedWarning],
        *_plain(symptoms),
        *steps[NotConvergedWarning],
        *_plain(unproven),
    ]
    warned = dict(reversed(found))  # each sentence once, in its first place
    found = [(sentence, warned[sentence]) for sentence in dict.fromkeys(sentence for sentence, _ in found)]
    remarks = tuple(dict.fromkeys((*notes.get("remarks", ()), *collected.remarks)))
    proven = (each.sentence for each in certificates)
    notes["remarks"] = tuple(sentence for sentence in remarks if sentence not in warned)
    notes["advice"] = tuple(dict.fromkeys((*(sentence for sentence, _ in found), *notes["remarks"], *proven)))
    if found:
        (sentence, category), others = found[0], len(found) + len(notes["remarks"]) - 1
        issue(f"{type(model).__name__}: {sentence}{_elsewhere(others)}", category)


def _plain(sentences: Iterable[str]) -> list[tuple[str, type[Warning]]]:
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
