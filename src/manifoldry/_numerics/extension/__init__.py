"""New points: picklable callables that place them in an embedding already found."""
