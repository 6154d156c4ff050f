"""Model selection: how many neighbors, how many dimensions, which method; with reasons."""
