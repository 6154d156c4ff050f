"""Compiled loops over ranges of rows that no library provides; imported on first use only."""
