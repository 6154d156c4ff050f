"""File formats: how each is recognized and read."""
