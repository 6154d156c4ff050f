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

from manifoldry._core.registry import CLUSTERINGS, METHODS, Card, list_clusterings, list_methods

if TYPE_CHECKING:
    from manifoldry._core.run import Progress
    from manifoldry._core.values import Certificate, Embedding, NeighborGraph, Spectrum, Stop, Trace
    from manifoldry._core.warnings import DisconnectedWarning, EmbeddingWarning
    from manifoldry.data import datasets
    from manifoldry.data._anndata import embed_anndata, transform_anndata
    from manifoldry.data._chunked import RowBlocks, row_blocks
    from manifoldry.data._chunked.neighbors import ListedNeighbors, neighbor_lists
    from manifoldry.data._models import load, save
    from manifoldry.data._tables import ReadOptions, Table, read_table
    from manifoldry.evaluation import dimension, metrics
    from manifoldry.evaluation.diagnosis import Diagnosis, Finding, diagnose
    from manifoldry.evaluation.score._score import score
    from manifoldry.evaluation.selection._auto import AutoEmbedding
    from manifoldry.evaluation.selection._compare import compare
    from manifoldry.evaluation.selection._comparison import Comparison
    from manifoldry.evaluation.selection._n_components import suggest_n_components
    from manifoldry.evaluation.selection._neighborhood_graph import neighborhood_graph
    from manifoldry.evaluation.selection._neighbors import NeighborSuggestion, suggest_neighbors
    from manifoldry.methods._transformer import KNeighborsTransformer
    from manifoldry.methods.clusters._gpca import GPCA
    from manifoldry.methods.clusters._ldlc import LDLC
    from manifoldry.methods.clusters._medoids import GeodesicKMedoids
    from manifoldry.methods.clusters._mixtures import MFA, MPPCA
    from manifoldry.methods.clusters._spectral import SpectralClustering
    from manifoldry.methods.clusters._vqpca import VQPCA
    from manifoldry.methods.clusters._wrapped import AffinityPropagation, KMeans
    from manifoldry.methods.curves._curve import PrincipalCurve
    from manifoldry.methods.curves._surface import PrincipalSurface
    from manifoldry.methods.geodesic._isomap import Isomap
    from manifoldry.methods.geodesic._variants import ConformalIsomap, KernelIsomap, LandmarkIsomap
    from manifoldry.methods.linear._dpp import DPP
    from manifoldry.methods.linear._factors import (
        NMF,
        FactorAnalysis,
        FastICA,
        GaussianRandomProjection,
        SparseRandomProjection,
    )
    from manifoldry.methods.linear._infomax import InfomaxICA
    from manifoldry.methods.linear._l1_pca import L1PCA
    from manifoldry.methods.linear._lpp import LPP, KernelLPP
    from manifoldry.methods.linear._multilinear_pca import MultilinearPCA
    from manifoldry.methods.linear._nonlinear_factors import NonlinearFactorAnalysis
    from manifoldry.methods.linear._npp import NPP, ONPP, LinearLTSA
    from manifoldry.methods.linear._pca import PCA, IncrementalPCA, SparsePCA
    from manifoldry.methods.linear._probabilistic_pca import ProbabilisticPCA
    from manifoldry.methods.linear._pursuit import ProjectionPursuit
    from manifoldry.methods.linear._robust_pca import RobustPCA
    from manifoldry.methods.local._lle import LLE, ModifiedLLE, NonnegativeLLE
    from manifoldry.methods.local._ltsa import LTSA, HessianEigenmaps
    from manifoldry.methods.neighbor._sne import SNE, SymmetricSNE
    from manifoldry.methods.neighbor._tsne import TSNE
    from manifoldry.methods.neighbor._umap import UMAP
    from manifoldry.methods.networks._autoencoder import Autoencoder
    from manifoldry.methods.networks._parametric_umap import ParametricTSNE, ParametricUMAP
    from manifoldry.methods.scaling._classical_mds import ClassicalMDS
    from manifoldry.methods.scaling._mds import MDS, NonmetricMDS
    from manifoldry.methods.spectral._commute import CommuteTime
    from manifoldry.methods.spectral._diffusion import DiffusionMaps
    from manifoldry.methods.spectral._kernel_pca import KernelPCA
    from manifoldry.methods.spectral._laplacian import LaplacianEigenmaps
    from manifoldry.methods.spectral._polynomial_pca import PolynomialPCA
    from manifoldry.methods.unfolding._align_patches import PatchAlignment, align_patches
    from manifoldry.methods.unfolding._charting import ManifoldCharting
    from manifoldry.methods.unfolding._colored_mvu import ColoredMVU
    from manifoldry.methods.unfolding._eat import EAT
    from manifoldry.methods.unfolding._fast_mvu import FastMVU, LandmarkMVU
    from manifoldry.methods.unfolding._ipa import IPA
    from manifoldry.methods.unfolding._mve import MVE
    from manifoldry.methods.unfolding._mvu import MVU
    from manifoldry.methods.unfolding._spe import SPE
    from manifoldry.methods.unfolding._tesseramap import TesseraMap
    from manifoldry.viz import plot
    from manifoldry.viz._report.build import build_report
    from manifoldry.viz._report.contents import Report

