"""The colors of every picture, page and notebook: one list of classes, one scale of numbers, the inks of the frame."""

from __future__ import annotations

PALETTE = (
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#94a4a2",
    "#832db6",
    "#a96b59",
    "#e76300",
    "#b9ac70",
    "#717581",
    "#92dadd",
)
"""Colors of classes, in this order: ten that people with any kind of color vision tell apart, on light and on dark
ground (petroff2021)."""

COLORMAP, DIVERGING_COLORMAP = "viridis", "PuOr_r"
"""Colors of numbers, and of numbers with a middle: their lightness rises or falls evenly, so that they can be read in
gray and without a sense of red or green."""

PAPER, INK, FAINT, GHOST = "#ffffff", "#1d2433", "#667085", "#e4e7ed"
"""The ground, text, less important text, and what lies behind."""

UNKNOWN = "#c9ced6"
"""Points without a class or number."""

ACCENT = PALETTE[0]
"""Points of which nothing is known but their place."""
