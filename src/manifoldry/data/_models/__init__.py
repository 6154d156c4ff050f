"""Fitted models in files of arrays and JSON: reading a file runs no code from it."""

from manifoldry.data._models.files import load_model, read_metadata, save_model

load, save = load_model, save_model  # their names in the package itself

__all__ = ["load", "load_model", "read_metadata", "save", "save_model"]
