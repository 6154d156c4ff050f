"""Estimators and rows in blocks: what a fit takes account of, and how a fitted map goes to the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config

from manifoldry._core.run import Run
from manifoldry._core.values import Array
from manifoldry.data._chunked import BlockSample, RowBlocks, entries_of
from manifoldry.data._chunked.local import LocalBlocks

MAP_PARAMETERS = ("n_components", "metric", "metric_params", "verbose")
"""Parameters that an estimator needs to place new rows; others may be as large as the data."""

MAX_SAMPLE_ENTRIES = 2**27
"""Entries (rows times columns) that the sample of a fit has at most: a gigabyte in double precision, up to three times
that while it is drawn. Of rows with more than 1,342 columns fewer than 100,000 are drawn."""

QUIET: dict[str, Any] = {"callback": None, "n_jobs": 1, "_sklearn_output_config": {}}
"""What an estimator has that only places rows in blocks: it reports to nobody, and returns arrays."""


@dataclass(frozen=True)
class BlockFit:
    """What an estimator does with rows in blocks.

    ``kind`` is "whole" where a fit takes account of every row, "sample" where it takes a sample of ``n_rows`` and the
    others are only placed, "no" where that makes no sense: then ``instead`` is a sentence that says what does. A fit to
    ``n_rows`` takes up to a minute of two cores and less than two gigabytes. ``sums`` tells whether a fit to all rows
    adds up something over them, by a second pass.
    """

    kind: Literal["whole", "sample", "no"] = "sample"
    n_rows: int = 20_000
    instead: str = ""
    sums: bool = True

    def __str__(self) -> str:
        return {"whole": "all rows", "sample": f"a sample of {self.n_rows:,}", "no": f"no: {self.instead}"}[self.kind]


def draw_sample(model: Any, blocks: RowBlocks, size: int, run: Run) -> BlockSample:
    """Return the sample of a fit, of at most ``size`` rows; refuse methods that cannot be fitted to rows in blocks.

    Of very wide rows it is less, so that memory is bounded.
    """
    refuse_method(model)
    size = bounded_size(size, blocks.n_features)
    if model._blockwise.kind == "whole" and model._blockwise.sums and isinstance(blocks, LocalBlocks) and blocks.once:
        blocks.most_rows = size  # refused when there are more, not when all have been read in vain
    with run.stage("sample"):
        return blocks.sample(size, run.rng("sampled rows"), run)


def refuse_method(model: Any) -> None:
    """Refuse methods that cannot be fitted to rows in blocks."""
    name = type(model).__name__
    if getattr(model, "_pairwise", False):
        pairs = f"metric={model.metric!r}" if getattr(model, "kernel", "") != "precomputed" else "kernel='precomputed'"
        raise ValueError(f"{name} with {pairs} needs all pairs in memory; rows in blocks have none.")
    if model._blockwise.kind == "no":
        raise ValueError(
            f"{name} cannot be fitted to rows in blocks: {model._blockwise.instead} Or fit a sample and place the "
            "others: model.fit(manifoldry.row_blocks(X).sample(300, numpy.random.default_rng(0)).rows), then "
            "model.transform(X)."
        )


def bounded_size(size: int, n_features: int) -> int:
    """Return the rows of a sample: ``size``, or as many as `MAX_SAMPLE_ENTRIES` allows."""
    return min(size, MAX_SAMPLE_ENTRIES // n_features)


def fit_sample(model: Any, blocks: RowBlocks) -> BlockSample:
    """Return the sample that a fit of the model to rows in blocks takes: the rows of ``sampled_rows_``."""
    size = model._sample_size() if hasattr(model, "_sample_size") else model._blockwise.n_rows
    return draw_sample(model, blocks, size, model._run())


def sampled_targets(y: Any, sample: BlockSample) -> Any:
    """Return the targets of the sampled rows."""
    return entries_of(y, sample, "y")


def keep_sample(model: Any, blocks: RowBlocks, sample: BlockSample) -> None:
    """Leave behind which rows a fit took as its sample, and say so in words."""
    model.sampled_rows_ = sample.numbers
    if blocks.feature_names is not None:
        model.feature_names_in_ = np.asarray(blocks.feature_names, dtype=object)
    m, n = len(sample.numbers), sample.n_rows
    if sample.whole:
        said = f"all {n:,} rows"
    elif model._blockwise.kind == "whole":
        said = f"all {n:,} rows; what is left of single rows is that of a sample of {m:,}"
    else:
        rest = "transform places" if hasattr(model, "transform") else "predict labels"
        said = (
            f"a sample of {m:,} of {n:,} rows; {rest} the others. Neighbors are those in the sample, and a group of "
            f"fewer than {seen_size(m, n):,} rows may have none there"
        )
    model.diagnostics_["fitted_to"] = said


def seen_size(n_sampled: int, n_rows: int) -> int:
    """Return how many rows a group needs so that a sample has one of them, but for one sample in a hundred.

    Examples
    --------
    >>> seen_size(100_000, 10_000_000)
    459
    """
    return int(np.ceil(np.log(0.01) / np.log1p(-n_sampled / n_rows)))


def map_blocks(model: Any, method: str, blocks: RowBlocks) -> Any:
    """Return what a method of a fitted estimator makes of every block, in the form that the blocks came in.

    Only what the map needs goes along with the blocks.
    """
    n_columns, dtype, names = model._output_of(method)
    _refuse_columns(model, method, blocks)
    place = ShippedMap(model._map_alone(method), method, np.dtype(dtype))
    return blocks.mapped(place, n_columns, dtype, names, model._run())


@dataclass(frozen=True)
class ShippedMap:
    """A method of a fitted estimator that holds only what it needs to place new rows: picklable, and small."""

    model: Any
    method: str
    dtype: np.dtype[Any]

    @property
    def name(self) -> str:
        """What the tasks of this map are called."""
        return f"{type(self.model).__name__}.{self.method}"

    def __call__(self, rows: Array, run: Run) -> Array:
        """Place a block of rows: dense, and of the type that a fit announced."""
        if hasattr(self.model, "n_jobs"):
            self.model.n_jobs = run.n_jobs
        made = getattr(self.model, self.method)(rows)
        return np.asarray(made.toarray() if issparse(made) else made, dtype=self.dtype)


def bare(model: Any, kept: Iterable[str], **replaced: Any) -> Any:
    """Return an estimator of the same class with only some attributes, and no wish for progress or another output."""
    alone = object.__new__(type(model))
    own = {name: _as_sent(value) for name, value in vars(model).items() if name in kept}
    vars(alone).update({**own, **{name: value for name, value in QUIET.items() if hasattr(model, name)}, **replaced})
    return alone


def _as_sent(value: Any) -> Any:
    """Return a strided array as another process would get it, in one piece: the bits of products depend on that."""
    strided = isinstance(value, np.ndarray) and not (value.flags.c_contiguous or value.flags.f_contiguous)
    return np.ascontiguousarray(value) if strided else value


def _refuse_columns(model: Any, method: str, blocks: RowBlocks) -> None:
    """Refuse blocks of other columns than those of the fit, and an output that would have to be gathered."""
    wanted = model._output_of("transform")[0] if method == "inverse_transform" else model.n_features_in_
    if blocks.n_features != wanted:
        raise ValueError(
            f"{type(model).__name__}.{method} needs blocks of {wanted} columns; these have {blocks.n_features}."
        )
    fitted = getattr(model, "feature_names_in_", None)
    if method != "inverse_transform" and fitted is not None and blocks.feature_names is not None:
        if list(fitted) != list(blocks.feature_names):
            raise ValueError(
                "The columns of these blocks are not those of the fit, or in another order: "
                f"{blocks.feature_names[:5]} instead of {tuple(fitted[:5])}."
            )
    refuse_output(model)


def refuse_output(model: Any) -> None:
    """Refuse an output that would have to be gathered."""
    config = getattr(model, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
    if config not in (None, "default"):
        raise ValueError(
            f"set_output(transform={config!r}) would gather all rows in memory; blocks stay what they are: "
            "set_output(transform='default')."
        )
