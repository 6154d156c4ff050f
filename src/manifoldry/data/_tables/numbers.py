"""Numbers as people write them: digits of any script, thousands separators, currency and percent signs."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import Any

import numpy as np

from manifoldry._core.check import EXACT
from manifoldry.data._tables.errors import counted

LONGEST_AMOUNT = 400  # maximum length of a text that is tried as a number


def _pattern(thousands: str, decimal: str) -> re.Pattern[str]:
    """Return the pattern of numbers with these separators."""
    separator, point = re.escape(thousands), re.escape(decimal)
    whole = rf"(?:\d{{1,3}}(?:{separator}\d{{3}})+|\d+)" if thousands else r"\d+"
    return re.compile(rf"[+-]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?", re.ASCII)


PATTERNS = {
    (way[:-1], way[-1]): _pattern(way[:-1], way[-1]) for way in (".", ",", ",.", ".,", "'.", "',", " .", " ,", "_.")
}
"""Patterns of numbers by the way in which they are written: thousands separator and decimal mark."""

NUMBER = re.compile(r" *[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf|infinity) *", re.IGNORECASE | re.ASCII)
"""A number with a decimal point."""


MISSING_WORDS = (
    *("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "-NaN", "-nan"),
    *("NULL", "Null", "null", "None", "none", "?"),
)
"""Words for a missing number; in a column of text they are ordinary texts."""

SPELLINGS = str.maketrans({0x2019: "'", 0x066C: "'", 0x066B: ".", 0x2212: "-", 0x066A: "%"})
"""Replacements of signs in other scripts and in typeset numbers."""

CURRENCY = re.compile(r"^(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD)|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD)$")
"""Currencies that are written as letters."""


Amount = tuple[str, str]
"""A number as it is written: sign, digits and separators in ASCII, and its currency or percent sign or ""."""


def amount_of(text: str) -> Amount | None:
    """Return a text as an amount, with digits of any script, any separators, a sign and a unit; or None."""
    if len(text) > LONGEST_AMOUNT or not any(letter.isdecimal() for letter in text):
        return None
    plain = "".join(_plain_letter(letter) for letter in text).translate(SPELLINGS).strip()
    unit = next((letter for letter in plain if letter == "%" or unicodedata.category(letter) == "Sc"), "")
    if not unit and (word := CURRENCY.search(plain)):
        unit = word[0]
    digits = plain.replace(unit, "", 1).strip() if unit else plain
    if digits.startswith("(") and digits.endswith(")"):
        digits = f"-{digits[1:-1].strip()}"  # the notation of accountants
    digits = re.sub(r"^([+-]) +", r"\1", digits)
    return (digits, unit) if any(pattern.fullmatch(digits) for pattern in PATTERNS.values()) else None


def _plain_letter(letter: str) -> str:
    if letter.isascii():
        return letter
    if letter.isdecimal():
        return str(unicodedata.decimal(letter))
    if letter == "\ufeff" or unicodedata.category(letter) == "Cf":  # zero-width marks
        return ""
    if letter.isspace():
        return " "
    return unicodedata.normalize("NFKC", letter) if unicodedata.east_asian_width(letter) == "F" else letter


def is_number(field: str, decimal: str) -> bool:
    """Tell whether a field is a number with the decimal mark of the file."""
    return bool(NUMBER.fullmatch(field.replace(",", ".") if decimal == "," else field))


def plain_number(digits: str, thousands: str, decimal: str) -> str:
    """Return a number with these separators in the notation of Python."""
    return (digits.replace(thousands, "") if thousands else digits).replace(decimal, ".").removeprefix("+")


MAX_COLLAPSE = 0.01  # rounding of integers, relative to their spread, above which they are an error


def collapsed_integers(name: str, values: Any) -> str:
    """Return a message if integers lose their differences in double precision; "" if they do not."""
    if len(values) == 0 or max(-int(min(values)), int(max(values))) <= EXACT:
        return ""
    different = list(dict.fromkeys(int(value) for value in np.asarray(values, dtype=object).tolist()))
    size, spread = max(map(abs, different)), max(different) - min(different)
    if size > sys.float_info.max:
        return ""  # infinite, which is another error
    rounding = float(np.spacing(float(size)))
    if rounding <= MAX_COLLAPSE * spread or spread == 0:
        return ""
    left = len({float(value) for value in different})
    return (
        f"The {len(different):,} different integers of {name} lie near {size:.2g} and differ by at most {spread:.2g}, "
        f"but numbers in double precision are {rounding:.0f} apart there, so that only {counted(left, 'value')} would "
        f"remain; subtract {min(different)} from them first, or name the column as id or drop it."
    )
