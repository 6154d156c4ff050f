"""What a model file may name: classes, functions and random generators, each in a table; nothing else is ever imported.

A file has the bare name of a class (one name is one class here), so a class may move to another module without a file
becoming unreadable, and no file can name a module.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from manifoldry._core.registry import CLUSTERINGS, METHODS

STATE_CLASSES: dict[str, tuple[str, ...]] = {
    "manifoldry._core.values": ("Certificate", "NeighborGraph", "Spectrum", "Stop", "Trace"),
    "manifoldry._numerics.descent.negative_sampling": ("LayoutParameters",),
    "manifoldry._numerics.extension.affinity": ("AffinityExtension", "DiffusionNystrom", "LaplacianNystrom"),
    "manifoldry._numerics.extension.components": ("Apart", "LonePoint", "Piece"),
    "manifoldry._numerics.extension.distances": (
        "FittedDistances",
        "GramPlacement",
        "ScalingPlacement",
        "StressPlacement",
    ),
    "manifoldry._numerics.extension.divergence": ("DivergencePlacement",),
    "manifoldry._numerics.extension.geodesic": ("GeodesicNystrom", "LandmarkPlacement"),
    "manifoldry._numerics.extension.kernel": ("Kernel", "KernelProjection", "LocalPreimage", "ShiftedProjection"),
    "manifoldry._numerics.extension.linear": (
        "DistanceFeatures",
        "GramFeatures",
        "KernelFeatures",
        "LinearInverse",
        "LinearMap",
    ),
    "manifoldry._numerics.extension.local": ("LocalInverse", "LocalReconstruction"),
    "manifoldry._numerics.geometry.affinity": ("Bandwidths",),
    "manifoldry._numerics.geometry.dimension": ("IntrinsicDimension",),
    "manifoldry._numerics.geometry.edges": ("EdgeMeasure", "LocalLinearity", "RefinedIndex"),
    "manifoldry._numerics.geometry.patch_gaussians": ("LocalGaussians", "Patches"),
    "manifoldry._numerics.patches.atlas": ("Atlas",),
    "manifoldry._numerics.patches.charts": ("CurvedCharts", "GeodesicCharts"),
    "manifoldry._numerics.patches.cover": ("ListedCover", "Membership", "VoronoiCover"),
    "manifoldry._numerics.patches.overlaps": ("Overlaps", "PlacedPatches", "Stitched"),
    "manifoldry._numerics.patches.unfold": ("CenteredPatchInverse", "CenteredPatchMap", "PatchInverse", "PatchMap"),
    "manifoldry._numerics.repulsion.barnes_hut": ("BarnesHutPotential",),
    "manifoldry._numerics.repulsion.exact": ("ExactPotential", "LayoutKernel"),
    "manifoldry._numerics.repulsion.fft": ("FFTPotential", "Mesh"),
    "manifoldry._numerics.scaling": ("Scaling",),
    "manifoldry.data._chunked.sampling": ("RowMoments",),
    "manifoldry.evaluation.selection._auto": ("BestInverse", "BestMap"),
    "manifoldry.evaluation.selection._comparison": ("ComparedMethod", "Comparison", "SkippedMethod"),
    "manifoldry.evaluation.selection._objectives": ("Criterion", "Purpose"),
    "manifoldry.graph._engines": ("Brute", "CosineSearch", "KDTree", "Precomputed", "PyNNDescent"),
    "manifoldry.graph._faiss": ("FaissIVF",),
    "manifoldry.graph._metrics": ("LinearRows", "MappedSearch", "RootProportions", "ScaledColumns"),
    "manifoldry.graph._nndescent": ("NNDescent", "ProjectionTree"),
    "manifoldry.graph._search": ("NeighborIndex", "NeighborRule"),
    "manifoldry.graph._short_circuits": ("ShortCircuits",),
    "manifoldry.methods._base._incremental": ("Growth",),
    "manifoldry.methods.clusters._alternation": ("GeodesicsToMedoids", "LeastCost"),
    "manifoldry.methods.clusters._em": ("MaximumPosterior", "Mixture"),
    "manifoldry.methods.clusters._means": ("NearestCenter",),
    "manifoldry.methods.clusters._spectral": ("LargestCoordinate", "SpectralAssignment"),
    "manifoldry.methods.clusters._subspaces": ("AffineSubspaces",),
    "manifoldry.methods.curves._curve": ("CurvePoint", "CurveProjection", "Polyline"),
    "manifoldry.methods.curves._thin_plate": ("SurfacePoint", "SurfaceProjection", "ThinPlate"),
    "manifoldry.methods.linear._nonlinear_factors": ("PolynomialPoints",),
    "manifoldry.methods.linear._nonlinear_factors.density": ("HermiteBasis", "LatentPolynomial"),
    "manifoldry.methods.linear._probabilistic_pca": ("LatentGaussian",),
    "manifoldry.methods.linear._robust_pca": ("RobustProjection",),
    "manifoldry.methods.neighbor._umap": ("UMAPPlacement",),
    "manifoldry.methods.networks._network": ("Network", "NetworkInverse", "NetworkMap"),
    "manifoldry.methods.spectral._polynomial_pca": ("MonomialFeatures",),
    "manifoldry.methods.unfolding._ipa_growth": ("PatchGrowth",),
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
    "AutoEmbedding": "manifoldry.evaluation.selection._auto",
    "KNeighborsTransformer": "manifoldry.methods._transformer",
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
