"""Which method, if none is named: several are compared for a purpose, and the best is fitted by itself afterwards."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from manifoldry._core.registry import list_methods
from manifoldry._core.run import Run
from manifoldry._core.values import Array
from manifoldry.cli._progress import Watch
from manifoldry.evaluation.selection._auto import AutoEmbedding
from manifoldry.evaluation.selection._candidates import growth
from manifoldry.evaluation.selection._compare import MAX_RANKED_ROWS, ranked_rows
from manifoldry.evaluation.selection._comparison import Comparison
from manifoldry.evaluation.selection._objectives import PURPOSES

MAX_QUADRATIC_ROWS = MAX_RANKED_ROWS
"""Rows up to which a method that grows with their square is tried: seconds, and less than a gigabyte."""

MAX_LINEAR_ROWS = 100_000
"""Rows up to which any other method is tried, unless it is named below: a minute or two on two cores."""

MAX_ROWS_OF: Mapping[str, float] = {
    "IPA": np.inf,
    "LPP": np.inf,
    "PrincipalCurve": 1_000_000,
    "TSNE": 200_000,
    "UMAP": 500_000,
}
"""Rows up to which methods that are made for many are tried: a few minutes on two cores at the most."""

ALWAYS_POSSIBLE = "IPA"
"""The method beside PCA that is compared where there are too many rows for all of the purpose."""


@dataclass(frozen=True)
class Choice:
    """The method that was chosen: an estimator that is not fitted, the comparison behind it, and what was left out.

    Parameters
    ----------
    model : estimator
        The best method with the settings it was compared with.
    comparison : Comparison
        Of all rows, or of a sample of them.
    left_out : tuple of str
        Methods of the purpose that were not tried on so many rows.
    whole : bool
        Whether all rows were compared, and not a sample.
    """

    model: Any
    comparison: Comparison
    left_out: tuple[str, ...]
    whole: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the choice for a record: purpose, rows, ranking with the figures that decide, and the reasons."""
        found = self.comparison
        figures = [criterion.figure for criterion in found.purpose.criteria]
        return {
            "purpose": found.purpose.name,
            "rule": found.purpose.rule,
            "rows": len(found.rows),
            "whole": self.whole,
            "n_neighbors": found.n_neighbors,
            "ranking": [
                {"method": each.name, **{name: each.score.get(name) for name in figures}, "seconds": each.seconds}
                for each in found.ranking
            ],
            "reasons": [*found.best.reasons, *found.verdicts],
            "skipped": {each.name: each.reason for each in found.skipped},
            "left_out": list(self.left_out),
        }


def choose(X: Any, labels: Array | None, auto: AutoEmbedding, watch: Watch) -> Choice:
    """Compare the methods of a purpose on the rows, or a sample of them, without a clock unless one is asked for.

    Ctrl-C ends the comparison with the methods done so far; a second one raises.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        The prepared rows.
    labels : ndarray of shape (n,), optional
        Their classes, for the purposes that are judged by them.
    auto : AutoEmbedding
        With purpose, dimension, metric, seed and threads; not fitted.
    watch : Watch
        Hears the fits.
    """
    n = X.shape[0]
    labels = usable_labels(labels)
    if labels is None and "labels" in PURPOSES[auto.purpose].needs:
        raise ValueError(
            f'Methods that give "{auto.purpose}" are scored with the class of every row: name its column with --label. '
            "It needs at least two classes, no missing ones, and fewer classes than rows."
        )
    tried, left_out = methods_for(auto.purpose, n)
    if n > MAX_RANKED_ROWS:
        rows = ranked_rows(n, Run(auto.random_state))
        X, labels = X[rows], None if labels is None else labels[rows]
    model = clone(auto).set_params(methods=tried, callback=watch.callback)
    with stopping(watch):
        model.fit(X, labels)
    best = clone(model.best_estimator_)
    settings = {"random_state": auto.random_state, "n_jobs": auto.n_jobs}
    best.set_params(**{name: value for name, value in settings.items() if name in best.get_params()})
    return Choice(best, model.comparison_, left_out, whole=n <= MAX_RANKED_ROWS)


def usable_labels(labels: Array | None) -> Array | None:
    """Return the classes of the rows, if every row has one."""
    if labels is None or len(np.unique(labels)) < 2:
        return None
    missing = np.isnan(labels) if labels.dtype.kind == "f" else labels == ""
    return None if np.any(missing) else labels


def methods_for(purpose: str, n: int) -> tuple[list[str], tuple[str, ...]]:
    """Return the methods of a purpose to try on so many rows, and those that would take too long to fit to them.

    Examples
    --------
    >>> methods_for("keep neighbors", 1_000_000)
    (['IPA'], ('TSNE', 'UMAP', 'Isomap', 'LTSA', 'SymmetricSNE', 'LaplacianEigenmaps'))
    """
    cards = {card.name: card for card in list_methods()}

    def most(name: str) -> float:
        usual = MAX_LINEAR_ROWS if growth(cards[name]) < 2 else MAX_QUADRATIC_ROWS
        return MAX_ROWS_OF.get(name, usual)

    wanted = PURPOSES[purpose].methods
    tried = [name for name in wanted if n <= most(name)]
    return tried or [ALWAYS_POSSIBLE], tuple(name for name in wanted if name not in tried)


@contextmanager
def stopping(watch: Watch) -> Iterator[None]:
    """Let Ctrl-C ask all that ``watch`` hears to stop; a second one raises. Only the main thread hears of it."""
    usual = signal.default_int_handler
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is usual

    def ask(*_: Any) -> None:
        if watch.asked_to_stop:
            raise KeyboardInterrupt
        watch.asked_to_stop = True

    if ours:
        signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, usual)
        watch.asked_to_stop = False
