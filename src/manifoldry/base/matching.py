"""Methods that match probabilities of being neighbors: SNE and its kin, from lists to a layout."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from manifoldry import check
from manifoldry.base.embedder import count_points
from manifoldry.base.estimator import estimator
from manifoldry.base.neighbors import NeighborEmbedder
from manifoldry.extend.matched import MatchedPlacement
from manifoldry.geometry.entropic import REACH, Choices, fixed_choices, negative_entropy, perplexity_choices
from manifoldry.run import Run
from manifoldry.solve.descent import Momentum, Phase, descend
from manifoldry.solve.divergence import Divergence
from manifoldry.solve.fields import Field, Profile, choose_field
from manifoldry.solve.order import local_order, renumbered
from manifoldry.values import Embedding, FloatArray, NeighborGraph

USUAL_PERPLEXITY = 30.0
EXACT_VALUE = 20_000
"""Points up to which the divergence reached is computed from all pairs, in half a second."""
LOOK = 50
"""Steps between two looks at the divergence."""
GENTLE_MOMENTUM, MOMENTUM = 0.8, 0.95
"""With exaggerated affinities, and without. MNIST, 5,000 digits: 150 steps of the second reach what takes 450 steps
with 0.8."""
LONGEST = 5.0
"""Longest move of a coordinate in one step."""


@estimator
class MatchingEmbedder(NeighborEmbedder):
    """Base of SNE and its kin: affinities with a perplexity, a divergence, and its descent by phases."""

    perplexity: Any = "auto"
    bandwidth: Any = None
    n_neighbors: int | str = "auto"
    learning_rate: float | str = "auto"
    max_iter: int = 1000
    tol: float = 5e-3
    forces: str = "auto"
    accuracy: float | None = None

    _divergence: ClassVar[type[Divergence]]
    _width = 1e-4
    """Standard deviation of a start that is not given."""

    @property
    @abstractmethod
    def _profile(self) -> Profile:
        """The kernel of the layout."""

    @abstractmethod
    def _phases(self, divergence: Divergence, start: FloatArray) -> list[Phase]:
        """Return what is to be done."""

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        for wanted in self._perplexities(n_points):
            check.number("perplexity", wanted, 1.0)
            if wanted > n_points - 1:
                raise ValueError(
                    f"perplexity must be at most n - 1 = {n_points - 1}, that of choosing among all other points; got "
                    f"{wanted:g}: a third of it is the most that is useful."
                )
        if self.bandwidth is not None:
            sigma = np.asarray(self.bandwidth, dtype=np.float64)
            if sigma.shape not in ((), (n_points,)) or not np.isfinite(sigma).all() or sigma.min() <= 0:
                raise ValueError(
                    f"bandwidth must be a positive number, or one for each of the {n_points} points; got "
                    f"{self.bandwidth!r}."
                )
        if self.n_neighbors != "auto":
            listed = check.integer("n_neighbors", self.n_neighbors, 1, n_points - 1, f" for {n_points} points")
            self._refuse_short_lists(listed, n_points)
        if self.learning_rate != "auto":
            check.number("learning_rate", self.learning_rate, 0.0, open_low=True)
        check.integer("max_iter", self.max_iter, 1)
        check.number("tol", self.tol, 0.0)
        check.choice("forces", self.forces, ("auto", "exact", "tree", "grid"))
        if self.accuracy is not None:
            check.number("accuracy", self.accuracy, 0.0, open_low=True)
        self._field(n_points)

    def _field(self, n_points: int) -> Field:
        return choose_field(self._profile, n_points, self.n_components, forces=self.forces, accuracy=self.accuracy)

    def _perplexities(self, n_points: int) -> list[float]:
        if isinstance(self.perplexity, str):
            check.choice("perplexity", self.perplexity, ("auto",))
            return [max(1.0, min(USUAL_PERPLEXITY, (n_points - 1) / REACH))]
        if isinstance(self.perplexity, numbers.Real):
            return [float(self.perplexity)]
        wanted = list(self.perplexity) if isinstance(self.perplexity, (Sequence, np.ndarray)) else []
        if not wanted:
            raise ValueError(f"perplexity must be a number, several, or 'auto'; got {self.perplexity!r}.")
        return wanted

    def _perplexity_of_new(self, n_points: int) -> float:
        """Return the perplexity with which new points choose among the fitted ones."""
        return min(self._perplexities(n_points))

    def _n_listed(self, n_points: int) -> int:
        if self.n_neighbors != "auto":
            return int(self.n_neighbors)
        return min(n_points - 1, int(np.ceil(REACH * max(self._perplexities(n_points)))))

    def _refuse_short_lists(self, listed: int, n_points: int) -> None:
        """Refuse lists that are too short to choose from as the user asked."""
        wanted = max(self._perplexities(n_points))
        if self.bandwidth is None and not isinstance(self.perplexity, str) and listed < wanted:
            raise ValueError(
                f"perplexity {wanted:g} needs lists of at least that many neighbors; got {listed}: list about three "
                "times as many."
            )

    def _choices(self, graph: NeighborGraph, run: Run) -> Choices:
        if self.bandwidth is not None:
            return fixed_choices(graph, self.bandwidth)
        wanted = self._perplexities(graph.n_points)
        listed = int(np.median(graph.degrees))
        self._refuse_short_lists(listed, graph.n_points)
        if isinstance(self.perplexity, str):  # of short lists, as a given graph may have, what they can give
            wanted = [max(1.0, min(wanted[0], listed / REACH))]
        return perplexity_choices(graph, wanted, run)

    def _rate(self, degrees: FloatArray, exaggeration: float) -> float | FloatArray:
        """Return the step length, or each point's.

        A point that many choose is held by many springs, and a step that suits the others would overshoot. With
        springs as usual it is twice the usual n / exaggeration, which is for a gradient without the factor 4.
        """
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        n = len(degrees)
        rates: FloatArray = n / (2.0 * exaggeration * np.maximum(n * degrees, 1.0)[:, None])
        return rates

    def _phase(self, name: str, divergence: Divergence, steps: int, exaggeration: float = 1.0) -> Phase:
        """Return a phase of momentum steps; what is looked at is the divergence from the affinities as they are."""
        gentle = exaggeration > 1
        mover = Momentum(
            lambda Y: divergence.gradient(Y, exaggeration),
            divergence.value,
            self._rate(divergence.degrees, exaggeration),
            GENTLE_MOMENTUM if gentle else MOMENTUM,
            "each" if gentle else "whole",
            LONGEST,
        )
        return Phase(name, mover, steps, 0.0 if gentle else self.tol, LOOK)

    def _embed(self, X: Any, run: Run) -> Embedding:
        graph, index = self._lists(X, self._n_listed(count_points(X)), run)
        n = graph.n_points
        choices = self._choices(graph, run)
        joint = choices.joint()
        information, bandwidths, missed = self._information(choices, joint), choices.bandwidths, choices.missed
        del choices  # as large as the graph
        Y = self._start(X, joint, run)
        if isinstance(self.init, str):
            Y *= self._width
        field = self._field(n)
        # Passes over all affinities are exact for few points, and else spend their time on fetching coordinates.
        order = np.arange(n) if field.exact else local_order(joint)
        affinities = joint if field.exact else renumbered(joint, order)
        divergence = self._divergence(affinities, information, self._profile, field, run)
        with run.stage("descent"):
            moving = Y[order]
            trace = descend(moving, self._phases(divergence, moving), run)
            Y[order] = moving
        value, how = self._reached(divergence, moving, affinities, run)
        return Embedding(
            Y,
            graph=graph,
            trace=trace,
            extension=MatchedPlacement.of(index, Y, self._profile, self._perplexity_of_new(n), run),
            notes={
                **index.notes,
                "perplexity_missed": missed,
                "forces": field.name,
                "kl_divergence": how,
                "stop": trace.stop.value,
            },
            fitted={"kl_divergence_": value, "affinity_": joint, "bandwidths_": bandwidths},
        )

    def _reached(self, divergence: Divergence, Y: FloatArray, affinities: csr_array, run: Run) -> tuple[float, str]:
        """Return the divergence reached, and whether it was summed over all pairs."""
        if not divergence.field.exact and len(Y) <= EXACT_VALUE:
            pairs = choose_field(self._profile, len(Y), self.n_components, forces="exact")
            divergence = self._divergence(affinities, divergence.information, self._profile, pairs, run)
        return divergence.value(Y), "exact" if divergence.field.exact else f"estimated ({divergence.field.name})"

    def _information(self, choices: Choices, joint: csr_array) -> float:  # noqa: ARG002
        """Return the sum of p ln p of the joint probabilities."""
        return negative_entropy(joint.data)
