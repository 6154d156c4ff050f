"""Compiled loops over a row range, for what no library has; imported at first use only."""
