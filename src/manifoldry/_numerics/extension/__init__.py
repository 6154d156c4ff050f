"""Out-of-sample extensions: picklable callables that map new points to the coordinates of an embedding."""
