"""The fit of an embedding: rows prepared, the method chosen if none is named, warnings kept."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

from manifoldry._core.warnings import EmbeddingWarning
from manifoldry.cli._advice import MIN_FOREWARNED_ROWS, forewarnings
from manifoldry.cli._flow.choice import choose
from manifoldry.cli._flow.column_remarks import class_labels
from manifoldry.cli._flow.task import EmbedTask, Fitted
from manifoldry.cli._method_names import AUTO_CLASS
from manifoldry.cli._progress import Watch
from manifoldry.data._chunked import RowBlocks
from manifoldry.data._tables import Table, preparation


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows after all preparation, its fitted steps, and all rows in blocks where ``X`` is a sample of them."""

    X: Any
    steps: list[tuple[str, Any]]
    blocks: RowBlocks | None = None


def fit(task: EmbedTask, table: Table, watch: Watch) -> Fitted:
    """Prepare the rows, choose the method if none is named, and fit it."""
    X, steps = table.X, preparation(task.known_scale, task.pca, task.reading.missing == "impute", task.seed, X=table.X)
    if steps:
        with watch.stage("prepare", "preparing the columns"):
            for _, step in steps:
                X = step.fit_transform(X)
    fitted = fit_prepared(task, table, Prepared(X, steps), watch)
    # Gaps that were kept are judged and shown at the values that the method expects there.
    return replace(fitted, X=fitted.model.impute(X)) if task.reading.missing == "keep" else fitted


def fit_prepared(task: EmbedTask, table: Table, prepared: Prepared, watch: Watch) -> Fitted:
    """Choose the method if none is named, and fit it to prepared rows; ``table`` tells what is known of those in X."""
    X = prepared.X
    if X.shape[1] == 1 and task.n_components is None and "n_components" not in task.parameters:
        task = replace(task, n_components=1)  # one column has no second dimension
    model, choice = task.estimator(), None
    targets = _targets(task, table, prepared)
    if task.units is not None and X.shape[0] >= MIN_FOREWARNED_ROWS:
        watch.tell(task.units.told)
    if task.scale == "none" and task.pca is None and task.reading.missing != "keep":
        for sentence in forewarnings(X, table.features, getattr(model, "metric", "euclidean")):
            watch.tell(sentence)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if task.method == AUTO_CLASS[0]:
            with watch.stage("choose", "comparing methods"):
                choice = choose(X, class_labels(table), model, watch)
            model = choice.model
        if "callback" in model.get_params():
            model.set_params(callback=watch.callback)
        with watch.stage("fit", f"fitting {type(model).__name__}"):
            model.fit(X if prepared.blocks is None else prepared.blocks, targets)
    if "callback" in model.get_params():
        model.set_params(callback=None)
    told = (
        str(each.message)
        for each in caught
        if issubclass(each.category, UserWarning) and not issubclass(each.category, EmbeddingWarning)  # advice, kept
    )
    return Fitted(X, prepared.steps, model, choice, tuple(dict.fromkeys(told)), targets is not None)


def _targets(task: EmbedTask, table: Table, prepared: Prepared) -> Any:
    """Return the labels where a ``target_weight`` asks for them: else they only judge and color.

    A method whose weight is 1 unless another is given has no purpose but its targets, and takes any label there is.
    """
    weight = task.parameters.get("target_weight")
    if weight is None:
        weight = table.labels is not None and getattr(task.estimator(), "target_weight", 0) == 1
    if not weight:
        return None
    if prepared.blocks is not None:
        raise ValueError("--target-weight needs a table that is read whole; leave it out, or embed a part of the rows.")
    if table.labels is None:
        raise ValueError("--target-weight is the weight of labels: name their column with --label.")
    labels = table.labels.astype(object)
    labels[[isinstance(label, str) and not label for label in labels]] = None
    return labels
