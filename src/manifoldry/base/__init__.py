"""The estimator contract: what every embedder is, and what those share that begin with a neighbor graph."""

from manifoldry.base.embedder import Embedder, Metric, count_points
from manifoldry.base.estimator import estimator, fitted
from manifoldry.base.graph import GraphEmbedder

__all__ = ["Embedder", "GraphEmbedder", "Metric", "count_points", "estimator", "fitted"]
