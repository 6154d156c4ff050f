"""The report of a table: what was read beside the features goes along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manifoldry.diagnosis import Diagnosis
from manifoldry.report import Report, build_report
from manifoldry.tables import Table


def table_report(
    table: Table,
    X: Any,
    embeddings: Any,
    *,
    title: str,
    seed: int,
    diagnosis: Diagnosis | None = None,
    record: Mapping[str, Any] | None = None,
) -> Report:
    """Return the report of embeddings of a table, whose features were prepared as ``X``; see `build_report`."""
    return build_report(
        X,
        embeddings,
        ids=table.ids,
        id_name=table.id_name,
        columns=table.columns,
        label=table.label,
        thumbnails=table.thumbnails,
        title=title,
        record=record,
        diagnosis=diagnosis,
        random_state=seed,
    )
