"""Fitted models in files that hold arrays and JSON only: reading one runs no code that comes with it."""
