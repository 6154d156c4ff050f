"""Which points, clusters and pictures can be trusted: reliability, stability, null comparison, map continuity."""
