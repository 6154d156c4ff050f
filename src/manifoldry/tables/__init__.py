"""Tables in files: rows read for an embedding with what else is known of them, and coordinates written beside them."""

from manifoldry.tables.reading import read_table
from manifoldry.tables.table import ReadOptions, Table

__all__ = ["ReadOptions", "Table", "read_table"]
