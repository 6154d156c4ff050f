"""Tables in files: rows read for an embedding with what else is known of them, and coordinates written beside them."""

from manifoldry.data._tables.preparation import preparation
from manifoldry.data._tables.reading import read_table
from manifoldry.data._tables.roles import features_of
from manifoldry.data._tables.table import ReadOptions, Table
from manifoldry.data._tables.writing import write_coordinates

__all__ = ["ReadOptions", "Table", "features_of", "preparation", "read_table", "write_coordinates"]
