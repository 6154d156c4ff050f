"""The estimator contract, and the shared beginnings of graph methods and of geodesic ones."""

from manifoldry.base.embedder import Embedder, stores
from manifoldry.base.geodesics import GeodesicEmbedder, from_landmarks, from_scaling
from manifoldry.base.graphs import DisconnectedWarning, GraphEmbedder
from manifoldry.base.linear import LinearEmbedder
from manifoldry.base.local import LocalEmbedder, bottom

__all__ = [
    "DisconnectedWarning",
    "Embedder",
    "GeodesicEmbedder",
    "GraphEmbedder",
    "LinearEmbedder",
    "LocalEmbedder",
    "bottom",
    "from_landmarks",
    "from_scaling",
    "stores",
]
