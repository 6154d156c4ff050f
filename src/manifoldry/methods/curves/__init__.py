"""Principal curves and surfaces: smooth curves and sheets through the middle of the data."""
