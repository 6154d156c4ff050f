"""Compiled loops of the eigensolvers."""
