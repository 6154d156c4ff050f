"""Overlapping patches: who belongs to which, charts of each, and what neighboring patches share."""
