"""What a model file may name: classes by registered tags, functions, and random generators. Nothing else is imported.

A file never names a module: a class is stored under its tag, which is its name, and may move to another module.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from manifoldry._core.registry import CLUSTERINGS, METHODS

STATE_CLASSES: dict[str, tuple[str, ...]] = {
    "manifoldry._core.values": ("Certificate", "NeighborGraph", "Spectrum", "Stop", "Trace"),
    "manifoldry._numerics.descent.negative_sampling": ("LayoutParameters",),
    "manifoldry._numerics.extension.affinity": (
        "AffinityExtension",
        "DiffusionNystrom",
        "DivergenceExtension",
        "LaplacianNystrom",
    ),
    "manifoldry._numerics.extension.components": ("SeparateComponents", "SinglePointExtension", "ComponentExtension"),
    "manifoldry._numerics.extension.distances": (
        "FittedDistances",
        "GramExtension",
        "ScalingExtension",
        "StressExtension",
    ),
    "manifoldry._numerics.extension.geodesic": ("GeodesicNystrom", "LandmarkExtension"),
    "manifoldry._numerics.extension.kernel": ("Kernel", "KernelProjection", "LocalPreimage", "ShiftedProjection"),
    "manifoldry._numerics.extension.linear": (
        "DistanceFeatures",
        "GramFeatures",
        "KernelFeatures",
        "LinearInverse",
        "LinearMap",
    ),
    "manifoldry._numerics.extension.local": ("LocalInverse", "LocalReconstruction"),
    "manifoldry._numerics.extension.near_pairs": ("NearPairExtension",),
    "manifoldry._numerics.geometry.affinity": ("Bandwidths",),
    "manifoldry._numerics.geometry.dimension": ("IntrinsicDimension",),
    "manifoldry._numerics.patches.atlas": ("Atlas",),
    "manifoldry._numerics.patches.charts": ("CurvedCharts", "GeodesicCharts"),
    "manifoldry._numerics.patches.cover": ("ListedCover", "Membership", "VoronoiCover"),
    "manifoldry._numerics.patches.layout": ("CenteredPatchInverse", "CenteredPatchMap", "PatchInverse", "PatchMap"),
    "manifoldry._numerics.patches.overlaps": ("Overlaps", "AlignedPatches", "Stitched"),
    "manifoldry._numerics.repulsion.fft": ("FFTPotential", "Mesh"),
    "manifoldry._numerics.repulsion.sums": ("BarnesHutPotential", "ExactPotential", "LayoutKernel"),
    "manifoldry._numerics.scaling": ("Scaling",),
    "manifoldry.evaluation.selection._compare": ("BestInverse", "BestMap"),
    "manifoldry.evaluation.selection._comparison": ("ComparedMethod", "Comparison"),
    "manifoldry.evaluation.selection._objectives": ("Criterion", "Purpose", "SkippedMethod"),
    "manifoldry.graph._approximate": ("NNDescent", "ProjectionTree"),
    "manifoldry.graph._engines": ("Brute", "CosineSearch", "KDTree", "MappedSearch", "Precomputed"),
    "manifoldry.graph._gpu": ("DeviceSearch",),
    "manifoldry.graph._pairwise": ("LinearRows", "RootProportions", "ScaledColumns"),
    "manifoldry.graph._search": ("NeighborIndex", "NeighborRule"),
    "manifoldry.graph._short_circuits": ("RefinedIndex", "ShortCircuits"),
    "manifoldry.methods.clusters._alternation": ("GeodesicsToMedoids", "LeastCost", "NearestCenter"),
    "manifoldry.methods.clusters._em": ("MaximumPosterior", "Mixture"),
    "manifoldry.methods.clusters._spectral": ("LargestCoordinate", "SpectralAssignment"),
    "manifoldry.methods.clusters._subspaces": ("AffineSubspaces",),
    "manifoldry.methods.curves._curve": ("CurvePoint", "CurveProjection", "Polyline"),
    "manifoldry.methods.curves._surface": ("SurfacePoint", "SurfaceProjection", "ThinPlate"),
    "manifoldry.methods.linear._nonlinear_factors": ("PolynomialPoints",),
    "manifoldry.methods.linear._nonlinear_factors.density": ("HermiteBasis", "LatentPolynomial"),
    "manifoldry.methods.linear._pca": ("RowMoments",),
    "manifoldry.methods.linear._probabilistic_pca": ("LatentGaussian",),
    "manifoldry.methods.linear._robust_pca": ("RobustProjection",),
    "manifoldry.methods.neighbor._umap": ("UMAPExtension",),
    "manifoldry.methods.networks._network": ("Network", "NetworkInverse", "NetworkMap"),
    "manifoldry.methods.spectral._phate": ("DiffusionMean",),
    "manifoldry.methods.spectral._polynomial_pca": ("MonomialFeatures",),
    "manifoldry.methods.unfolding._patches": ("PatchGrowth",),
}
"""What fits store in their estimators: tags by module. A class that is not here can be neither saved nor loaded."""

RENAMED_CLASSES: dict[str, str] = {
    "Apart": "SeparateComponents",
    "DivergencePlacement": "DivergenceExtension",
    "FaissIVF": "Brute",  # the same rows, searched exactly
    "GramPlacement": "GramExtension",
    "LandmarkPlacement": "LandmarkExtension",
    "LonePoint": "SinglePointExtension",
    "Piece": "ComponentExtension",
    "PlacedPatches": "AlignedPatches",
    "ScalingPlacement": "ScalingExtension",
    "StressPlacement": "StressExtension",
    "UMAPPlacement": "UMAPExtension",
}
"""Tags of earlier files, and the tags of today."""

REMOVED_CLASSES = {"PyNNDescent": "an index of the package pynndescent, which is no longer used: fit it again"}
"""What earlier files may hold and this version cannot read, by tag."""

RENAMED_FIELDS: dict[str, dict[str, str]] = {"Bandwidths": {"own": "values"}, "RefinedIndex": {"found": "index"}}
"""Fields that had another name in earlier files: ``tag: {old name: name of today}``."""

REMOVED_FIELDS: dict[str, tuple[str, ...]] = {
    "Brute": ("mean", "unit", "basis", "centers", "effort", "recall"),
    "Isomap": ("_growth",),
    "LLE": ("_growth",),
    "RefinedIndex": ("measure", "metric_lengths"),
}
"""Fields of earlier files that are not read, by tag."""

SKLEARN_CLASSES: dict[str, tuple[str, ...]] = {
    "sklearn.decomposition": ("PCA", "TruncatedSVD"),
    "sklearn.impute": ("MissingIndicator", "SimpleImputer"),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("FunctionTransformer", "MinMaxScaler", "Normalizer", "RobustScaler", "StandardScaler"),
}
"""Steps of a pipeline before the model; their tags begin with ``sklearn.``."""

ESTIMATORS: dict[str, str] = {
    **METHODS,
    **CLUSTERINGS,
    "AlignedEmbedding": "manifoldry.methods.neighbor._aligned",
    "AutoEmbedding": "manifoldry.evaluation.selection._compare",
    "KNeighborsTransformer": "manifoldry.methods._transformer",
}
"""The estimators of this library and their modules: what a model is, or a pipeline ends with."""

CLASSES: dict[str, tuple[str, str]] = {
    **{name: (module, name) for module, names in STATE_CLASSES.items() for name in names},
    **{f"sklearn.{name}": (module, name) for module, names in SKLEARN_CLASSES.items() for name in names},
    **{name: (module, name) for name, module in ESTIMATORS.items()},
}
"""Module and name of the class of every tag."""

SPARSE_CLASSES = ("csr_array", "csr_matrix", "csc_array", "csc_matrix")
FUNCTIONS = ("arcsinh", "cbrt", "exp", "expm1", "log", "log10", "log1p", "log2", "sinh", "sqrt", "square")
"""Functions of numpy that a FunctionTransformer may use."""
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


@cache
def find_class(tag: str) -> type:
    """Return the class of a tag. An unknown tag is an error, and nothing is imported for it."""
    if tag in REMOVED_CLASSES:
        raise ValueError(f"it holds {REMOVED_CLASSES[tag]}")
    if tag not in CLASSES:
        raise ValueError(f"it names the class {tag[:80]!r}, which no model of this version has")
    module, name = CLASSES[tag]
    cls: type = getattr(importlib.import_module(module), name)
    return cls


def tag_of(cls: type) -> str | None:
    """Return the tag of a class, None for one that is not registered."""
    package = cls.__module__.partition(".")[0]
    for tag, (module, name) in CLASSES.items():
        # The package comes first, so that no class of another library makes us import anything.
        if name == cls.__name__ and module.partition(".")[0] == package and find_class(tag) is cls:
            return tag
    return None


def current_state(tag: str, state: dict[str, Any]) -> dict[str, Any]:
    """Return the encoded state of an object with the fields and parameters of this version."""
    renamed, removed = RENAMED_FIELDS.get(tag, {}), REMOVED_FIELDS.get(tag, ())
    state = {renamed.get(key, key): entry for key, entry in state.items() if key not in removed}
    if "edge_lengths" not in state or tag not in ESTIMATORS:
        return state
    lengths, rule = state.pop("edge_lengths"), state.get("remove_short_circuits")
    if lengths != "distance" or rule not in (None, "detours"):
        raise ValueError(
            f"it was fitted with edge_lengths={lengths!r} and remove_short_circuits={rule!r}, which {tag} no longer "
            "has: fit it to neighborhood_graph(X, edge_lengths=...), or with remove_short_circuits=True"
        )
    return {**state, "remove_short_circuits": rule is not None}


def is_estimator(tag: str) -> bool:
    """Tell whether a tag is that of an estimator: one of ours, or of scikit-learn."""
    return tag in ESTIMATORS or tag.startswith("sklearn.")


def find_function(name: Any) -> Any:
    """Return a function of numpy by its name in the table."""
    if name not in FUNCTIONS:
        raise ValueError(f"it names the function {str(name)[:80]!r}, which no model of this version has")
    return getattr(importlib.import_module("numpy"), name)


def function_name(function: Any) -> str | None:
    """Return the name of a function in the table, None for one that is not there."""
    return next((name for name in FUNCTIONS if find_function(name) is function), None)
