"""Low-rank semidefinite programs over frames and shifts, with a proof of how far from the optimum a solution is."""
