"""Coordinates written next to the ids of their rows: text, Parquet, Arrow, an array, a copy of an AnnData file."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry._core.files import check_not_existing, new_file
from manifoldry._core.values import Array
from manifoldry.data._tables.assemble import unique
from manifoldry.data._tables.errors import UnreadableError, needs, reading_errors
from manifoldry.data._tables.table import Table

DEFAULT_KEY = "X_manifoldry"  # default name of coordinates in ``obsm``
ARROW_BATCH_ROWS = 2**16  # rows of a batch of an Arrow file, as in pyarrow's Feather writer


def write_coordinates(
    path: str | os.PathLike[str],
    Y: Array,
    table: Table,
    *,
    names: Sequence[str] | None = None,
    overwrite: bool = False,
    source: str | os.PathLike[str] | None = None,
    key: str = DEFAULT_KEY,
) -> None:
    """Write coordinates with the ids of their rows, in the format of the suffix.

    The file is complete or not there. Numbers in text files have enough digits to be read back bit-identical.

    Parameters
    ----------
    path : str or path
        Ends with .csv, .tsv, .parquet, .arrow, .npy (coordinates only) or .h5ad.
    Y : ndarray of shape (n, d)
        The coordinates.
    table : Table
        The table that the rows belong to.
    names : sequence of str, optional
        Names of the d columns, by default y0, y1, ....
    overwrite : bool
        Whether an existing file may be replaced.
    source : str or path, optional
        For .h5ad, the AnnData file that the rows were read from: it is copied, and only ``obsm`` of the copy changes.
    key : str
        Name of the coordinates in ``obsm``, such as "X_isomap". Rows that were left out have NaN there.
    """
    coordinates = np.asarray(Y)
    if coordinates.ndim != 2 or len(coordinates) != len(table.ids):
        raise ValueError(
            f"Coordinates must have one row for each of the {len(table.ids)} rows of the table; got shape "
            f"{coordinates.shape}."
        )
    named = [f"y{j}" for j in range(coordinates.shape[1])] if names is None else [str(name) for name in names]
    if len(named) != coordinates.shape[1]:
        raise ValueError(f"{coordinates.shape[1]} coordinates need the same number of names; got {len(named)}.")
    suffix = writable_suffix(path, source=source)
    check_not_existing(path, overwrite=overwrite)
    if suffix == ".h5ad":
        _write_h5ad(path, coordinates, table, Path(str(source)), key, overwrite=overwrite)
        return
    with new_file(path, overwrite=overwrite) as part:
        if suffix == ".npy":
            with part.open("wb") as file:
                np.save(file, coordinates, allow_pickle=False)
        else:
            TABLE_WRITERS[suffix](part, iter([arrow_table(coordinates, named, table.ids, table.id_name)]))


def writable_suffix(path: str | os.PathLike[str], *, source: str | os.PathLike[str] | None = None) -> str:
    """Return the suffix of a file for coordinates; raise an error before any work if they cannot be written there."""
    suffix = Path(path).suffix.lower()
    if suffix not in (*TABLE_WRITERS, ".npy", ".h5ad"):
        raise ValueError(
            f"Coordinates are written to files that end with {', '.join(TABLE_WRITERS)}, .npy or .h5ad; got "
            f"{Path(path).name!r}."
        )
    if suffix == ".h5ad" and (source is None or Path(source).suffix.lower() != ".h5ad"):
        raise ValueError(
            f"{Path(path).name!r} would be a copy of the .h5ad file that was read, but none was; write .csv instead."
        )
    return suffix


def arrow_table(Y: Array, names: Sequence[str], ids: Array | None, id_name: str) -> Any:
    """Return coordinates, or one number per row, as an Arrow table, with the ids of the rows as its first column."""
    try:
        import pyarrow as pa
    except ImportError:
        raise needs("pyarrow", "Writing this kind of file") from None
    columns = [np.ascontiguousarray(values) for values in (Y.T if Y.ndim == 2 else [Y])]
    if ids is not None:
        texts = ids.dtype.kind not in "iuf"
        columns.insert(0, np.array([str(entry) for entry in ids.tolist()], dtype=object) if texts else ids)
    all_names = [*names] if ids is None else [id_name, *names]
    return pa.table([pa.array(values) for values in columns], names=unique(all_names)[0])


def _write_text(delimiter: str, part: Path, tables: Iterator[Any]) -> None:
    from pyarrow import csv as arrow_csv

    options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
    with part.open("wb") as file:
        for i, table in enumerate(tables):
            if i == 0:  # Arrow would quote every name
                doubled = {name: name.replace('"', '""') for name in table.column_names}
                special = re.compile(rf'[{delimiter}"\n\r]')
                header = [f'"{doubled[name]}"' if special.search(name) else name for name in table.column_names]
                file.write(delimiter.join(header).encode("utf-8") + b"\n")
            arrow_csv.write_csv(table, file, options)


def _write_parquet(part: Path, tables: Iterator[Any]) -> None:
    from pyarrow import parquet

    first = next(tables)
    with parquet.ParquetWriter(part, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _write_arrow(part: Path, tables: Iterator[Any]) -> None:
    import pyarrow as pa

    first = next(tables)
    with pa.OSFile(str(part), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table, max_chunksize=ARROW_BATCH_ROWS)


TABLE_WRITERS: dict[str, Callable[[Path, Iterator[Any]], None]] = {
    ".csv": partial(_write_text, ","),
    ".tsv": partial(_write_text, "\t"),
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".feather": _write_arrow,
}
"""Functions that write consecutive Arrow tables to one file, by suffix: a table in memory is one chunk."""


def _write_h5ad(
    path: str | os.PathLike[str], Y: Array, table: Table, source: Path, key: str, *, overwrite: bool
) -> None:
    """Write a copy of an AnnData file with the coordinates in its obsm, matched by obs_names."""
    try:
        import h5py
        from anndata.io import read_elem, write_elem

        from manifoldry.data._tables.h5ad import check_links
    except ImportError:
        raise needs("anndata", "Writing into an AnnData file", "anndata") from None
    with new_file(path, overwrite=overwrite) as part, reading_errors(source.name, "an AnnData file"):
        shutil.copyfile(source, part)
        with h5py.File(part, "r+") as file:
            check_links(file, source.name)  # otherwise the coordinates could be written to another file
            names = [str(name) for name in read_elem(file["obs"]).index]
            if "obsm" not in file:
                write_elem(file, "obsm", {})
            if key in file["obsm"] and not overwrite:
                raise UnreadableError(
                    f"{source.name} already has {key!r} in its obsm; it is not overwritten unless overwrite=True."
                )
            write_elem(file["obsm"], key, _in_order(Y, table, names, source.name))


def _in_order(Y: Array, table: Table, names: Sequence[str], source: str) -> Array:
    """Return coordinates for all rows of the file, NaN for rows that were left out."""
    ids = [str(entry) for entry in table.ids.tolist()]
    if ids == list(names) or (table.id_name == "row" and len(ids) == len(names)):
        return Y
    rows = {name: i for i, name in enumerate(names)}
    if any(entry not in rows for entry in ids) or len(rows) != len(names):
        raise UnreadableError(f"The rows cannot be matched with {source}, because its obs_names differ or repeat.")
    all_rows = np.full((len(names), Y.shape[1]), np.nan, Y.dtype if Y.dtype.kind == "f" else np.float64)
    all_rows[[rows[entry] for entry in ids]] = Y
    return all_rows
