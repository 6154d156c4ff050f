"""Columns of text that are meant as numbers: amounts with thousands, currency or percent signs, other digits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from manifoldry._core.values import Array
from manifoldry.data._tables.formats.arrow_columns import text_values
from manifoldry.data._tables.formats.numbers import (
    MISSING_WORDS,
    NUMBER,
    WAYS,
    Amount,
    amount_of,
    collapsed_integers,
    fits,
    plain_number,
)
from manifoldry.data._tables.formats.sniffing import Dialect
from manifoldry.data._tables.table import Column

MOSTLY = 0.5
"""Share of numbers from which a column of text was meant to be one of numbers."""

SAMPLE_ROWS = 1000
"""Rows by which this share is found."""


def checked_column(column: Column, values: Any, dialect: Dialect) -> Column:
    """Return a column of text with what is wrong with it, if most of it is numbers."""
    if column.kind != "text":
        return column
    return Column(column.name, "text", column.load, flaw=_flaw(column.name, values, dialect))


def column_of_amounts(column: Column, values: Any, dialect: Dialect) -> tuple[Column, str]:
    """Return a column of text as numbers, with a remark how they were read, if all of it is written in one way.

    Where most of it is numbers and not all, or where it can be read in two ways, it is returned with that flaw.
    """
    if len(dialect.names) == 1 and "," in column.name:
        return column, ""  # names between commas: the delimiter is another one
    if column.kind != "text" or not _meant_as_numbers(values, dialect):
        return column, ""
    texts = ["" if text.strip() in MISSING_WORDS else text for text in text_values(values)]
    known = list(dict.fromkeys(text for text in texts if text))
    amounts = [amount for text in known if (amount := amount_of(text)) is not None]
    if len(amounts) < len(known):
        return checked_column(column, values, dialect), ""
    plain, said = _plain(column.name, known, amounts, dialect)
    said = said or collapsed_integers(
        f"column {column.name!r}", [int(each) for each in plain if re.fullmatch(r"[+-]?\d+", each)]
    )
    if said:
        return Column(column.name, "text", column.load, flaw=said), ""
    numbers = dict(zip(known, map(float, plain), strict=True))
    shown = next((f"{text!r} was read as {each}" for text, each in zip(known, plain, strict=True) if text != each), "")
    return Column(column.name, "number", partial(_looked_up, texts, numbers)), shown


def _looked_up(texts: Sequence[str], numbers: dict[str, float]) -> Array:
    return np.array([numbers.get(text, np.nan) for text in texts])


def _meant_as_numbers(values: Any, dialect: Dialect) -> bool:
    known = [text for text in text_values(values[:SAMPLE_ROWS]) if text.strip() not in MISSING_WORDS]
    meant = sum(_number(text, dialect.decimal) or amount_of(text) is not None for text in known)
    return bool(known) and meant >= MOSTLY * len(known)


def _plain(name: str, texts: Sequence[str], amounts: Sequence[Amount], dialect: Dialect) -> tuple[list[str], str]:
    """Return numbers as Python reads them, and what is wrong if there is not one way to read them."""
    units = {amount.unit: text for amount, text in zip(amounts, texts, strict=True)}
    if len(units) > 1:
        shown = " and ".join(repr(text[:40]) for text in list(units.values())[:2])
        return [], f"Column {name!r} has values of different units, {shown}; convert them to one, and leave signs out."
    written = [amount.digits for amount in amounts]
    ways = [way for way in WAYS if all(fits(digits, way) for digits in written)]
    if not ways:
        text = next(text for text, digits in zip(texts, written, strict=True) if not NUMBER.fullmatch(digits))
        return [], (
            f"Column {name!r}: {text[:40]!r} has signs between its digits that do not set thousands or a fraction "
            "apart as in its other values; write all numbers in the form 1234.5."
        )
    if dialect.pointed or dialect.decimal == ",":
        ways = [way for way in ways if way[1] == dialect.decimal] or ways
    readings = list(dict.fromkeys(tuple(plain_number(digits, *way) for digits in written) for way in ways))
    if len(readings) == 1:
        return list(readings[0]), ""
    i = next(i for i in range(len(texts)) if readings[0][i] != readings[1][i])
    return [], (
        f"Column {name!r}: {texts[i][:40]!r} can be read as {readings[0][i]} and as {readings[1][i]}; write numbers "
        "without signs for thousands, and with a decimal point."
    )


def _flaw(name: str, values: Any, dialect: Dialect) -> str:
    if not _meant_as_numbers(values, dialect):
        return ""
    strange = [(i, text) for i, text in enumerate(text_values(values)) if not _number(text, dialect.decimal)]
    if not strange:
        return ""
    i, text = next((each for each in strange if amount_of(each[1]) is None), strange[0])
    if amount_of(text) is not None:
        cure = "write numbers in the form 1234.5, without signs for thousands, currency or percent"
    else:
        cure = "correct it"
    return (
        f"Column {name!r}: {text[:40]!r} in row {i + 1} is not read as a number, unlike most of the column; {cure}, "
        f"leave the column out (drop={name!r}), or keep it to color by (color={name!r})."
    )


def _number(text: str, decimal: str) -> bool:
    if text.strip() in MISSING_WORDS:
        return True
    return text.isascii() and bool(NUMBER.fullmatch(text.replace(",", ".") if decimal == "," else text))
