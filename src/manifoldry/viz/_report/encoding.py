"""Arrays as text inside a page: base64 of compressed typed arrays; columns of numbers, categories or text."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

from manifoldry._core.values import Array, FloatArray

MAX_FIELD_CHARACTERS = 200
"""Of a text in the page. Longer ones are documents; a hover card shows no more than some lines."""

MIN_FIELD_CHARACTERS = 24
"""Of a text in a page of many rows, so that names still differ."""

MAX_TEXT_CHARACTERS = 40_000_000
"""Of all text columns together; more would make a page that a browser takes many seconds to open."""

MAX_CATEGORIES = 1000
"""Different values of a text column that can be colored by. Beyond, most would be gray: it is text to read."""

MAX_INTEGER_CATEGORIES = 64
"""Different integers that are names rather than amounts, where a column is known to be a label or a cluster."""

COORDINATE_GRID = 2.0**-20
"""Places in a panel are rounded to this share of its half width, a pixel at a zoom of 1000: they compress better."""

MAX_THUMBNAIL_BYTES = 64_000_000
"""Of all pictures before compression; beyond, they are made smaller."""

MIN_THUMBNAIL_SIDE = 12
"""Pixels of a picture in which something can be recognized; smaller ones are left out."""

_COMPRESSION = 6  # the library's usual trade; the highest level takes three times as long for a percent


class Blocks:
    """The arrays of a page, each packed once and named by its place in the list."""

    def __init__(self) -> None:
        self.packed: list[str] = []

    def add(self, values: Array) -> dict[str, Any]:
        """Pack a typed array, and return what refers to it."""
        flat = np.ascontiguousarray(values).ravel()
        little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        return self._append(little.tobytes(), flat.dtype.name, flat.size)

    def add_text(self, values: list[str]) -> dict[str, Any]:
        """Pack texts, and return what refers to them."""
        return self._append(json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"), "text", len(values))

    def _append(self, raw: bytes, dtype: str, length: int) -> dict[str, Any]:
        packed = gzip.compress(raw, _COMPRESSION, mtime=0)  # without the time: same report, same bytes
        self.packed.append(base64.b64encode(packed).decode("ascii"))
        return {"block": len(self.packed) - 1, "dtype": dtype, "length": length}


def shortened(text: str, limit: int = MAX_FIELD_CHARACTERS) -> str:
    """Return the text, cut and marked by an ellipsis where it is longer than ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def field_limit(n_rows: int, n_columns: int) -> int:
    """Return how many characters a text may have in a table of that size."""
    fair = MAX_TEXT_CHARACTERS // max(1, n_rows * n_columns)
    return max(MIN_FIELD_CHARACTERS, min(MAX_FIELD_CHARACTERS, fair))


def encode_ids(ids: Array, name: str, blocks: Blocks) -> dict[str, Any]:
    """Return how the page knows its rows: by a running number, by numbers or by texts."""
    ids = np.asarray(ids)
    if ids.dtype.kind in "iu" and ids.size and np.array_equal(ids, np.arange(ids.size) + ids[0]):
        return {"name": name, "kind": "range", "start": int(ids[0])}
    if ids.dtype.kind in "iuf" and _exact(ids):
        return {"name": name, "kind": "number", "data": blocks.add(_compact(ids))}
    return {"name": name, "kind": "text", "data": blocks.add_text([shortened(str(value)) for value in ids.tolist()])}


