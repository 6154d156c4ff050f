"""The metrics that `manifoldry.metrics` lists and `score` combines."""
