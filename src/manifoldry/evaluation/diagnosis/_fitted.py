"""Checks after a fit: the method's own advice, certificates, how distinct the axes are, and what the layout keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Certificate, FloatArray, Spectrum, Stop
from manifoldry._numerics.geometry.principal import leading_scores
from manifoldry._numerics.ranks import rank_measures
from manifoldry.evaluation.diagnosis._finding import Finding, note, problem
from manifoldry.evaluation.diagnosis._points import MIN_SEARCH_RECALL
from manifoldry.evaluation.diagnosis._profile import DataProfile
from manifoldry.methods._base._checks import CERTIFICATES, findings, problems

TOPICS_OF_ADVICE = (
    ("squared distances between rows", "scales"),
    ("short circuits", "short circuits"),
    ("errors are not few", "errors"),
    ("closed", "shape"),
    ("loop", "shape"),
    ("constant", "flat axes"),
    ("of the plot", "crowding"),
    ("variance of ax", "ruled axes"),
    ("eighbors are kept", "neighbors kept"),
    ("eighbors in the layout", "neighbors kept"),
    ("patch", "patches"),
    ("PCA", "patches"),
    ("dimensions", "n_components"),
    ("rounded", "rounding"),
)
"""Words in a method's own advice, and the topic that they indicate; the first match counts."""
IMPERATIVES = ("Try", "Leave", "Take", "Use", "Raise", "Lower", "Set")  # first words of advice
MIN_CLEAR_GAP = 1.1
"""Ratio of the eigenvalues of the last axis shown and the first one left out from which they are distinguished."""
MIN_DISTINCT_RATIO = 1.05  # ratio of eigenvalues from which a small change cannot rotate one axis into another
N_COMPARED_NEIGHBORS_SHARE = 0.1  # neighbors compared, as a share of all points, where there are few points
MAX_SCORED_POINTS, MIN_SCORED_POINTS = 500, 50  # points compared: shares are known to 2 %, with a million points to 7 %
MAX_SCORED_PAIRS = 50_000_000  # pairs compared, so that large data takes seconds: 50 points of a million
MIN_KEPT_NEIGHBORS = 0.2  # share of the nearest neighbors kept below which a picture shows coarse groups only
MAX_MISSED_DIMENSION = 0.5  # by how much the dimension of the data may exceed that of the layout without a note


@dataclass(frozen=True)
class FittedModel:
    """A fitted estimator, its layout ``Y`` of the points that have coordinates, and the data if it is given."""

    model: Any
    Y: FloatArray
    profile: DataProfile | None
    run: Run

    @property
    def notes(self) -> dict[str, Any]:
        """What the method noted."""
        return dict(getattr(self.model, "diagnostics_", {}))


def own_advice(fitted: FittedModel) -> Iterator[Finding]:
    """Repeat the findings of the fit, or check the layout of another library's estimator in the same way."""
    if "advice" in fitted.notes:
        messages = list(problems(fitted.model))
    elif fitted.profile is not None:
        messages = list(findings(fitted.profile.X, fitted.Y, fitted.model, fitted.run))
    else:
        return
    reported_elsewhere = ["connected components"] + ["squared distances between rows"] * (fitted.profile is not None)
    counts: dict[str, int] = {}
    for message in messages:
        if any(words in message for words in reported_elsewhere):
            continue  # reported by `joined` and `_columns.scales`
        topic = next((topic for words, topic in TOPICS_OF_ADVICE if words in message), "advice")
        counts[topic] = counts.get(topic, 0) + 1
        text, advice = split_advice(message)
        yield problem(topic if counts[topic] == 1 else f"{topic} {counts[topic]}", text, _number(text), advice)


def split_advice(text: str) -> tuple[str, str]:
    """Return a finding of a method and its advice, which follows the last colon, semicolon or full stop."""
    text = text.rstrip(".")
    sentences = text.split(". ")
    if len(sentences) > 1 and sentences[-1].startswith(IMPERATIVES):
        return ". ".join(sentences[:-1]) + ".", sentences[-1][0].lower() + sentences[-1][1:]
    cut = max(text.rfind(": "), text.rfind("; "))
    if cut < 0:
        return f"{text}.", "compare with another method before you believe the picture"
    return f"{text[:cut]}.", text[cut + 2 :]


def _number(sentence: str) -> float:
    match = re.search(r"\d[\d,]*(?:\.\d+)?", sentence)
    return float(match[0].replace(",", "")) if match else float("nan")


def proofs(fitted: FittedModel) -> Iterator[Finding]:
    """Report what is proven."""
    advice = "it may still be a good layout; a smaller tol or more iterations can prove more"
    for name in (name for name in CERTIFICATES if hasattr(fitted.model, name)):
        certificate: Certificate = getattr(fitted.model, name)
        topic = name.strip("_").replace("_", " ")
        yield note(topic, certificate.sentence, certificate.gap, "" if certificate.optimal else advice)


