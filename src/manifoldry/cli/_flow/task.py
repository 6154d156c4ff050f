"""What is to be embedded, how, and where the results go; and what was fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from manifoldry._core.parameters import check_parameters
from manifoldry._core.values import Array
from manifoldry.cli._flow.choice import Choice
from manifoldry.cli._flow.outputs import Outputs
from manifoldry.cli._flow.scaling import AskedScale, MixedUnits, resolved_scale
from manifoldry.cli._method_names import AUTO_CLASS, method_class
from manifoldry.data._tables import ReadOptions
from manifoldry.data._tables.preparation import Scale

PATH_PURPOSE = "order along a path"
"""The purpose whose result is one coordinate."""


@dataclass(frozen=True)
class EmbedTask:
    """What is to be embedded, how, and where the results go.

    Parameters
    ----------
    source : str
        A file, a folder of images, the name of a built-in data set, or "-" for standard input.
    outputs : Outputs
        Where the results go.
    method : str
        Name of a method's class, or "AutoEmbedding" for the best of several.
    parameters : mapping
        Its parameters, beside the dimension, the seed and the threads.
    reading : ReadOptions
        How the source is read.
    scale, pca
        How the rows are prepared, see `tables.preparation`; "auto" standardizes columns of mixed units.
    units : MixedUnits, optional
        Why the columns are standardized, if "auto" came to that.
    n_components : int, optional
        Target dimension; 2 if None, 1 for a curve or an order along a path.
    seed, n_jobs
        Of the fit.
    blocks : bool, optional
        Whether the source is read in blocks; by its size if None.
    resume : bool
        Whether to go on with a run in blocks that did not end.
    command : sequence of str
        The arguments that asked for it, for the record.
    """

    source: str
    outputs: Outputs
    method: str = AUTO_CLASS[0]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    reading: ReadOptions = field(default_factory=ReadOptions)
    scale: AskedScale = "none"
    pca: int | None = None
    units: MixedUnits | None = None
    n_components: int | None = None
    seed: int = 0
    n_jobs: int | None = None
    blocks: bool | None = None
    resume: bool = False
    command: Sequence[str] = ()

    @property
    def dimension(self) -> int:
        """The target dimension."""
        if self.n_components is not None:
            return self.n_components
        line = self.parameters.get("purpose") == PATH_PURPOSE or self.method == "PrincipalCurve"
        return 1 if line else 2

    def scaled(self, X: Array, names: Sequence[str]) -> EmbedTask:
        """Return the same task with "auto" replaced by how these rows, or those that they stand for, are scaled."""
        model = self.estimator()
        scale, units = resolved_scale(
            self.scale,
            X,
            names,
            getattr(model, "metric", "euclidean"),
            nonnegative=get_tags(model).input_tags.positive_only,
        )
        return replace(self, scale=scale, units=units or self.units)

    @property
    def known_scale(self) -> Scale:
        """How the rows are scaled, once that is known."""
        if self.scale == "auto":
            raise ValueError("How the rows are scaled depends on them: call scaled() first.")
        return self.scale

    def estimator(self) -> Any:
        """Return the estimator that is asked for, with its parameters checked as far as they do not need data."""
        model = new_estimator(self.method, self.parameters, self.dimension, self.seed, self.n_jobs)
        if hasattr(model, "callback"):
            check_parameters(model)
        if self.reading.missing == "keep":
            self._refuse_gaps(model)
        return model

    def _refuse_gaps(self, model: Any) -> None:
        """Refuse to keep missing values for a method, or a preparation, that needs all of them."""
        if not get_tags(model).input_tags.allow_nan:
            method = "a comparison" if self.method == AUTO_CLASS[0] else self.method
            raise ValueError(
                f"--missing keep needs a method that accepts missing values, --method probabilisticpca; {method} "
                "needs complete rows: use --missing drop or impute."
            )
        if self.pca is not None or self.scale == "unit":
            asked = "--scale unit" if self.pca is None else "--pca"
            raise ValueError(f"{asked} needs complete rows; leave it out, or use --missing drop or impute.")


def new_estimator(method: str, parameters: Mapping[str, Any], n_components: int, seed: int, n_jobs: int | None) -> Any:
    """Return a method by the name of its class, with dimension, seed and threads where it takes them; not fitted."""
    cls: Any = method_class(method)
    taken = cls().get_params()
    own = {"n_components": n_components, "random_state": seed, "n_jobs": n_jobs}
    return cls(**{**{name: value for name, value in own.items() if name in taken}, **parameters})


@dataclass(frozen=True, eq=False)
class Fitted:
    """Prepared rows and what was fitted to them.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        The rows after all preparation.
    steps : list of pairs of a name and a transformer
        The preparation, fitted.
    model : estimator
        The method, fitted to ``X``.
    choice : Choice, optional
        How the method was chosen.
    warnings : tuple of str
        What the fit warned of.
    targets : bool
        Whether the labels were targets of the fit.
    """

    X: Any
    steps: list[tuple[str, Any]]
    model: Any
    choice: Choice | None = None
    warnings: tuple[str, ...] = ()
    targets: bool = False

    @property
    def whole(self) -> Any:
        """The estimator that takes rows as they are read: a pipeline, or the method itself if nothing is prepared."""
        return Pipeline([*self.steps, ("embedding", self.model)]) if self.steps else self.model

    @property
    def panels(self) -> dict[str, Any]:
        """The embeddings to show side by side: the result, and the methods that it was compared with on all rows."""
        shown = {type(self.model).__name__: self.model}
        if self.choice is not None and self.choice.whole:
            for entry in self.choice.comparison.ranking:
                shown.setdefault(entry.name, entry.estimator)
        return shown
