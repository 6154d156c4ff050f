"""What a model file may name: classes, functions and random generators, each in a table; nothing else is ever imported.

A file has the bare name of a class (one name is one class here), so a class may move to another module without a file
becoming unreadable, and no file can name a module.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from manifoldry.registry import CLUSTERINGS, METHODS

STATE_CLASSES: dict[str, tuple[str, ...]] = {
    "manifoldry.base.incremental": ("Growth",),
    "manifoldry.blocks.moments": ("RowMoments",),
    "manifoldry.choosing.auto": ("BestInverse", "BestMap"),
    "manifoldry.choosing.comparison": ("ComparedMethod", "Comparison", "SkippedMethod"),
    "manifoldry.choosing.purposes": ("Criterion", "Purpose"),
    "manifoldry.clusters.assignment": ("GeodesicsToMedoids", "LeastCost"),
    "manifoldry.clusters.gaussians": ("MaximumPosterior", "Mixture"),
    "manifoldry.clusters.means": ("NearestCenter",),
    "manifoldry.clusters.rounding": ("LargestCoordinate", "SpectralAssignment"),
    "manifoldry.clusters.subspaces": ("AffineSubspaces",),
    "manifoldry.embedders.curve": ("CurvePoint", "CurveProjection", "Polyline"),
    "manifoldry.embedders.factors": ("PolynomialPoints",),
    "manifoldry.extend.affinity": ("AffinityExtension", "DiffusionNystrom", "LaplacianNystrom"),
    "manifoldry.extend.divergence_placement": ("DivergencePlacement",),
    "manifoldry.extend.kernel_image": ("ShiftedProjection",),
    "manifoldry.extend.kernel_projection": ("Kernel", "KernelProjection", "LocalPreimage"),
    "manifoldry.extend.linear": ("DistanceFeatures", "GramFeatures", "KernelFeatures", "LinearInverse", "LinearMap"),
    "manifoldry.extend.local": ("LocalInverse", "LocalReconstruction"),
    "manifoldry.extend.network_map": ("NetworkInverse", "NetworkMap"),
    "manifoldry.extend.nystrom": ("GeodesicNystrom", "LandmarkPlacement"),
    "manifoldry.extend.pieces": ("Apart", "LonePoint", "Piece"),
    "manifoldry.extend.placement": ("FittedDistances", "GramPlacement", "ScalingPlacement", "StressPlacement"),
    "manifoldry.extend.polynomial_rows": ("MonomialFeatures",),
    "manifoldry.extend.robust_rows": ("RobustProjection",),
    "manifoldry.extend.surface_projection": ("SurfacePoint", "SurfaceProjection"),
    "manifoldry.extend.umap_placement": ("UMAPPlacement",),
    "manifoldry.geometry.affinity": ("Bandwidths",),
    "manifoldry.geometry.dimension": ("IntrinsicDimension",),
    "manifoldry.geometry.edges": ("EdgeMeasure", "RefinedIndex"),
    "manifoldry.geometry.local_linearity": ("LocalLinearity",),
    "manifoldry.geometry.patch_gaussians": ("LocalGaussians", "Patches"),
    "manifoldry.neighbors.cosine": ("CosineSearch",),
    "manifoldry.neighbors.engines": ("Brute", "KDTree", "Precomputed", "PyNNDescent"),
    "manifoldry.neighbors.faiss_ivf": ("FaissIVF",),
    "manifoldry.neighbors.metrics": ("LinearRows", "MappedSearch", "RootProportions", "ScaledColumns"),
    "manifoldry.neighbors.nndescent": ("NNDescent", "ProjectionTree"),
    "manifoldry.neighbors.search": ("NeighborIndex", "NeighborRule"),
    "manifoldry.neighbors.short_circuits": ("ShortCircuits",),
    "manifoldry.patches.atlas": ("Atlas",),
    "manifoldry.patches.cover": ("ListedCover", "Membership", "VoronoiCover"),
    "manifoldry.patches.curved": ("CurvedCharts",),
    "manifoldry.patches.geodesic": ("GeodesicCharts",),
    "manifoldry.patches.growth": ("PatchGrowth",),
    "manifoldry.patches.overlaps": ("Overlaps",),
    "manifoldry.patches.stitch": ("PlacedPatches", "Stitched"),
    "manifoldry.patches.unfold": ("CenteredPatchInverse", "CenteredPatchMap", "PatchInverse", "PatchMap"),
    "manifoldry.solve.hermite": ("HermiteBasis",),
    "manifoldry.solve.latent_gaussian": ("LatentGaussian",),
    "manifoldry.solve.latent_polynomial": ("LatentPolynomial",),
    "manifoldry.solve.negative_sampling": ("LayoutParameters",),
    "manifoldry.solve.network": ("Network",),
    "manifoldry.solve.repulsion.barnes_hut": ("BarnesHutPotential",),
    "manifoldry.solve.repulsion.exact": ("ExactPotential",),
    "manifoldry.solve.repulsion.fft": ("FFTPotential",),
    "manifoldry.solve.repulsion.layout_kernel": ("LayoutKernel",),
    "manifoldry.solve.repulsion.mesh": ("Mesh",),
    "manifoldry.solve.scaling": ("Scaling",),
    "manifoldry.solve.thin_plate": ("ThinPlate",),
    "manifoldry.values": ("Certificate", "NeighborGraph", "Spectrum", "Stop", "Trace"),
}
"""What fits leave in their estimators, by module. A class that is not here is refused in saving and in loading."""

SKLEARN_CLASSES: dict[str, tuple[str, ...]] = {
    "sklearn.decomposition": ("PCA", "TruncatedSVD"),
    "sklearn.impute": ("MissingIndicator", "SimpleImputer"),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("FunctionTransformer", "MinMaxScaler", "Normalizer", "RobustScaler", "StandardScaler"),
}
"""Steps of a pipeline before the model; in a file their names begin with ``sklearn.``."""

ESTIMATORS: dict[str, str] = {
    **METHODS,
    **CLUSTERINGS,
    "AutoEmbedding": "manifoldry.choosing.auto",
    "KNeighborsTransformer": "manifoldry.neighbors.transformer",
}
"""The estimators of this library and their modules: what a model is, or a pipeline ends with."""

CLASSES: dict[str, str] = {
    **{name: module for module, names in STATE_CLASSES.items() for name in names},
    **{f"sklearn.{name}": module for module, names in SKLEARN_CLASSES.items() for name in names},
    **ESTIMATORS,
}

SPARSE_CLASSES = ("csr_array", "csr_matrix", "csc_array", "csc_matrix")
FUNCTIONS = ("arcsinh", "cbrt", "exp", "expm1", "log", "log10", "log1p", "log2", "sinh", "sqrt", "square")
"""Functions of numpy that a FunctionTransformer may have."""
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


@cache
def find_class(name: str) -> type:
    """Return the class of a name in the tables; any other name is refused, and nothing is imported for it."""
    if name not in CLASSES:
        raise ValueError(f"it names the class {name[:80]!r}, which no model of this version has")
    cls: type = getattr(importlib.import_module(CLASSES[name]), name.removeprefix("sklearn."))
    return cls


def class_name(cls: type) -> str | None:
    """Return the name under which a class stands in the tables, None for one that does not."""
    for name in (cls.__name__, f"sklearn.{cls.__name__}"):
        package = CLASSES.get(name, "-").partition(".")[0]
        if cls.__module__.partition(".")[0] == package and find_class(name) is cls:
            return name
    return None


def is_estimator(name: str) -> bool:
    """Tell whether a name is that of an estimator: one of ours, or of scikit-learn."""
    return name in ESTIMATORS or name.startswith("sklearn.")


def find_function(name: Any) -> Any:
    """Return a function of numpy by its name in the table."""
    if name not in FUNCTIONS:
        raise ValueError(f"it names the function {str(name)[:80]!r}, which no model of this version has")
    return getattr(importlib.import_module("numpy"), name)


def function_name(function: Any) -> str | None:
    """Return the name under which a function stands in the table, None for one that does not."""
    return next((name for name in FUNCTIONS if find_function(name) is function), None)
