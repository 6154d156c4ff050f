"""A folder of images: a row of pixels for each, its folder as its class, and thumbnails."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry._core.values import Array
from manifoldry.data._tables.assemble import Matrix, matrix_table
from manifoldry.data._tables.errors import UnreadableError, check_bytes, counted, listed, needs
from manifoldry.data._tables.source import Source
from manifoldry.data._tables.table import ReadOptions, Table, array_column

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Files of a folder that are read as images."""

MAX_PIXELS = 10**8  # maximum pixels of an image in its header: small files can unpack to much more
BYTES_PER_PIXEL = 5  # memory of a gray value or color: one byte when it is read, four as a feature
GRAY_MODES = ("1", "L", "LA", "I", "I;16", "I;16B", "F")  # modes of Pillow for images without color


@dataclass(frozen=True)
class ImageHeader:
    """Size and color of an image in its first bytes."""

    path: Path
    size: tuple[int, int]
    gray: bool


def read_images(source: Source, options: ReadOptions) -> Table:
    """Return the table of all images in a folder and its subfolders, resized to the most common size or to ``key``."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise needs("pillow", "Reading images") from None
    folder = source.path or Path()
    paths = _image_paths(folder, source.name)
    headers, broken = _headers(paths)
    width, height = _common_size(headers, options.key, source.name, broken)
    n_colors = 1 if all(header.gray for header in headers) else CHANNELS
    advice = "resize them with key='32x32'"
    check_bytes(len(headers) * width * height * n_colors * BYTES_PER_PIXEL, f"The images in {source.name}", advice)
    headers, pixels, pictures, unread = _decode(headers, (width, height), n_colors)
    broken += unread
    resized = [header for header in headers if header.size != (width, height)]
    remarks = [f"{counted(len(resized), 'image')} of {len(headers):,} resized to {width} x {height} pixels."] * bool(
        resized
    )
    remarks += _check_broken(broken, folder, len(paths), options)
    names = [header.path.relative_to(folder) for header in headers]
    extra = [array_column("image", np.array([name.as_posix() for name in names]))]
    inside = [name.parts[0] if len(name.parts) > 1 else "" for name in names]
    if any(inside):
        extra.append(array_column("folder", np.array(inside)))
    matrix = Matrix(
        pixels.reshape(len(pixels), -1).astype(np.float32),
        extra=extra,
        id="image",
        label="folder" if any(inside) else None,
        thumbnails=pictures,
    )
    return matrix_table(matrix, options, source.name, remarks)


def _image_paths(folder: Path, name: str) -> list[Path]:
    inside = sorted(path for path in folder.rglob("*") if not path.name.startswith(".") and path.is_file())
    paths = [path for path in inside if path.suffix.lower() in IMAGE_SUFFIXES]
    if not paths:
        names = [path.name for path in inside]
        hint = f"it holds {listed(names)}: name one of these files" if names else "it holds no files"
        raise UnreadableError(f"{name} is a folder without images ({', '.join(IMAGE_SUFFIXES)}); {hint}.")
    return paths


def _headers(paths: Sequence[Path]) -> tuple[list[ImageHeader], list[Path]]:
    """Return the headers of images, and the files that are not images."""
    from PIL import Image

    headers, broken = [], []
    for path in paths:
        try:
            with Image.open(path) as image:
                width, height = image.size
                too_large = width * height > MAX_PIXELS
                turned = (height, width) if image.getexif().get(0x0112, 1) >= 5 else (width, height)
                headers.append(ImageHeader(path, turned, image.mode in GRAY_MODES))
        except Exception:  # Pillow raises anything on arbitrary bytes
            broken.append(path)
            continue
        if too_large:
            raise UnreadableError(f"{path.name} is an image of {width} x {height} pixels, which is too large to read.")
    return headers, broken


def _common_size(headers: Sequence[ImageHeader], key: str | None, name: str, broken: Sequence[Path]) -> tuple[int, int]:
    """Return width and height of the rows: the requested ones, or those of most images."""
    if not headers:
        raise UnreadableError(f"No image in {name} can be read: {listed([path.name for path in broken])}.")
    if key is None:
        return Counter(header.size for header in headers).most_common(1)[0][0]
    match = re.fullmatch(r"(\d{1,4})x(\d{1,4})", key)
    if match is None or "0" in (match[1], match[2]):
        raise UnreadableError(f"The key of a folder of images is a size of width x height, such as 32x32; got {key!r}.")
    return int(match[1]), int(match[2])


def _decode(
    headers: Sequence[ImageHeader], size: tuple[int, int], n_colors: int
) -> tuple[list[ImageHeader], Array, Array | None, list[Path]]:
    """Return the images that can be read, their pixels and thumbnails, and the files that cannot be read."""
    shape = (size[1], size[0]) if n_colors == 1 else (size[1], size[0], n_colors)
    scale = min(1.0, MAX_SIDE / max(size))
    small = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
    pixels = np.empty((len(headers), *shape), np.uint8)
    pictures = np.empty((len(headers), small[1], small[0], *shape[2:]), np.uint8)
    read: list[ImageHeader] = []
    broken = []
    for header in headers:
        try:
            image = _open(header.path, n_colors)
            pixels[len(read)] = np.asarray(image if image.size == size else image.resize(size))
            pictures[len(read)] = np.asarray(image if image.size == small else image.resize(small))
            read.append(header)
        except Exception:  # Pillow raises anything on arbitrary bytes
            broken.append(header.path)
    shown = pictures[: len(read)] if pictures.size <= MAX_PICTURE_BYTES else None
    return read, pixels[: len(read)], shown, broken


def _open(path: Path, n_colors: int) -> Any:
    """Return an image upright, in gray or in color, with 8 bits for each."""
    from PIL import Image, ImageOps

    with Image.open(path) as stored:
        image = ImageOps.exif_transpose(stored)
        if image.mode.startswith("I"):  # 16 bits
            image = Image.fromarray((np.asarray(image).clip(0, 2**16 - 1) >> 8).astype(np.uint8))
        return image.convert("L" if n_colors == 1 else "RGB")


def _check_broken(broken: Sequence[Path], folder: Path, count: int, options: ReadOptions) -> list[str]:
    """Raise an error that names the files that are not images, or leave them out with a remark."""
    if not broken:
        return []
    names = listed([path.relative_to(folder).as_posix() for path in broken])
    message = f"{len(broken)} of {count} images cannot be read: {names}"
    if len(broken) == count or options.missing != "drop":
        raise UnreadableError(f"{message}; remove them, or leave them out with missing='drop'.")
    return [f"{message}; left out."]


MAX_SIDE = 64  # maximum height and width of a thumbnail in pixels: it is shown next to the pointer
MAX_PICTURE_BYTES = 2**28  # maximum bytes of all thumbnails of a table: a page could not hold more
CHANNELS = 3  # colors of a pixel: red, green, blue


def small_pictures(images: Array) -> Array | None:
    """Return images (n, height, width[, 3]) as bytes, large ones with fewer pixels; None if there are too many."""
    n, height, width = images.shape[:3]
    step = -(-max(height, width) // MAX_SIDE)
    small = images[:, ::step, ::step]
    if small.size > MAX_PICTURE_BYTES or n == 0:
        return None
    if small.dtype == np.uint8:
        return np.ascontiguousarray(small)
    finite = small[np.isfinite(small)]
    low, high = (min(0.0, float(finite.min())), float(finite.max())) if finite.size else (0.0, 1.0)
    # The largest value is white.
    unit = (np.nan_to_num(small.astype(np.float64), nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    return np.round(255 * unit).astype(np.uint8)