def encode_column(name: str, values: Array, blocks: Blocks, *, names: bool, limit: int) -> dict[str, Any]:
    """Return what the page knows of a column.

    Parameters
    ----------
    name : str
        What it is called.
    values : ndarray of shape (n,)
        Numbers with NaN, or texts with "", where missing.
    blocks : Blocks
        Where the arrays go.
    names : bool
        Whether integers are names of classes rather than amounts, as in a label.
    limit : int
        Characters of a text.
    """
    values = np.asarray(values)
    if values.dtype.kind == "b":
        return _categories(name, np.where(values, "true", "false"), blocks, limit)
    if values.dtype.kind in "iuf":
        as_names = _as_names(values) if names else None
        if as_names is not None:
            return _categories(name, as_names, blocks, limit, numeric=True)
        return {"name": name, "kind": "number", "data": blocks.add(_compact(values))}
    texts = np.array(["" if value is None else str(value) for value in values.tolist()], dtype=object)
    if len(set(texts.tolist())) <= min(MAX_CATEGORIES, max(20, len(texts) // 2)):
        return _categories(name, texts, blocks, limit)
    return {"name": name, "kind": "text", "data": blocks.add_text([shortened(text, limit) for text in texts])}


def encode_coordinates(coordinates: FloatArray, blocks: Blocks) -> dict[str, Any]:
    """Return an embedding for a panel: centered, its widest axis from -1 to 1, and how to get back to its own units."""
    Y = np.asarray(coordinates, dtype=np.float64)
    finite = Y[np.isfinite(Y).all(axis=1)]
    low, high = (finite.min(axis=0), finite.max(axis=0)) if len(finite) else (np.zeros(Y.shape[1]),) * 2
    center, scale = low + (high - low) / 2, float(np.max(high - low)) / 2
    scale = scale if np.isfinite(scale) and scale > 0 else 1.0
    with np.errstate(invalid="ignore"):
        placed = np.round((Y - center) / scale / COORDINATE_GRID) * COORDINATE_GRID
    data = blocks.add(placed.astype(np.float32))
    return {"dimension": Y.shape[1], "data": data, "center": center.tolist(), "scale": scale}


def encode_thumbnails(pictures: Array | None, blocks: Blocks) -> tuple[dict[str, Any] | None, str]:
    """Return the pictures of the rows for the page, or None, and a sentence where they are smaller or left out."""
    if pictures is None:
        return None, ""
    pictures = np.asarray(pictures, dtype=np.uint8)
    height, width = pictures.shape[1:3]
    factor = int(np.ceil(np.sqrt(pictures.size / MAX_THUMBNAIL_BYTES)))
    if factor > 1 and min(height, width) // factor < MIN_THUMBNAIL_SIDE:
        return None, f"The pictures of {len(pictures):,} rows are too many for a page and were left out."
    said = f"The pictures are shown at 1/{factor} of their size." if factor > 1 else ""
    if factor > 1:
        pictures = _smaller(pictures, factor)
    channels = 1 if pictures.ndim == 3 else pictures.shape[3]
    height, width = pictures.shape[1:3]
    return {"data": blocks.add(pictures), "height": height, "width": width, "channels": channels}, said


def _categories(name: str, texts: Array, blocks: Blocks, limit: int, *, numeric: bool = False) -> dict[str, Any]:
    """Return a column of categories by number: 0 where missing, else the place in the list, counted from 1."""
    values, codes = np.unique(np.asarray(texts, dtype=str), return_inverse=True)
    order = np.argsort([float(value) if value else -np.inf for value in values]) if numeric else np.arange(len(values))
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    values, codes = values[order], rank[codes]
    if len(values) and values[0] == "":  # the empty text sorts first, and so is number 0 already
        values = values[1:]
    else:
        codes = codes + 1
    dtype = np.min_scalar_type(len(values))
    shown = [shortened(value, limit) for value in values.tolist()]
    return {"name": name, "kind": "category", "data": blocks.add(codes.astype(dtype)), "categories": shown}


def _as_names(values: Array) -> Array | None:
    """Return few integers as texts, "" where missing; None for other numbers."""
    known = values[np.isfinite(values)]
    if not np.array_equal(known, np.round(known)) or len(np.unique(known)) > MAX_INTEGER_CATEGORIES:
        return None
    return np.array([str(int(value)) if np.isfinite(value) else "" for value in values.tolist()])


def _compact(values: Array) -> Array:
    """Return the numbers in the smallest type of the page that keeps them exactly."""
    if values.dtype.kind in "iu" and values.size:
        for dtype in (np.uint8, np.int16, np.int32):
            if np.iinfo(dtype).min <= values.min() and values.max() <= np.iinfo(dtype).max:
                return values.astype(dtype)
    wide = values.astype(np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    return narrow if np.array_equal(narrow.astype(np.float64), wide, equal_nan=True) else wide


def _exact(values: Array) -> bool:
    """Whether numbers are the same in double precision, all that a page has."""
    return values.dtype.kind == "f" or not values.size or max(-int(values.min()), int(values.max())) <= 2**53


def _smaller(pictures: Array, factor: int) -> Array:
    """Return the pictures at a whole part of their size, each pixel the mean of those it stands for."""
    n, height, width = pictures.shape[:3]
    h, w = height // factor, width // factor
    out = np.empty((n, h, w, *pictures.shape[3:]), dtype=np.uint8)
    for i in range(n):  # one by one, so that memory stays that of the pictures
        cut = pictures[i, : h * factor, : w * factor].reshape(h, factor, w, factor, -1)
        out[i] = np.round(cut.mean(axis=(1, 3))).reshape(out.shape[1:])
    return out
