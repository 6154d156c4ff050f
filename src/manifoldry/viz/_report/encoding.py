"""Arrays as text in a page: base64 of compressed typed arrays, for columns of numbers, categories or text."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

from manifoldry._core.values import Array, FloatArray

MAX_FIELD_CHARACTERS = 200
"""Maximum length of a text; a hover card shows only a few lines."""

MIN_FIELD_CHARACTERS = 24
"""Length to which a text may always extend, so that names stay distinct in a page of many rows."""

MAX_TEXT_CHARACTERS = 40_000_000
"""Maximum length of all text columns together; a larger page takes a browser many seconds to open."""

MAX_CATEGORIES = 1000
"""Distinct values up to which a text column is categorical."""

MAX_INTEGER_CATEGORIES = 64
"""Distinct integers up to which a column of labels or clusters is categorical."""

COORDINATE_GRID = 2.0**-20
"""Coordinates are rounded to this fraction of half a panel, a pixel at a zoom of 1000, because they compress better."""

MAX_THUMBNAIL_BYTES = 64_000_000
"""Size of all thumbnails before compression above which they are shrunk."""

MIN_THUMBNAIL_SIDE = 12
"""Minimum size of a recognizable thumbnail in pixels; smaller ones are left out."""

_COMPRESSION = 6  # gzip's default; the highest level takes three times as long to save one percent


class Blocks:
    """The arrays of a page, each packed once and referred to by its index."""

    def __init__(self) -> None:
        self.packed: list[str] = []

    def add(self, values: Array) -> dict[str, Any]:
        """Pack a typed array and return a reference to it."""
        flat = np.ascontiguousarray(values).ravel()
        little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        return self._append(little.tobytes(), flat.dtype.name, flat.size)

    def add_text(self, values: list[str]) -> dict[str, Any]:
        """Pack texts and return a reference to them."""
        return self._append(json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"), "text", len(values))

    def _append(self, raw: bytes, dtype: str, length: int) -> dict[str, Any]:
        packed = gzip.compress(raw, _COMPRESSION, mtime=0)  # no timestamp, so that the same report has the same bytes
        self.packed.append(base64.b64encode(packed).decode("ascii"))
        return {"block": len(self.packed) - 1, "dtype": dtype, "length": length}


def shortened(text: str, limit: int = MAX_FIELD_CHARACTERS) -> str:
    """Return the text, cut with an ellipsis if it is longer than ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def field_limit(n_rows: int, n_columns: int) -> int:
    """Return the maximum length of a text in a table of this size."""
    fair = MAX_TEXT_CHARACTERS // max(1, n_rows * n_columns)
    return max(MIN_FIELD_CHARACTERS, min(MAX_FIELD_CHARACTERS, fair))


def encode_ids(ids: Array, name: str, blocks: Blocks) -> dict[str, Any]:
    """Return the names of the rows: a range, numbers or texts."""
    ids = np.asarray(ids)
    if ids.dtype.kind in "iu" and ids.size and np.array_equal(ids, np.arange(ids.size) + ids[0]):
        return {"name": name, "kind": "range", "start": int(ids[0])}
    if ids.dtype.kind in "iuf" and _exact(ids):
        return {"name": name, "kind": "number", "data": blocks.add(_compact(ids))}
    return {"name": name, "kind": "text", "data": blocks.add_text([shortened(str(value)) for value in ids.tolist()])}


def encode_column(name: str, values: Array, blocks: Blocks, *, names: bool, limit: int) -> dict[str, Any]:
    """Return a column for the page.

    Parameters
    ----------
    name : str
        Its name.
    values : ndarray of shape (n,)
        Numbers with NaN, or texts with "", where missing.
    blocks : Blocks
        Receives the arrays.
    names : bool
        Whether integers are names of classes rather than quantities, as in a label.
    limit : int
        Maximum length of a text.
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
    """Return an embedding for a panel: centered, widest axis from -1 to 1, with center and scale in its own units."""
    Y = np.asarray(coordinates, dtype=np.float64)
    finite = Y[np.isfinite(Y).all(axis=1)]
    low, high = (finite.min(axis=0), finite.max(axis=0)) if len(finite) else (np.zeros(Y.shape[1]),) * 2
    center, scale = low + (high - low) / 2, float(np.max(high - low)) / 2
    scale = scale if np.isfinite(scale) and scale > 0 else 1.0
    with np.errstate(invalid="ignore"):
        rounded = np.round((Y - center) / scale / COORDINATE_GRID) * COORDINATE_GRID
    data = blocks.add(rounded.astype(np.float32))
    return {"dimension": Y.shape[1], "data": data, "center": center.tolist(), "scale": scale}


def encode_thumbnails(images: Array | None, blocks: Blocks) -> tuple[dict[str, Any] | None, str]:
    """Return the thumbnails for the page, or None, and a note if they are shrunk or left out."""
    if images is None:
        return None, ""
    images = np.asarray(images, dtype=np.uint8)
    height, width = images.shape[1:3]
    factor = int(np.ceil(np.sqrt(images.size / MAX_THUMBNAIL_BYTES)))
    if factor > 1 and min(height, width) // factor < MIN_THUMBNAIL_SIDE:
        return None, f"The images of {len(images):,} rows do not fit into a page and were left out."
    note = f"Images are shown at 1/{factor} of their size." if factor > 1 else ""
    if factor > 1:
        images = _smaller(images, factor)
    channels = 1 if images.ndim == 3 else images.shape[3]
    height, width = images.shape[1:3]
    return {"data": blocks.add(images), "height": height, "width": width, "channels": channels}, note


def _categories(name: str, texts: Array, blocks: Blocks, limit: int, *, numeric: bool = False) -> dict[str, Any]:
    """Return a column of category codes: 0 where missing, otherwise the index in the list, counted from 1."""
    values, codes = np.unique(np.asarray(texts, dtype=str), return_inverse=True)
    order = np.argsort([float(value) if value else -np.inf for value in values]) if numeric else np.arange(len(values))
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    values, codes = values[order], rank[codes]
    if len(values) and values[0] == "":  # the empty text sorts first, so its code is already 0
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
    """Return the numbers in the smallest type that represents them exactly."""
    if values.dtype.kind in "iu" and values.size:
        for dtype in (np.uint8, np.int16, np.int32):
            if np.iinfo(dtype).min <= values.min() and values.max() <= np.iinfo(dtype).max:
                return values.astype(dtype)
    wide = values.astype(np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    return narrow if np.array_equal(narrow.astype(np.float64), wide, equal_nan=True) else wide


def _exact(values: Array) -> bool:
    """Return whether numbers are exact in double precision, the only type of JavaScript."""
    return values.dtype.kind == "f" or not values.size or max(-int(values.min()), int(values.max())) <= 2**53


def _smaller(images: Array, factor: int) -> Array:
    """Return the images shrunk by an integer factor, each pixel the mean of those it replaces."""
    n, height, width = images.shape[:3]
    h, w = height // factor, width // factor
    out = np.empty((n, h, w, *images.shape[3:]), dtype=np.uint8)
    for i in range(n):  # one by one, to limit memory
        cut = images[i, : h * factor, : w * factor].reshape(h, factor, w, factor, -1)
        out[i] = np.round(cut.mean(axis=(1, 3))).reshape(out.shape[1:])
    return out
