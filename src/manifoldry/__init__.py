"""manifoldry unfolds high-dimensional data.

Every name below is imported when it is first used, so ``import manifoldry`` itself takes no time.

Examples
--------
>>> import manifoldry
>>> roll = manifoldry.datasets.swiss_roll(500)
>>> manifoldry.Isomap(n_neighbors=10).fit_transform(roll.X).shape
(500, 2)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from manifoldry.registry import CLUSTERINGS, METHODS, Card, clusterings, methods

if TYPE_CHECKING:
    from manifoldry import datasets, dimension, plot, quality
    from manifoldry.annotated import embed_anndata, transform_anndata
    from manifoldry.blocks import RowBlocks, row_blocks
    from manifoldry.choosing.auto import AutoEmbedding
    from manifoldry.choosing.compare import compare
    from manifoldry.choosing.comparison import Comparison
    from manifoldry.choosing.n_components import suggest_n_components
    from manifoldry.choosing.neighbor_suggestion import NeighborSuggestion
    from manifoldry.choosing.neighborhood_graph import neighborhood_graph
    from manifoldry.choosing.neighbors import suggest_neighbors
    from manifoldry.clusters.gpca import GPCA
    from manifoldry.clusters.ldlc import LDLC
    from manifoldry.clusters.medoids import GeodesicKMedoids
    from manifoldry.clusters.mixtures import MFA, MPPCA
    from manifoldry.clusters.spectral import SpectralClustering
    from manifoldry.clusters.vqpca import VQPCA
    from manifoldry.clusters.wrapped import AffinityPropagation, KMeans
    from manifoldry.diagnosis import Diagnosis, Finding, diagnose
    from manifoldry.embedders.autoencoder import Autoencoder
    from manifoldry.embedders.charting import ManifoldCharting
    from manifoldry.embedders.classical_mds import ClassicalMDS
    from manifoldry.embedders.colored import ColoredMVU
    from manifoldry.embedders.commute import CommuteTime
    from manifoldry.embedders.curve import PrincipalCurve
    from manifoldry.embedders.diffusion import DiffusionMaps
    from manifoldry.embedders.dpp import DPP
    from manifoldry.embedders.eat import EAT
    from manifoldry.embedders.factors import NonlinearFactorAnalysis
    from manifoldry.embedders.fastmvu import FastMVU, LandmarkMVU
    from manifoldry.embedders.infomax import InfomaxICA
    from manifoldry.embedders.ipa import IPA
    from manifoldry.embedders.isomap import Isomap
    from manifoldry.embedders.isomap_variants import ConformalIsomap, KernelIsomap, LandmarkIsomap
    from manifoldry.embedders.kernelpca import KernelPCA
    from manifoldry.embedders.l1pca import L1PCA
    from manifoldry.embedders.laplacian import LaplacianEigenmaps
    from manifoldry.embedders.lle import LLE, ModifiedLLE, NonnegativeLLE
    from manifoldry.embedders.lltsa import LinearLTSA
    from manifoldry.embedders.lpp import LPP, KernelLPP
    from manifoldry.embedders.ltsa import LTSA, HessianEigenmaps
    from manifoldry.embedders.mds import MDS, NonmetricMDS
    from manifoldry.embedders.multilinear import MultilinearPCA
    from manifoldry.embedders.mve import MVE
    from manifoldry.embedders.mvu import MVU
    from manifoldry.embedders.npp import NPP, ONPP
    from manifoldry.embedders.parametric_tsne import ParametricTSNE
    from manifoldry.embedders.parametric_umap import ParametricUMAP
    from manifoldry.embedders.polynomial import PolynomialPCA
    from manifoldry.embedders.probabilistic import ProbabilisticPCA
    from manifoldry.embedders.pursuit import ProjectionPursuit
    from manifoldry.embedders.robustpca import RobustPCA
    from manifoldry.embedders.sne import SNE, SymmetricSNE
    from manifoldry.embedders.spe import SPE
    from manifoldry.embedders.surface import PrincipalSurface
    from manifoldry.embedders.tesseramap import TesseraMap
    from manifoldry.embedders.tsne import TSNE
    from manifoldry.embedders.umap import UMAP
    from manifoldry.embedders.wrapped import PCA, IncrementalPCA, SparsePCA
    from manifoldry.embedders.wrapped_factors import NMF, FactorAnalysis, FastICA
    from manifoldry.embedders.wrapped_random import GaussianRandomProjection, SparseRandomProjection
    from manifoldry.neighbors.blockwise import ListedNeighbors, neighbor_lists
    from manifoldry.neighbors.transformer import KNeighborsTransformer
    from manifoldry.patches.align import PatchAlignment, align_patches
    from manifoldry.quality import score
    from manifoldry.report.build import build_report
    from manifoldry.report.contents import Report
    from manifoldry.run import Progress
    from manifoldry.storage import load, save
    from manifoldry.tables import ReadOptions, Table, read_table
    from manifoldry.values import Certificate, Embedding, NeighborGraph, Spectrum, Stop, Trace
    from manifoldry.warnings import DisconnectedWarning, EmbeddingWarning

__version__ = "0.1.0"

_PLACES = {
    **METHODS,
    **CLUSTERINGS,
    "AutoEmbedding": "manifoldry.choosing.auto",
    "Certificate": "manifoldry.values",
    "Comparison": "manifoldry.choosing.comparison",
    "Diagnosis": "manifoldry.diagnosis",
    "DisconnectedWarning": "manifoldry.warnings",
    "Embedding": "manifoldry.values",
    "EmbeddingWarning": "manifoldry.warnings",
    "Finding": "manifoldry.diagnosis",
    "KNeighborsTransformer": "manifoldry.neighbors.transformer",
    "ListedNeighbors": "manifoldry.neighbors.blockwise",
    "NeighborGraph": "manifoldry.values",
    "NeighborSuggestion": "manifoldry.choosing.neighbor_suggestion",
    "PatchAlignment": "manifoldry.patches.align",
    "Progress": "manifoldry.run",
    "ReadOptions": "manifoldry.tables",
    "Report": "manifoldry.report.contents",
    "RowBlocks": "manifoldry.blocks",
    "Spectrum": "manifoldry.values",
    "Stop": "manifoldry.values",
    "Table": "manifoldry.tables",
    "Trace": "manifoldry.values",
    "align_patches": "manifoldry.patches.align",
    "build_report": "manifoldry.report.build",
    "compare": "manifoldry.choosing.compare",
    "diagnose": "manifoldry.diagnosis",
    "neighbor_lists": "manifoldry.neighbors.blockwise",
    "neighborhood_graph": "manifoldry.choosing.neighborhood_graph",
    "read_table": "manifoldry.tables",
    "row_blocks": "manifoldry.blocks",
    "load": "manifoldry.storage",
    "save": "manifoldry.storage",
    "embed_anndata": "manifoldry.annotated",
    "score": "manifoldry.quality",
    "suggest_n_components": "manifoldry.choosing.n_components",
    "suggest_neighbors": "manifoldry.choosing.neighbors",
    "transform_anndata": "manifoldry.annotated",
}
_MODULES = ("datasets", "dimension", "plot", "quality")

__all__ = [
    "DPP",
    "EAT",
    "GPCA",
    "IPA",
    "L1PCA",
    "LDLC",
    "LLE",
    "LPP",
    "LTSA",
    "MDS",
    "MFA",
    "MPPCA",
    "MVE",
    "MVU",
    "NMF",
    "NPP",
    "ONPP",
    "PCA",
    "SNE",
    "SPE",
    "TSNE",
    "UMAP",
    "VQPCA",
    "AffinityPropagation",
    "AutoEmbedding",
    "Autoencoder",
    "Card",
    "Certificate",
    "ClassicalMDS",
    "ColoredMVU",
    "CommuteTime",
    "Comparison",
    "ConformalIsomap",
    "Diagnosis",
    "DiffusionMaps",
    "DisconnectedWarning",
    "Embedding",
    "EmbeddingWarning",
    "FactorAnalysis",
    "FastICA",
    "FastMVU",
    "Finding",
    "GaussianRandomProjection",
    "GeodesicKMedoids",
    "HessianEigenmaps",
    "IncrementalPCA",
    "InfomaxICA",
    "Isomap",
    "KMeans",
    "KNeighborsTransformer",
    "KernelIsomap",
    "KernelLPP",
    "KernelPCA",
    "LandmarkIsomap",
    "LandmarkMVU",
    "LaplacianEigenmaps",
    "LinearLTSA",
    "ListedNeighbors",
    "ManifoldCharting",
    "ModifiedLLE",
    "MultilinearPCA",
    "NeighborGraph",
    "NeighborSuggestion",
    "NonlinearFactorAnalysis",
    "NonmetricMDS",
    "NonnegativeLLE",
    "ParametricTSNE",
    "ParametricUMAP",
    "PatchAlignment",
    "PolynomialPCA",
    "PrincipalCurve",
    "PrincipalSurface",
    "ProbabilisticPCA",
    "Progress",
    "ProjectionPursuit",
    "ReadOptions",
    "Report",
    "RobustPCA",
    "RowBlocks",
    "SparsePCA",
    "SparseRandomProjection",
    "SpectralClustering",
    "Spectrum",
    "Stop",
    "SymmetricSNE",
    "Table",
    "TesseraMap",
    "Trace",
    "align_patches",
    "build_report",
    "clusterings",
    "compare",
    "datasets",
    "diagnose",
    "dimension",
    "embed_anndata",
    "load",
    "methods",
    "neighbor_lists",
    "neighborhood_graph",
    "plot",
    "quality",
    "read_table",
    "row_blocks",
    "save",
    "score",
    "suggest_n_components",
    "suggest_neighbors",
    "transform_anndata",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(f"manifoldry.{name}")
    elif name in _PLACES:
        value = getattr(importlib.import_module(_PLACES[name]), name)
    else:
        raise AttributeError(f"module 'manifoldry' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
