"""The refits of an estimator that `stability` compares: over seeds, over subsamples of the rows, over settings."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry.neighbors.search import DEFAULT_N_NEIGHBORS
from manifoldry.neighbors.shared import shared_neighbors
from manifoldry.quality.refitting import embed, seed_if_none, shown
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray

VARIATIONS = ("seed", "subsample", "settings")

SUBSAMPLE_SHARE = 0.8
"""Share of the rows in a subsample: enough to keep every cluster, and a fifth of everyone's neighbors are others."""

N_SAME_SEEDS = 2
"""Refits with other seeds that give the same picture bit for bit, after which the method is called deterministic. The
picture shown need not be that one: it may have been fitted to rows of single precision, or with another search."""

MAX_SETTING_FACTOR = 2.0
"""Settings are varied from one over this to this: the range in which users try."""

AUTO_PERPLEXITY, MIN_VARIED_SETTING = 30.0, 2
"""What "auto" is taken for, and the least value tried."""

Refit = tuple[IntArray, FloatArray]
"""The rows of a refit, ascending, and their picture."""


@dataclass
class Variations:
    """The refits of one estimator on one set of rows; ``auto_neighbors`` is what a fit has taken "auto" for."""

    estimator: Any
    X: Any
    n_refits: int
    run: Run
    settings: Mapping[str, Sequence[Any]] | None = None
    auto_neighbors: int = DEFAULT_N_NEIGHBORS

    def all(self, kinds: Sequence[str]) -> tuple[FloatArray, dict[str, list[Refit]]]:
        """Return the picture that is shown, and the refits of every kind asked for; fits of all rows share a search."""
        made: dict[str, list[Refit]] = {kind: [] for kind in kinds}
        # The first search finds what the shown picture asks for: a wider one may order equal distances otherwise.
        with shared_neighbors():
            Y, model = shown(self.estimator, self.X, self._seed(-1))
            if "seed" in made:
                made["seed"] = self._of_seeds(Y)
        self.auto_neighbors = getattr(model, "diagnostics_", {}).get("n_neighbors") or DEFAULT_N_NEIGHBORS
        if "settings" in made:
            with shared_neighbors(self._widest()):
                made["settings"] = self._of_settings()
        if "subsample" in made:
            made["subsample"] = [self._of_subsample(i) for i in range(self.n_refits)]
        return Y, made

    @property
    def grid(self) -> tuple[str, list[Any]]:
        """The parameter that is varied, and the values tried; no values if the estimator has none of the kind."""
        if self.settings is not None:
            if len(self.settings) != 1:
                raise ValueError(f"settings must hold the values of one parameter; got {list(self.settings)}.")
            name, values = next(iter(self.settings.items()))
            if name not in self.estimator.get_params() or not len(values):
                raise ValueError(
                    f"settings must hold values of a parameter of the estimator; got {name!r}: {values!r}."
                )
            return name, list(values)
        n = self.X.shape[0]
        params = self.estimator.get_params()
        factors = np.geomspace(1 / MAX_SETTING_FACTOR, MAX_SETTING_FACTOR, self.n_refits)
        usual = {"perplexity": (AUTO_PERPLEXITY, (n - 1) / 3), "n_neighbors": (self.auto_neighbors, n - 1)}
        for name, (auto, most) in usual.items():
            value = auto if params.get(name) == "auto" else params.get(name)
            if isinstance(value, numbers.Real):
                tried = np.clip(min(value, most) * factors, MIN_VARIED_SETTING, most)
                whole = name == "n_neighbors"
                return name, np.unique(np.round(tried).astype(int) if whole else tried.round(6)).tolist()
        return "", []

    @property
    def no_settings(self) -> str:
        """The sentence on an estimator without settings of the usual kind."""
        return f"{type(self.estimator).__name__} has neither perplexity nor n_neighbors to vary."

    def note(self, kind: str, made: list[Refit]) -> str:
        """Return in words what was varied."""
        if kind == "seed":
            if len(made) <= N_SAME_SEEDS and _same(made):
                return "every seed gives the same picture: the method is deterministic."
            return f"{len(made)} other seeds."
        if kind == "subsample":
            return f"{len(made)} times {SUBSAMPLE_SHARE:.0%} of the rows, without repeats."
        name, values = self.grid
        told = (
            f"{values[0]:.3g} to {values[-1]:.3g}"
            if isinstance(values[0], numbers.Real)
            else ", ".join(map(str, values))
        )
        return f"{name} {told} instead of {self.estimator.get_params()[name]}."

    def _seed(self, i: int) -> int:
        return int(self.run.rng(f"refit {i}").integers(2**31 - 1))

    def _fixed(self) -> dict[str, int]:
        """Return the seed of refits that vary something else: the estimator's own, or that of the shown picture."""
        return seed_if_none(self.estimator, self._seed(-1))

    def _widest(self) -> int:
        """Return how many neighbors the widest of the settings takes, so that one search serves all."""
        name, values = self.grid if self.settings is None else ("", [])
        return int((3 if name == "perplexity" else 1) * max(values, default=0)) + 1

    def _of_seeds(self, Y: FloatArray) -> list[Refit]:
        made: list[Refit] = []
        seeded = "random_state" in self.estimator.get_params()
        for i in range(self.n_refits):
            made.append(
                (
                    np.arange(len(Y)),
                    embed(self.estimator, self.X, **({"random_state": self._seed(i)} if seeded else {})),
                )
            )
            if len(made) == N_SAME_SEEDS and _same(made):
                break
        return made

    def _of_subsample(self, i: int) -> Refit:
        n = self.X.shape[0]
        rows = np.sort(self.run.rng(f"subsample {i}").permutation(n)[: int(np.ceil(SUBSAMPLE_SHARE * n))])
        return rows, embed(self.estimator, self.X[rows], **self._fixed())

    def _of_settings(self) -> list[Refit]:
        name, values = self.grid
        rows = np.arange(self.X.shape[0])
        return [(rows, embed(self.estimator, self.X, **{**self._fixed(), name: value})) for value in values]


def _same(made: list[Refit]) -> bool:
    """Tell whether all refits gave the same picture."""
    return bool(made) and all(np.array_equal(picture, made[0][1]) for _, picture in made)
