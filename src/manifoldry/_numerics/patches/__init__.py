"""Overlapping patches: covers, charts, overlaps, and rigid alignment."""
