"""The score: all metrics of an embedding in one pass over sampled points."""
