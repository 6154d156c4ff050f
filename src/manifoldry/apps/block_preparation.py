"""Rows in blocks made ready for a method: scaled and projected block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from manifoldry.apps.block_tables import BlockTable
from manifoldry.apps.fitting import Prepared
from manifoldry.apps.progress import Watch
from manifoldry.apps.task import EmbedTask
from manifoldry.base.blockwise import BlockFit
from manifoldry.blas import one_blas_thread
from manifoldry.blocks.local import LocalBlocks
from manifoldry.blocks.rows import BlockSample
from manifoldry.embedders.wrapped import PCA
from manifoldry.run import Progress, Run
from manifoldry.tables import preparation
from manifoldry.values import Array

PREPARED_SAMPLE = BlockFit().n_rows
"""Rows that medians and quartiles are taken of, and by which methods are compared: those that most fits sample, so that
one pass does for both."""

MAX_SCATTER_COLUMNS = 4096
"""Columns up to which principal components are those of all rows: the products of all pairs of columns take 128 MB."""


@dataclass(frozen=True)
class PreparedRows:
    """Fitted steps of a preparation as a map of blocks."""

    steps: Sequence[Any]

    def __call__(self, rows: Array, run: Run) -> Array:  # noqa: ARG002
        """Prepare a block of rows."""
        with one_blas_thread(openmp=False):
            for step in self.steps:
                rows = step.transform(rows)
        return rows


def with_steps(blocks: LocalBlocks, steps: Sequence[Any], sample: Array, seed: int) -> LocalBlocks:
    """Return blocks with steps applied; ``sample`` are some rows, or one, that they have been applied to."""
    if not steps:
        return blocks
    return blocks.mapped(PreparedRows(tuple(steps)), sample.shape[1], sample.dtype, None, Run(seed))


def prepare_blocks(
    task: EmbedTask, source: BlockTable, watch: Watch
) -> tuple[EmbedTask, Prepared, BlockSample, list[str]]:
    """Fit the preparation; return the task with its scale, the prepared rows in chunks, a sample of them, and remarks.

    Means and variances (``--scale standard``) and principal components of not too many columns are those of all rows,
    by a pass of their own; medians and quartiles are those of the sample.
    """
    blocks, run = source.blocks, Run(task.seed, callback=watch.callback)
    with run.stage("sample"):
        sample = blocks.sample(PREPARED_SAMPLE, run.rng("sampled rows"), run)
    task = task.scaled(sample.rows, source.features)
    steps = preparation(task.known_scale, task.pca, task.reading.missing == "impute", task.seed, X=sample.rows)
    X = sample.rows
    fitted: list[Any] = []
    told: list[str] = []
    for name, step in steps:
        if name == "scale" and task.scale == "standard":
            for start, rows in with_steps(blocks, fitted, X, task.seed).blocks():
                step.partial_fit(rows)
                watch.show(Progress("means and variances", start + len(rows), blocks.n_rows, 0.0))
        elif name == "pca" and not sample.whole and X.shape[1] <= MAX_SCATTER_COLUMNS:
            _fit_axes(step, with_steps(blocks, fitted, X, task.seed))
        else:
            step.fit(X)
            told += [SAMPLED_STEPS[name]] if name in SAMPLED_STEPS else []
        X = step.transform(X)
        fitted.append(step)
    if task.scale in ("unit", "log1p") and SAMPLED_STEPS["scale"] in told:
        told.remove(SAMPLED_STEPS["scale"])  # nothing was learned
    remarks = (
        [] if sample.whole or not told else [f"{', '.join(told).capitalize()} are those of {len(X):,} sampled rows."]
    )
    return task, Prepared(X, steps, with_steps(blocks, fitted, X, task.seed)), sample, remarks


def _fit_axes(step: Any, blocks: LocalBlocks) -> None:
    """Fit scikit-learn's principal components to all rows, as ours are: theirs take no blocks."""
    found = PCA(n_components=step.n_components, random_state=step.random_state).fit(blocks)
    for name in AXES_STATE:
        setattr(step, name, getattr(found, name))


AXES_STATE = (
    "mean_",
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "noise_variance_",
    "n_components_",
    "n_samples_",
    "n_features_in_",
)
"""What scikit-learn's principal components know once they are fitted."""

SAMPLED_STEPS = {
    "impute": "imputed medians",
    "scale": "medians and quartiles of the scaling",
    "pca": "the axes of --pca",
}
"""What is learned from a sample, by the name of the step."""
