"""What the kernel does to EAT: ten polynomial degrees and ten widths, from full rank to hardly any."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist

from harness import Lab, Reason, experiment, main
from layouts import UNFOLDED, error
from manifoldry import EAT, datasets
from rules import at_least, at_most, no_less, shown

DEGREES = range(1, 11)
WIDTHS = (1 / 3, 1 / 2, 2 / 3, 1, 2, 3, 5, 10, 20, 50)
N_NEIGHBORS = 6
"""The default of EAT; widths are in units of the mean distance of neighbors, and their number is not stated."""
HEIGHT, UNIT = 8.0, 10.0
SLACK = 3e-2
"""Relative slack of the kept squared distances.

The nine maps of degree 2 unroll the surface with an error of 1e-6, as the arc length of this spiral is nearly half the
squared radius. But they cannot keep the chords between neighbors, which are shorter than the arcs. With the default of
1e-4 and with 1e-2 the error of degree 2 is above 0.4, with 3e-2 it is 0.006; with 3 neighbors, whose chords are closer
to the arcs, 1e-3 is enough.
"""
CUTOFF = 1e-3
"""Directions of the kernel below this share of its largest eigenvalue are left out in the test of the reason."""
CHOSEN = (
    f"a grid on a roll of height {HEIGHT:g}, lengths divided by {UNIT:g} and a slack of {SLACK:g} of the kept squared "
    "distances were chosen to show the picture: none is stated, and high degrees need numbers about 1"
)


@experiment("Kernels of EAT on the Swiss roll", source="khajehpour2013, Fig. 2.7-2.8", quick=True, seeds=5)
def eat_kernels(lab: Lab) -> None:
    roll = datasets.swiss_roll(102, grid=True, height=HEIGHT, random_state=lab.seed)
    new = datasets.swiss_roll(1000, height=HEIGHT, random_state=lab.seed)
    X, truth, others, places = (rows / UNIT for rows in (roll.X, roll.truth, new.X, new.truth))
    unit = EAT(n_neighbors=N_NEIGHBORS).fit(X).diagnostics_["gamma"] ** -0.5
    families = {
        "poly": [EAT(kernel="poly", degree=p, n_neighbors=N_NEIGHBORS, slack=SLACK).fit(X) for p in DEGREES],
        "rbf": [_rbf(w * unit).fit(X) for w in WIDTHS],
    }
    errors = {}
    for name, models in families.items():
        learned = np.array([error(model.embedding_, truth) for model in models])
        placed = np.array([error(model.transform(others), places) for model in models])
        errors[name] = learned, placed
        ratios = [round(model.rank_ratio_, 2) for model in models]
        lab.note(f"{name}: rank over n - 1 {shown(ratios)}; errors {shown(learned)}; of new points {shown(placed)}.")
        _draw(lab, name, models, truth, others, places)
    with lab.fitted(CHOSEN):
        _judge_degrees(lab, families["poly"], *errors["poly"])
        _judge_widths(lab, families["rbf"], *errors["rbf"], lambda: _cut_error(X, truth, 20 * unit))


def _rbf(width: float) -> EAT:
    return EAT(kernel="rbf", gamma=width**-2, n_neighbors=N_NEIGHBORS, slack=SLACK)


def _judge_degrees(lab: Lab, models: list, learned: np.ndarray, placed: np.ndarray) -> None:
    lab.claim("degree 1: rigid error", float(learned[0]), at_least(UNFOLDED, "not unfolded"))
    lab.claim("degree 1: of new points", float(placed[0]), at_least(UNFOLDED, "also failed"))
    lab.claim(
        "degrees 2 to 10: largest error", float(learned[1:].max()), at_most(UNFOLDED, "the same proper embeddings")
    )
    lab.claim(
        "degrees 2 to 10: of new points", float(placed[1:].max()), at_most(UNFOLDED, "the same proper embeddings")
    )
    ratios = [model.rank_ratio_ for model, ours in zip(models, learned, strict=True) if ours <= UNFOLDED]
    lab.claim("smallest rank over n - 1 that unfolds", min(ratios, default=1.0), at_most(0.1))


def _judge_widths(
    lab: Lab, models: list, learned: np.ndarray, placed: np.ndarray, cut_error: Callable[[], float]
) -> None:
    lab.claim("widths below 1: smallest rank over n - 1", models[2].rank_ratio_, at_least(1.0, within=0.02))
    lab.claim("widths below 1: largest error", float(learned[:3].max()), at_most(UNFOLDED, "faithful"))
    lab.claim("widths below 1: least error of new points", float(placed[:3].min()), at_least(UNFOLDED, "failed"))
    lab.claim("width 1: rank over n - 1", models[3].rank_ratio_, at_least(1.0, "close to full rank", within=0.05))
    lab.claim("width 1: error", float(learned[3]), at_most(UNFOLDED, "a proper embedding"))
    lab.claim("width 1: error of new points", float(placed[3]), at_most(UNFOLDED, "avoids over-fitting"))
    counted = Reason(
        f"directions of the kernel count down to 1e-10 of the largest here; without those below {CUTOFF:g} the error "
        "at width 20",
        cut_error,
        no_less(UNFOLDED),
    )
    lab.claim("widths 20 and 50: least error", float(learned[8:].min()), at_least(UNFOLDED, "not able"), reason=counted)


def _cut_error(X: np.ndarray, truth: np.ndarray, width: float) -> float:
    """Return the error with a kernel of only those directions that low precision would count."""
    center = np.eye(len(X)) - 1 / len(X)
    values, vectors = np.linalg.eigh(center @ np.exp(-(cdist(X, X) ** 2) / width**2) @ center)
    kept = values > CUTOFF * values.max()
    K = vectors[:, kept] * values[kept] @ vectors[:, kept].T
    model = EAT(kernel="precomputed", distances=cdist(X, X), n_neighbors=N_NEIGHBORS, slack=SLACK)
    return error(model.fit(K).embedding_, truth)


def _draw(lab: Lab, name: str, models: list, truth: np.ndarray, others: np.ndarray, places: np.ndarray) -> None:
    with lab.figure(name, size=(14, 3.2)) as figure:
        for (top, bottom), model in zip(figure.subplots(2, 10).T, models, strict=True):
            top.scatter(*model.embedding_.T, c=truth[:, 0], s=4, linewidths=0)
            bottom.scatter(*model.transform(others).T, c=places[:, 0], s=1, linewidths=0)
            top.set_title(f"{model.rank_ratio_:.2f}")
            for axes in (top, bottom):
                axes.set_xticks([])
                axes.set_yticks([])


if __name__ == "__main__":
    main(eat_kernels)
