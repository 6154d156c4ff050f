"""Coordinates written beside what names their rows: text, Parquet, Arrow, an array, a copy of an AnnData file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manifoldry._core.files import new_file, refuse_existing
from manifoldry._core.values import Array
from manifoldry.data._tables.assemble import unique
from manifoldry.data._tables.errors import UnreadableError, needs, refusing
from manifoldry.data._tables.table import Table

DEFAULT_KEY = "X_manifoldry"
"""Where coordinates go in ``obsm`` if nothing else is said."""


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
    """Write coordinates with the ids of their rows, in the format that the suffix of the path names.

    The file is whole or not there. Numbers in text files have as many digits as give the same bits when they are read.

    Parameters
    ----------
    path : str or path
        Ends with .csv, .tsv, .parquet, .arrow, .npy (coordinates only) or .h5ad.
    Y : ndarray of shape (n, d)
        The coordinates.
    table : Table
        Whose rows they are.
    names : sequence of str, optional
        Names of the d columns; y0, y1, ... if None.
    overwrite : bool
        Whether a file that is there already may be replaced.
    source : str or path, optional
        The AnnData file that the rows were read from, for .h5ad: it is copied, and only ``obsm`` of the copy changed.
    key : str
        Name of the coordinates in ``obsm``, such as "X_isomap". Rows that were left out have NaN there.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> table = Table(np.zeros((2, 3)), ("a", "b", "c"), np.array(["one", "two"], dtype=object), id_name="name")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "out.csv")
    ...     write_coordinates(path, np.array([[0.1, 2], [3, 4]]), table)
    ...     print(path.read_text().strip())
    name,y0,y1
    "one",0.1,2
    "two",3,4
    """
    coordinates = np.asarray(Y)
    if coordinates.ndim != 2 or len(coordinates) != len(table.ids):
        raise ValueError(
            f"Coordinates must have one row for each of the {len(table.ids)} rows of the table; got shape "
            f"{coordinates.shape}."
        )
    named = [f"y{j}" for j in range(coordinates.shape[1])] if names is None else [str(name) for name in names]
    if len(named) != coordinates.shape[1]:
        raise ValueError(f"{coordinates.shape[1]} coordinates need as many names; got {len(named)}.")
    suffix = writable_suffix(path, source=source)
    refuse_existing(path, overwrite=overwrite)
    if suffix == ".h5ad":
        _write_h5ad(path, coordinates, table, Path(str(source)), key, overwrite=overwrite)
        return
    with new_file(path, overwrite=overwrite) as part:
        WRITERS[suffix](part, coordinates, table, named)


def writable_suffix(path: str | os.PathLike[str], *, source: str | os.PathLike[str] | None = None) -> str:
    """Return the suffix that says how coordinates are written, or refuse one that does not, before any work."""
    suffix = Path(path).suffix.lower()
    if suffix not in (*WRITERS, ".h5ad"):
        raise ValueError(
            f"Coordinates are written to files that end with {', '.join(WRITERS)} or .h5ad; got {Path(path).name!r}."
        )
    if suffix == ".h5ad" and (source is None or Path(source).suffix.lower() != ".h5ad"):
        raise ValueError(
            f"{Path(path).name!r} would be a copy of the .h5ad file that was read, and none was; write .csv instead."
        )
    return suffix


def _arrow_table(Y: Array, table: Table, names: Sequence[str]) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise needs("pyarrow", "Writing coordinates to this kind of file") from None
    ids = table.ids
    if ids.dtype.kind not in "iuf":
        ids = np.array([str(entry) for entry in ids.tolist()], dtype=object)
    columns = [pa.array(ids), *(pa.array(np.ascontiguousarray(Y[:, j])) for j in range(Y.shape[1]))]
    return pa.table(columns, names=unique([table.id_name, *names])[0])


def _write_text(delimiter: str) -> Callable[[Path, Array, Table, Sequence[str]], None]:
    def write(part: Path, Y: Array, table: Table, names: Sequence[str]) -> None:
        rows = _arrow_table(Y, table, names)
        from pyarrow import csv as arrow_csv

        header = delimiter.join(quoted_name(name, delimiter) for name in rows.column_names)
        with part.open("wb") as file:
            file.write(header.encode("utf-8") + b"\n")  # Arrow would quote every name
            arrow_csv.write_csv(rows, file, arrow_csv.WriteOptions(include_header=False, delimiter=delimiter))

    return write


def quoted_name(name: str, delimiter: str) -> str:
    """Return the name of a column for the first line of a text file, between quotes where it needs them."""
    if any(mark in name for mark in (delimiter, '"', "\n", "\r")):
        doubled = name.replace('"', '""')
        return f'"{doubled}"'
    return name


def _write_parquet(part: Path, Y: Array, table: Table, names: Sequence[str]) -> None:
    rows = _arrow_table(Y, table, names)
    from pyarrow import parquet

    parquet.write_table(rows, part)


def _write_arrow(part: Path, Y: Array, table: Table, names: Sequence[str]) -> None:
    rows = _arrow_table(Y, table, names)
    from pyarrow import feather

    feather.write_feather(rows, str(part), compression="uncompressed")


def _write_npy(part: Path, Y: Array, table: Table, names: Sequence[str]) -> None:  # noqa: ARG001
    with part.open("wb") as file:
        np.save(file, Y, allow_pickle=False)


def _write_h5ad(
    path: str | os.PathLike[str], Y: Array, table: Table, source: Path, key: str, *, overwrite: bool
) -> None:
    """Write a copy of an AnnData file with the coordinates in its obsm, matched by the names of its rows."""
    try:
        import h5py
        from anndata.io import read_elem, write_elem

        from manifoldry.data._tables.formats.h5ad import refuse_links_out
    except ImportError:
        raise needs("anndata", "Writing into an AnnData file", "anndata") from None
    with new_file(path, overwrite=overwrite) as part, refusing(source.name, "an AnnData file"):
        shutil.copyfile(source, part)
        with h5py.File(part, "r+") as file:
            refuse_links_out(file, source.name)  # else the coordinates could be written to another file
            names = [str(name) for name in read_elem(file["obs"]).index]
            if "obsm" not in file:
                write_elem(file, "obsm", {})
            if key in file["obsm"] and not overwrite:
                raise UnreadableError(
                    f"{source.name} has {key!r} in its obsm already; it is not overwritten unless asked for "
                    "(overwrite=True)."
                )
            write_elem(file["obsm"], key, _in_order(Y, table, names, source.name))


def _in_order(Y: Array, table: Table, names: Sequence[str], source: str) -> Array:
    """Return coordinates for all rows of the file, NaN for those that were left out."""
    ids = [str(entry) for entry in table.ids.tolist()]
    if ids == list(names) or (table.id_name == "row" and len(ids) == len(names)):
        return Y
    places = {name: i for i, name in enumerate(names)}
    unknown = [entry for entry in ids if entry not in places]
    if unknown or len(places) != len(names):
        raise UnreadableError(f"The rows cannot be found again in {source}, as its obs_names differ or repeat.")
    spread = np.full((len(names), Y.shape[1]), np.nan, Y.dtype if Y.dtype.kind == "f" else np.float64)
    spread[[places[entry] for entry in ids]] = Y
    return spread


WRITERS = {
    ".csv": _write_text(","),
    ".tsv": _write_text("\t"),
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".feather": _write_arrow,
    ".npy": _write_npy,
}
"""Functions that write coordinates, by suffix."""
