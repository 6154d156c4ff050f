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

from manifoldry._core.registry import CLUSTERINGS, METHODS
from manifoldry._core.registry import list_clusterings as list_clusterings
from manifoldry._core.registry import list_methods as list_methods

if TYPE_CHECKING:
    from manifoldry import graph as graph
    from manifoldry._core.values import NeighborGraph as NeighborGraph
    from manifoldry._core.values import Stop as Stop
    from manifoldry._core.warnings import DisconnectedWarning as DisconnectedWarning
    from manifoldry._core.warnings import EmbeddingWarning as EmbeddingWarning
    from manifoldry.data import datasets as datasets
    from manifoldry.data._anndata import embed_anndata as embed_anndata
    from manifoldry.data._anndata import transform_anndata as transform_anndata
    from manifoldry.data._chunked import chunked_data as chunked_data
    from manifoldry.data._chunked.neighbors import neighbor_lists as neighbor_lists
    from manifoldry.data._models import load as load
    from manifoldry.data._models import save as save
    from manifoldry.data._tables import ReadOptions as ReadOptions
    from manifoldry.data._tables import read_table as read_table
    from manifoldry.evaluation import dimension as dimension
    from manifoldry.evaluation import metrics as metrics
    from manifoldry.evaluation.diagnosis import diagnose as diagnose
    from manifoldry.evaluation.metrics import score as score
    from manifoldry.evaluation.selection._compare import AutoEmbedding as AutoEmbedding
    from manifoldry.evaluation.selection._compare import compare as compare
    from manifoldry.evaluation.selection._n_components import suggest_n_components as suggest_n_components
    from manifoldry.evaluation.selection._neighbors import neighborhood_graph as neighborhood_graph
    from manifoldry.evaluation.selection._neighbors import suggest_neighbors as suggest_neighbors
    from manifoldry.methods._transformer import KNeighborsTransformer as KNeighborsTransformer
    from manifoldry.methods.clusters._gpca import GPCA as GPCA
    from manifoldry.methods.clusters._ldlc import LDLC as LDLC
    from manifoldry.methods.clusters._ldlc import VQPCA as VQPCA
    from manifoldry.methods.clusters._ldlc import GeodesicKMedoids as GeodesicKMedoids
    from manifoldry.methods.clusters._mixtures import MFA as MFA
    from manifoldry.methods.clusters._mixtures import MPPCA as MPPCA
    from manifoldry.methods.clusters._spectral import SpectralClustering as SpectralClustering
    from manifoldry.methods.clusters._wrapped import AffinityPropagation as AffinityPropagation
    from manifoldry.methods.clusters._wrapped import KMeans as KMeans
    from manifoldry.methods.curves._curve import PrincipalCurve as PrincipalCurve
    from manifoldry.methods.curves._surface import PrincipalSurface as PrincipalSurface
    from manifoldry.methods.geodesic._isomap import ConformalIsomap as ConformalIsomap
    from manifoldry.methods.geodesic._isomap import Isomap as Isomap
    from manifoldry.methods.geodesic._isomap import KernelIsomap as KernelIsomap
    from manifoldry.methods.geodesic._isomap import LandmarkIsomap as LandmarkIsomap
    from manifoldry.methods.linear._factors import NMF as NMF
    from manifoldry.methods.linear._factors import FactorAnalysis as FactorAnalysis
    from manifoldry.methods.linear._factors import FastICA as FastICA
    from manifoldry.methods.linear._factors import GaussianRandomProjection as GaussianRandomProjection
    from manifoldry.methods.linear._factors import SparseRandomProjection as SparseRandomProjection
    from manifoldry.methods.linear._infomax import InfomaxICA as InfomaxICA
    from manifoldry.methods.linear._lpp import LPP as LPP
    from manifoldry.methods.linear._lpp import KernelLPP as KernelLPP
    from manifoldry.methods.linear._multilinear_pca import MultilinearPCA as MultilinearPCA
    from manifoldry.methods.linear._nonlinear_factors import NonlinearFactorAnalysis as NonlinearFactorAnalysis
    from manifoldry.methods.linear._npp import DPP as DPP
    from manifoldry.methods.linear._npp import NPP as NPP
    from manifoldry.methods.linear._npp import ONPP as ONPP
    from manifoldry.methods.linear._npp import LinearLTSA as LinearLTSA
    from manifoldry.methods.linear._pca import PCA as PCA
    from manifoldry.methods.linear._pca import IncrementalPCA as IncrementalPCA
    from manifoldry.methods.linear._pca import SparsePCA as SparsePCA
    from manifoldry.methods.linear._probabilistic_pca import ProbabilisticPCA as ProbabilisticPCA
    from manifoldry.methods.linear._pursuit import L1PCA as L1PCA
    from manifoldry.methods.linear._pursuit import ProjectionPursuit as ProjectionPursuit
    from manifoldry.methods.linear._robust_pca import RobustPCA as RobustPCA
    from manifoldry.methods.local._lle import LLE as LLE
    from manifoldry.methods.local._lle import LTSA as LTSA
    from manifoldry.methods.local._lle import HessianEigenmaps as HessianEigenmaps
    from manifoldry.methods.local._lle import ModifiedLLE as ModifiedLLE
    from manifoldry.methods.local._lle import NonnegativeLLE as NonnegativeLLE
    from manifoldry.methods.neighbor._aligned import AlignedEmbedding as AlignedEmbedding
    from manifoldry.methods.neighbor._pacmap import LocalMAP as LocalMAP
    from manifoldry.methods.neighbor._pacmap import PaCMAP as PaCMAP
    from manifoldry.methods.neighbor._trimap import TriMap as TriMap
    from manifoldry.methods.neighbor._tsne import SNE as SNE
    from manifoldry.methods.neighbor._tsne import TSNE as TSNE
    from manifoldry.methods.neighbor._tsne import SymmetricSNE as SymmetricSNE
    from manifoldry.methods.neighbor._umap import UMAP as UMAP
    from manifoldry.methods.networks._autoencoder import Autoencoder as Autoencoder
    from manifoldry.methods.networks._parametric_umap import ParametricTSNE as ParametricTSNE
    from manifoldry.methods.networks._parametric_umap import ParametricUMAP as ParametricUMAP
    from manifoldry.methods.scaling._classical_mds import ClassicalMDS as ClassicalMDS
    from manifoldry.methods.scaling._mds import MDS as MDS
    from manifoldry.methods.scaling._mds import NonmetricMDS as NonmetricMDS
    from manifoldry.methods.spectral._diffusion import DiffusionMaps as DiffusionMaps
    from manifoldry.methods.spectral._kernel_pca import KernelPCA as KernelPCA
    from manifoldry.methods.spectral._laplacian import CommuteTime as CommuteTime
    from manifoldry.methods.spectral._laplacian import LaplacianEigenmaps as LaplacianEigenmaps
    from manifoldry.methods.spectral._phate import PHATE as PHATE
    from manifoldry.methods.spectral._polynomial_pca import PolynomialPCA as PolynomialPCA
    from manifoldry.methods.unfolding._align_patches import align_patches as align_patches
    from manifoldry.methods.unfolding._charting import ManifoldCharting as ManifoldCharting
    from manifoldry.methods.unfolding._eat import EAT as EAT
    from manifoldry.methods.unfolding._fast_mvu import FastMVU as FastMVU
    from manifoldry.methods.unfolding._fast_mvu import LandmarkMVU as LandmarkMVU
    from manifoldry.methods.unfolding._ipa import IPA as IPA
    from manifoldry.methods.unfolding._mvu import MVU as MVU
    from manifoldry.methods.unfolding._mvu_variants import MVE as MVE
    from manifoldry.methods.unfolding._mvu_variants import ColoredMVU as ColoredMVU
    from manifoldry.methods.unfolding._spe import SPE as SPE
    from manifoldry.methods.unfolding._tesseramap import TesseraMap as TesseraMap
    from manifoldry.viz import plot as plot
    from manifoldry.viz._report.build import build_report as build_report

