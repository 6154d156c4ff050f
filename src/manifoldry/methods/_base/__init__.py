"""The estimator contract: what every embedder is, and what those share that begin with a neighbor graph."""

from manifoldry.methods._base._embedder import Embedder, Metric, count_points
from manifoldry.methods._base._estimator import estimator, fitted
from manifoldry.methods._base._graph import GraphEmbedder

__all__ = ["Embedder", "GraphEmbedder", "Metric", "count_points", "estimator", "fitted"]
