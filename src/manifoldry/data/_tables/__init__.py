"""Tables in files: rows to embed with their ids, labels and colors, and coordinates written next to them."""

from manifoldry.data._tables.preparation import preparation
from manifoldry.data._tables.reading import read_table
from manifoldry.data._tables.table import ReadOptions, Table, features_of
from manifoldry.data._tables.writing import write_coordinates

__all__ = ["ReadOptions", "Table", "features_of", "preparation", "read_table", "write_coordinates"]
