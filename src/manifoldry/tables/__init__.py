"""Tables in files: rows read for an embedding with what else is known of them, and coordinates written beside them."""

from manifoldry.tables.matching import features_of
from manifoldry.tables.preparation import preparation
from manifoldry.tables.reading import read_table
from manifoldry.tables.table import ReadOptions, Table
from manifoldry.tables.writing import write_coordinates

__all__ = ["ReadOptions", "Table", "features_of", "preparation", "read_table", "write_coordinates"]