def axes(fitted: FittedModel) -> Finding | None:
    """Whether the spectrum distinguishes the axes, and the last one from the first one left out."""
    spectrum = getattr(fitted.model, "spectrum_", None)
    p = fitted.Y.shape[1]
    if not isinstance(spectrum, Spectrum) or len(spectrum) < 2:
        return None
    ratios = _ratios(spectrum)
    if p < len(spectrum) and ratios[p - 1] < MIN_CLEAR_GAP:
        text = (
            "The last axis shown and the first one left out are nearly alike (eigenvalues differ by "
            f"{ratios[p - 1] - 1:.0%}): which of them is shown is arbitrary."
        )
        advice = f"look at n_components={p + 1}, or {p - 1}" if p > 1 else f"look at n_components={p + 1}"
        return note("axes", text, float(ratios[p - 1]), advice)
    alike = np.flatnonzero(ratios[: p - 1] < MIN_DISTINCT_RATIO)
    if len(alike):
        a = int(alike[0])
        text = (
            f"Axes {a + 1} and {a + 2} have nearly equal eigenvalues (they differ by {ratios[a] - 1:.1%}): neither "
            "has a meaning of its own, because a small change may rotate them into each other."
        )
        return note("axes", text, float(ratios[a]), "read the plane that they span, not the individual axes")
    return Finding("axes", "The axes are distinguished by their eigenvalues.", float(ratios[: max(p - 1, 1)].min()))


def _ratios(spectrum: Spectrum) -> FloatArray:
    """Return the ratios of consecutive eigenvalues, 1 or more; values that are 0 up to rounding count as equal."""
    sizes = np.maximum(np.abs(spectrum.values), np.finfo(float).eps * max(float(np.abs(spectrum.values).max()), 1e-300))
    higher, lower = (sizes[:-1], sizes[1:]) if spectrum.order == "largest" else (sizes[1:], sizes[:-1])
    return np.maximum(higher / lower, 1.0)


def convergence(fitted: FittedModel) -> Finding | None:
    """Why the iteration ended."""
    trace = getattr(fitted.model, "trace_", None)
    if trace is None or hasattr(fitted.model, "n_epochs"):  # a fixed number of epochs is not a limit that was reached
        return None
    done = trace.stop in (Stop.CONVERGED, Stop.COMPLETED)
    advice = "" if done else "raise max_iter, or let it run until it converges"
    return note("convergence", trace.stop.value, trace.n_iter, advice)


def joined(fitted: FittedModel) -> Finding | None:
    """Components of the fitted graph, and how they were joined."""
    count = fitted.notes.get("components")
    if not isinstance(count, int):
        return None
    if count == 1:
        return Finding("components", "The neighbor graph is connected.", 1)
    bridges, left_out = fitted.notes.get("bridges"), fitted.notes.get("left_out")
    if left_out is not None:
        how = f"of which only the largest is shown, without {left_out:,} points"
    elif bridges is not None:
        how = f"which were joined by {len(bridges)} bridge{'s' if len(bridges) != 1 else ''}"
    else:
        how = "which were placed side by side"
    text = f"The neighbor graph has {count} connected components, {how}: their relative positions are not shown."
    advice = "raise n_neighbors, or look at each component separately (disconnected='apart')"
    return problem("components", text, count, advice)


def search(fitted: FittedModel) -> Finding | None:
    """Whether the approximate search found most neighbors."""
    recall = fitted.notes.get("search_recall")
    if recall is None:
        return None
    good = recall >= MIN_SEARCH_RECALL
    sentence = f"The neighbor search found {recall:.1%} of the true neighbors."
    return note("search recall", sentence, recall, "" if good else "set search='exact'")


def dimensions(fitted: FittedModel) -> Finding | None:
    """Whether the data has more dimensions than the layout."""
    estimate = fitted.notes.get("dimension")
    p = fitted.Y.shape[1]
    if estimate is None or fitted.profile is not None:
        return None
    more = estimate.value > p + MAX_MISSED_DIMENSION
    text = f"The data has about {estimate.value:.1f} dimensions, the layout {p}."
    advice = f"read neighborhoods, not distances; as features use n_components={int(estimate)}" if more else ""
    return note("dimension", text, estimate.value, advice)


def figures(fitted: FittedModel) -> Finding | None:
    """Report how many neighbors the layout keeps, compared with PCA: the main metrics of a score, on a sample."""
    profile, p = fitted.profile, fitted.Y.shape[1]
    if profile is None or profile.metric not in ("euclidean", "precomputed") or not profile.enough:
        return None
    if len(fitted.Y) != profile.n:  # some points have no coordinates
        return None
    k = max(1, min(15, int(N_COMPARED_NEIGHBORS_SHARE * profile.n)))
    settings = {
        "n_neighbors": k,
        "metric": profile.metric,
        "sample": max(MIN_SCORED_POINTS, min(MAX_SCORED_POINTS, MAX_SCORED_PAIRS // profile.n)),
        "random_state": int(fitted.run.rng("score").integers(2**31)),
        "n_jobs": fitted.run.n_jobs,
    }
    metrics = rank_measures(profile.X, fitted.Y, **settings)
    share, baseline = float(metrics.knn_kept), ("", "")
    if not profile.pairwise and p < min(profile.X.shape):
        pca = rank_measures(profile.X, leading_scores(profile.X, p, fitted.run.rng("components")), **settings)
        baseline = (f" (PCA {pca.knn_kept:.0%})", f" (PCA {pca.trustworthiness:.3f})")
    few = share < MIN_KEPT_NEIGHBORS
    text = (
        f"{share:.0%} of the {k} nearest neighbors stay nearest{baseline[0]}; trustworthiness "
        f"{metrics.trustworthiness:.3f}{baseline[1]}."
    )
    advice = "read only coarse groups, not individual neighbors" if few else ""
    return note("quality", text, float(metrics.trustworthiness), advice)
