"""The report of an `AlignedEmbedding`: its layouts as steps of one panel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray
from manifoldry.evaluation.metrics import trustworthiness
from manifoldry.viz._report.contents import Report, ReportChart, ReportPanel, ReportScale
from manifoldry.viz._report.evaluated import index_of
from manifoldry.viz._report.inputs import (
    MAX_EVALUATED_ROWS,
    N_EVALUATED_ROWS,
    displayed,
    method_name,
    resolved_parameters,
    row_data,
    shown_rows,
)

SHIFT = "distance moved"


def sequence_report(
    X: Any, model: Any, given: tuple[Any, str, Any, Any], title: str, record: Mapping[str, Any] | None, run: Run
) -> Report:
    """Return the report of aligned layouts; ``given`` are ids, their name, columns and label, by data set."""
    names = [str(name) for name in X] if isinstance(X, Mapping) else [f"step {t + 1}" for t in range(len(X))]
    sets = list(X.values()) if isinstance(X, Mapping) else list(X)
    lengths = [len(numbers) for numbers in model.identities_]
    if [np.shape(table)[0] for table in sets] != lengths:
        raise ValueError(f"X must be the data sets of the fit, with {lengths} rows; got others.")
    numbers = np.concatenate(model.identities_)
    last = np.zeros(numbers.max() + 1, dtype=np.int64)  # of the stacked rows, the last one with each number
    last[numbers] = np.arange(len(numbers))
    ids, id_name, columns, label = given
    if ids is None and all(index_of(table) is not None for table in sets):
        ids = [index_of(table) for table in sets]
    columns = {name: _merged(name, values, lengths, last) for name, values in dict(columns or {}).items()}
    label = label if label is None or isinstance(label, str) else _merged("label", label, lengths, last)
    rows = row_data(
        len(last), None if ids is None else _merged("ids", ids, lengths, last), id_name, columns, label, None
    )
    layouts = [_placed(Y, each, len(last)) for Y, each in zip(model.embeddings_, model.identities_, strict=True)]
    shifts = [np.full(len(last), np.nan), *(_moved(layouts[:t], layouts[t]) for t in range(1, len(layouts)))]
    shown = shown_rows(len(last), rows.bytes_per_row + 8.0 * len(layouts), run)
    method, parameters = method_name(model.models_[0]), resolved_parameters(model.models_[0])
    parameters |= {"alignment_weight": model.alignment_weight, "window": model.window}
    panels = [
        ReportPanel(name, displayed(Y[shown]), parameters=parameters, colors={SHIFT: shift[shown]})
        for name, Y, shift in zip(names, layouts, shifts, strict=True)
    ]
    trust = [_trust(table, Y) for table, Y in zip(sets, model.embeddings_, strict=True)]
    medians, moved = np.nanquantile(shifts[1:], (0.5, 0.95), axis=1)
    width = float(np.mean([np.ptp(Y, axis=0).max() for Y in model.embeddings_]))
    note = f"A uniform random sample of {len(shown):,} of {len(last):,} rows is shown."
    return Report(
        title or f"{method} of {len(sets)} data sets",
        panels,
        **vars(rows.take(shown)),
        charts=_charts(method, np.array(trust), moved),
        record=dict(record or {}),
        notes=() if len(shown) == len(last) else (note,),
        summary=(
            f"{len(sets)} data sets with {len(last):,} different rows, {int((np.bincount(numbers) > 1).sum()):,} of "
            "them in several data sets.",
            f"The median shared row moves {medians.mean() / width:.1%} of the layouts' width in a step.",
            f"The trustworthiness of the layouts is between {min(trust):.3f} and {max(trust):.3f}.",
        ),
        scales={SHIFT: ReportScale(0.0, float(np.nanmax(shifts[1:])), meaning="Distance to the position before.")},
        steps=method,
    )


def _merged(name: str, values: Any, lengths: list[int], last: IntArray) -> Array:
    """Return an entry for each different row: that of its last data set."""
    parts = [np.asarray(part) for part in values]
    if [part.shape for part in parts] != [(n,) for n in lengths]:
        raise ValueError(
            f"{name!r} needs a list with one entry for each row of each data set, {lengths}; got arrays of shapes "
            f"{[part.shape for part in parts]}."
        )
    return np.concatenate(parts)[last]


def _placed(Y: FloatArray, numbers: IntArray, n: int) -> FloatArray:
    """Return the layout of all different rows, with NaN for those that are not in this data set."""
    placed = np.full((n, Y.shape[1] if Y.shape[1] <= 3 else 2), np.nan)
    placed[numbers] = Y[:, : placed.shape[1]]
    return placed


def _moved(before: list[FloatArray], Y: FloatArray) -> FloatArray:
    """Return the distance of each row to its last position before."""
    position = before[-1].copy()
    for earlier in before[-2::-1]:
        position = np.where(np.isnan(position), earlier, position)
    return np.linalg.norm(Y - position, axis=1)


def _trust(X: Any, Y: FloatArray) -> float:
    sample = N_EVALUATED_ROWS if len(Y) > MAX_EVALUATED_ROWS else None
    return float(trustworthiness(X, Y, sample=sample))


def _charts(method: str, trust: FloatArray, moved: FloatArray) -> list[ReportChart]:
    steps = np.arange(1.0, len(trust) + 1)
    return [
        ReportChart(
            "Trustworthiness of each step",
            "step",
            "trustworthiness",
            "line",
            {method: (steps, trust)},
            "Share of neighbors in the layout that are near in the data; it should not fall when layouts are aligned.",
        ),
        ReportChart(
            "Distance moved",
            "step",
            "distance",
            "bar",
            {method: (steps[1:], moved)},
            "95 percent of the shared rows are less than this distance from their position before.",
        ),
    ]
