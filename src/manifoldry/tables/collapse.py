"""Different integers that become the same number in double precision."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from manifoldry.check import EXACT
from manifoldry.tables.refusals import counted

MAX_COLLAPSE = 0.01
"""Spacing of numbers in double precision, as a share of the spread of integers, above which they are refused. From a
hundredth of that on, a fit warns that distances are rounded."""


def collapsed_integers(name: str, values: Any) -> str:
    """Return a sentence if integers lose their differences in double precision; "" if they do not.

    Parameters
    ----------
    name : str
        Where they are: "column 'a'".
    values : list of int or ndarray of integers
        Its entries.
    """
    if len(values) == 0 or max(-int(min(values)), int(max(values))) <= EXACT:
        return ""
    different = list(dict.fromkeys(int(value) for value in np.asarray(values, dtype=object).tolist()))
    size, spread = max(map(abs, different)), max(different) - min(different)
    if size > sys.float_info.max:
        return ""  # infinite, which is told otherwise
    rounding = float(np.spacing(float(size)))
    if rounding <= MAX_COLLAPSE * spread or spread == 0:
        return ""
    left = len({float(value) for value in different})
    return (
        f"The {len(different):,} different integers of {name} lie near {size:.2g} and differ by at most {spread:.2g}, "
        f"but numbers in double precision are {rounding:.0f} apart there, so that only {counted(left, 'value')} would "
        f"remain; subtract {min(different)} from them first, or name the column as id or drop it."
    )
