"""The estimator contract, and the shared beginnings of graph methods and of geodesic ones."""

from manifoldry.base.embedder import Embedder
from manifoldry.base.geodesics import GeodesicEmbedder, from_landmarks, from_scaling
from manifoldry.base.graphs import DisconnectedWarning, GraphEmbedder

__all__ = [
    "DisconnectedWarning",
    "Embedder",
    "GeodesicEmbedder",
    "GraphEmbedder",
    "from_landmarks",
    "from_scaling",
]