__version__ = "0.1.0"  # the only place: pyproject.toml and CITATION.cff read it here
__released__ = "2026-11-19"  # the day of this version, for citations

_LOCATIONS = {
    **METHODS,
    **CLUSTERINGS,
    "AlignedEmbedding": "manifoldry.methods.neighbor._aligned",
    "AutoEmbedding": "manifoldry.evaluation.selection._compare",
    "DisconnectedWarning": "manifoldry._core.warnings",
    "EmbeddingWarning": "manifoldry._core.warnings",
    "KNeighborsTransformer": "manifoldry.methods._transformer",
    "NeighborGraph": "manifoldry._core.values",
    "ReadOptions": "manifoldry.data._tables",
    "Stop": "manifoldry._core.values",
    "align_patches": "manifoldry.methods.unfolding._align_patches",
    "build_report": "manifoldry.viz._report.build",
    "compare": "manifoldry.evaluation.selection._compare",
    "diagnose": "manifoldry.evaluation.diagnosis",
    "embed_anndata": "manifoldry.data._anndata",
    "load": "manifoldry.data._models",
    "neighbor_lists": "manifoldry.data._chunked.neighbors",
    "neighborhood_graph": "manifoldry.evaluation.selection._neighbors",
    "read_table": "manifoldry.data._tables",
    "chunked_data": "manifoldry.data._chunked",
    "save": "manifoldry.data._models",
    "score": "manifoldry.evaluation.metrics",
    "suggest_n_components": "manifoldry.evaluation.selection._n_components",
    "suggest_neighbors": "manifoldry.evaluation.selection._neighbors",
    "transform_anndata": "manifoldry.data._anndata",
}
"""The module that defines each public class and function."""

_MODULES = {
    "datasets": "manifoldry.data.datasets",
    "dimension": "manifoldry.evaluation.dimension",
    "graph": "manifoldry.graph",
    "metrics": "manifoldry.evaluation.metrics",
    "plot": "manifoldry.viz.plot",
}
"""The public modules; each lists its names in ``__all__``."""

__all__ = sorted([*_LOCATIONS, *_MODULES, "list_clusterings", "list_methods"])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(_MODULES[name])
    elif name in _LOCATIONS:
        value = getattr(importlib.import_module(_LOCATIONS[name]), name)
    else:
        raise AttributeError(f"module 'manifoldry' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
