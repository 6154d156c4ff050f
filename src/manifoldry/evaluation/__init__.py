"""Evaluation: metrics, reliability, stability, diagnosis, dimension and model selection."""
