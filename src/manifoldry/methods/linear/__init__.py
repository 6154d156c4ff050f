"""Linear maps: principal components and their variants, factors, projections that keep neighborhoods."""
