"""Columns of text that are meant as numbers: amounts with thousands, currency or percent signs, other digits."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from manifoldry.tables.arrow_columns import text_values
from manifoldry.tables.column import Column
from manifoldry.tables.sniffing import MISSING_WORDS, NUMBER, Dialect

MOSTLY = 0.5
"""Share of numbers from which a column of text was meant to be one of numbers."""

SAMPLE_ROWS = 1000
"""Rows by which this share is found."""

AMOUNT = re.compile(r" *[+-]?\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d+)? *")
"""A number whose thousands are set apart, which programs write for readers: meant as a number, and not read as one."""


def checked_column(column: Column, values: Any, dialect: Dialect) -> Column:
    """Return a column of text with what is wrong with it, if most of it is numbers."""
    if column.kind != "text":
        return column
    return Column(column.name, "text", column.load, flaw=_flaw(column.name, values, dialect))


def _flaw(name: str, values: Any, dialect: Dialect) -> str:
    is_number = partial(_number, decimal=dialect.decimal)
    known = [text for text in text_values(values[:SAMPLE_ROWS]) if text.strip() not in MISSING_WORDS]
    if not known or sum(is_number(text) or bool(AMOUNT.fullmatch(text)) for text in known) < MOSTLY * len(known):
        return ""
    place, text = next(((i, text) for i, text in enumerate(text_values(values)) if not is_number(text)), (0, ""))
    return (
        f"Column {name!r}: {text[:40]!r} in row {place + 1} is no number, as most of the column is; correct it, leave "
        f"the column out (drop={name!r}), or keep it to color by (color={name!r})."
    )


def _number(text: str, decimal: str) -> bool:
    if text.strip() in MISSING_WORDS:
        return True
    return bool(NUMBER.fullmatch(text.replace(",", ".") if decimal == "," else text))