__version__ = "0.1.0"

_PLACES = {
    **METHODS,
    **CLUSTERINGS,
    "AutoEmbedding": "manifoldry.evaluation.selection._auto",
    "Certificate": "manifoldry._core.values",
    "Comparison": "manifoldry.evaluation.selection._comparison",
    "Diagnosis": "manifoldry.evaluation.diagnosis",
    "DisconnectedWarning": "manifoldry._core.warnings",
    "Embedding": "manifoldry._core.values",
    "EmbeddingWarning": "manifoldry._core.warnings",
    "Finding": "manifoldry.evaluation.diagnosis",
    "KNeighborsTransformer": "manifoldry.methods._transformer",
    "ListedNeighbors": "manifoldry.data._chunked.neighbors",
    "NeighborGraph": "manifoldry._core.values",
    "NeighborSuggestion": "manifoldry.evaluation.selection._neighbors",
    "PatchAlignment": "manifoldry.methods.unfolding._align_patches",
    "Progress": "manifoldry._core.run",
    "ReadOptions": "manifoldry.data._tables",
    "Report": "manifoldry.viz._report.contents",
    "RowBlocks": "manifoldry.data._chunked",
    "Spectrum": "manifoldry._core.values",
    "Stop": "manifoldry._core.values",
    "Table": "manifoldry.data._tables",
    "Trace": "manifoldry._core.values",
    "align_patches": "manifoldry.methods.unfolding._align_patches",
    "build_report": "manifoldry.viz._report.build",
    "compare": "manifoldry.evaluation.selection._compare",
    "diagnose": "manifoldry.evaluation.diagnosis",
    "neighbor_lists": "manifoldry.data._chunked.neighbors",
    "neighborhood_graph": "manifoldry.evaluation.selection._neighborhood_graph",
    "read_table": "manifoldry.data._tables",
    "row_blocks": "manifoldry.data._chunked",
    "load": "manifoldry.data._models",
    "save": "manifoldry.data._models",
    "embed_anndata": "manifoldry.data._anndata",
    "score": "manifoldry.evaluation.score._score",
    "suggest_n_components": "manifoldry.evaluation.selection._n_components",
    "suggest_neighbors": "manifoldry.evaluation.selection._neighbors",
    "transform_anndata": "manifoldry.data._anndata",
}
_MODULES = {
    "datasets": "manifoldry.data.datasets",
    "dimension": "manifoldry.evaluation.dimension",
    "metrics": "manifoldry.evaluation.metrics",
    "plot": "manifoldry.viz.plot",
}

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
    "compare",
    "datasets",
    "diagnose",
    "dimension",
    "embed_anndata",
    "list_clusterings",
    "list_methods",
    "load",
    "metrics",
    "neighbor_lists",
    "neighborhood_graph",
    "plot",
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
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _PLACES:
        value = getattr(importlib.import_module(_PLACES[name]), name)
    else:
        raise AttributeError(f"module 'manifoldry' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
