"""The arrays of every class that a model file may hold: their types, their shapes, and the sizes they share.

One entry per class. ``LinearMap(d|f, q)`` maps rows of d columns to q columns. A letter is the same number in the whole
entry. The attributes follow, separated by semicolons:

- ``f(n, d)`` is an array of shape (n, d) in floating point, ``i`` of integers, ``b`` of truth values; ``i4``, ``f4``
  and ``u8`` are of exactly this type and in C order. ``_`` stands for any size, ``n+1`` for one more than n.
- ``i(m) < n`` holds integers from 0 to n - 1, which index something else; ``i(m) <~ n`` may also hold -1.
- ``x`` is as ``f`` with finite numbers only. ``rows(n, d)`` is a dense or sparse matrix of finite numbers that are not
  too large, ``bounded(n, d)`` a dense array of such numbers, and ``places(n, q)`` one in which points without
  coordinates have NaN.
- ``NeighborIndex(n, d)`` is an object of this class with these sizes; ``map(d, q)`` is any object that has the
  attribute in `ROLES`.
- ``int(n)`` is the number itself; ``number()`` is a finite number that is not too large, ``positive()`` one above 0.
- ``list(m) of f(q)`` is a list or tuple of m such values.
- A question mark at the end allows None, and that the attribute is absent.

``d|f`` is d, or f where d is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

from manifoldry.registry import CLUSTERINGS, METHODS

ROLES = {
    "map": "__call__",
    "engine": "nearest",
    "lengths": "lengths_of_new",
    "charts": "coordinates",
    "cover": "members",
    "model": "get_params",
}
"""The attribute of an object that an entry names by its purpose."""

SEARCHES = {
    "NeighborGraph(n)": "indptr: i(n+1); indices: i(e) < n; lengths: f(e)",
    "NeighborIndex(n, d|n)": "n_points: int(n); engine: engine(n, d)?; rule: NeighborRule()",
    "RefinedIndex(n, d|n)": "n_points: int(n); engine: engine(n, d)?; rule: NeighborRule(); "
    "found: NeighborIndex(n, d); measure: EdgeMeasure(n, d)?; sheet: NeighborGraph(n)?",
    "KDTree(n, d)": "X: bounded(n, d)",
    "Brute(n, d)": "X: rows(n, d)",
    "Precomputed(n, d)": "",
    "PyNNDescent(n, d)": "exact: Brute(n, d)",
    "FaissIVF(n, d)": "X: bounded(n, d); mean: f(d); unit: positive(); basis: f(d, p)?; centers: f4(c, p|d); "
    "effort: list(2) of positive()",
    "NNDescent(n, d)": "X: bounded(n, d); center: f(d); basis: f(d, p)?; Z: f4(n, p|d); order: i4(n) < n; "
    "lists: i4(n, k) <~ n; search_graph: i4(n, g) <~ n; search_trees: list(t) of ProjectionTree(n)",
    "ProjectionTree(n)": "nodes: i4(m, 4); starts: i8(l+1); members: i4(n) < n",
    "CosineSearch(n, d)": "engine: engine(n, d)",
    "MappedSearch(n, d|e-1)": "rows: map(d, e); engine: engine(n, e)",
    "LinearRows(d, e)": "transposed: bounded(e, d)",
    "ScaledColumns(d, d)": "factors: bounded(d)",
    "RootProportions(d, e)": "",
    "EdgeMeasure(n|m, d)": "rule: lengths(m, d); members: i(n) < m ?",
    "LocalLinearity(n, d)": "X: f(n, d); planes: f(n, d, p)",
    "LocalGaussians(n, d)": "X: rows(n, d); patches: Patches(n, p); patches.members: i(n, p) < n; axes: f(n, p, r); "
    "variances: f(n, r)",
    "Patches(m, p)": "members: i(m, p); weights: f(m, p); own: rows(m, _)?",
    "ShortCircuits()": "pairs: i(m, 2); lengths: f(m); detours: f(m)",
}

MAPS = {
    "AffinityExtension(d, q)": "extension: map(d, q)",
    "LaplacianNystrom(d, q)": "index: NeighborIndex(n, d); bandwidth: Bandwidths(n) or number; coordinates: f(n, q); "
    "values: f(q); degrees: f(n)",
    "DiffusionNystrom(d, q)": "index: NeighborIndex(n, d); bandwidth: Bandwidths(n) or number; coordinates: f(n, q); "
    "values: f(q); density_factors: f(n); distances: FittedDistances(n, d)?",
    "Bandwidths(n)": "own: f(n); reach: f(n)?",
    "DivergencePlacement(d, q)": "index: NeighborIndex(n, d); layout: f(n, q); potential: map(n, q); "
    "kernel: LayoutKernel()",
    "ExactPotential(n, q)": "columns: f8(q, n); charges: f8(n); kernel: LayoutKernel()",
    "Mesh()": "corner: list(2) of number(); spacing: positive(); halves: list(2) of int(_)",
    "FFTPotential(n, q)": "mesh: Mesh(); nodes: f4(_, _); layout: ExactPotential(n, q)",
    "BarnesHutPotential(n, q)": "layout: f8(n, 4); angle: positive(); kernel: LayoutKernel()",
    "UMAPPlacement(d, q)": "index: NeighborIndex(n, d); layout: f4(n, q); parameters: LayoutParameters(); seeds: u8(s)",
    "FittedDistances(n, d)": "X: rows(n, d)?",
    "GramPlacement(n, q)": "scaling: Scaling(n, q)",
    "ScalingPlacement(d|n, q)": "distances: FittedDistances(n, d); scaling: Scaling(n, q)",
    "StressPlacement(d|n, q)": "distances: FittedDistances(n, d); embedding: x(n, q); curve: list(2) of f(k)?",
    "Scaling(n, q)": "spectrum: Spectrum(n, q); mean_squares: f(n)",
    "Spectrum(n, q)": "values: f(q); vectors: f(n, q); residuals: f(q); dropped: f(_)?",
    "GeodesicNystrom(d, q)": "index: NeighborIndex(n, d); graph: NeighborGraph(n); scaling: Scaling(n, q); "
    "scale: f(n)?",
    "LandmarkPlacement(d, q)": "index: NeighborIndex(n, d); lengths: f(l, n); scaling: Scaling(l, q); scale: f(n)?",
    "Apart(d, q)": "index: NeighborIndex(n, d); extensions: list(c) of map(d, q); shifts: list(c) of f(q); "
    "label: i(n) < c",
    "Piece(d, q)": "columns: i(e)?; extension: map(e|d, _); width: int(q)",
    "LonePoint(d, q)": "width: int(q)",
    "LinearMap(d|f, q)": "mean: f(f); components: f(q, f); features: map(d, f)?",
    "LinearInverse(q, d)": "mean: f(d); directions: f(q, d)",
    "DistanceFeatures(n, n)": "",
    "GramFeatures(n, n)": "half_norms: f(n)",
    "KernelFeatures(d|n, n)": "distances: FittedDistances(n, d); means: f(n); kernel: Kernel()",
    "MonomialFeatures": "mean: f(d); unit: positive()",
    "KernelProjection(d|n, q)": "anchors: rows(n, d)?; weights: f(n, q); shift: f(q); kernel: Kernel()",
    "ShiftedProjection(d, q)": "origin: bounded(d); projection: KernelProjection(d, q)",
    "LocalPreimage(q, d)": "n_neighbors: positive(); scores: bounded(n, q); X: f(n, d)",
    "LocalInverse(q, d)": "X: rows(n, d); coordinates: places(n, q); _rule: LocalReconstruction(q, d)?",
    "LocalReconstruction(d, q)": "index: NeighborIndex(n, d); source: rows(n, d); target: rows(n, q)",
    "NetworkMap(d, q)": "mean: f(d); network: Network(d, q)",
    "NetworkInverse(q, d)": "mean: f(d); network: Network(q, d)",
    "Network": "parameters: f(m)",
    "RobustProjection(d, q)": "mean: f(d); directions: f(r, d); sizes: f(r); n_components: int(q)",
    "ThinPlate(q, d)": "unit: positive(); knots: f(m, q); weights: f(m, d); affine: f(q+1, d)",
    "SurfaceProjection(d, q)": "surface: ThinPlate(q, d); candidates: f(k, q); origin: bounded(d)",
    "SurfacePoint(q, d)": "surface: ThinPlate(q, d); origin: bounded(d)",
    "Polyline(d)": "knots: f(m, d)",
    "CurveProjection(d, q)": "curve: Polyline(d); origin: bounded(d)",
    "CurvePoint(q, d)": "curve: Polyline(d); origin: bounded(d)",
    "LatentGaussian(d, q)": "mean: f(d); loadings: f(d, q); varies: b(d)",
    "LatentPolynomial(d, q)": "center: bounded(d); scale: bounded(d); mean: bounded(d); noise: bounded(d); "
    "loadings: bounded(d, m); basis: HermiteBasis(q, m)",
    "PolynomialPoints(q, d)": "model: LatentPolynomial(d, q)",
    "HermiteBasis": "",
    "BestMap(d, q)": "model: model(d, q)",
    "BestInverse(q, d)": "model: model(d, q)",
}

PATCHES = {
    "VoronoiCover(c, d)": "centers: bounded(c, d); neighbors: i(c, w) < c",
    "ListedCover(c, d)": "matrix: rows(n, c); index: NeighborIndex(n, d)",
    "Membership(c)": "points: i(m); patches: i(m); weights: f(m)",
    "CurvedCharts(c, d, r)": "means: f(c, d); frames: f(c, d, r); sizes: i(c) < r+1; second_forms: f(c, r, r, _); "
    "offsets: f(c, d); spread: f(c, _); residuals: f(c)",
    "GeodesicCharts(c, d, r)": "means: f(c, d); width: int(r); sizes: i(c) < r+1; spread: f(c, _); residuals: f(c); "
    "inward: list(c) of LocalReconstruction(d, _); outward: list(c) of LocalInverse(_, d)",
    "PlacedPatches(c, q, r)": "frames: f(c, r, q); shifts: f(c, q); components: i(c) < c",
    "Stitched(c, q, r)": "frames: f(c, r, q); shifts: f(c, q); components: i(c) < c",
    "PatchMap(d, q)": "cover: cover(c, d); charts: charts(c, d, r); stitched: PlacedPatches(c, q, r)",
    "PatchInverse(q, d)": "cover: cover(c, q); charts: charts(c, d, r); stitched: PlacedPatches(c, q, r); "
    "back: f(c, q, r)",
    "CenteredPatchMap(d, q)": "origin: bounded(d); place: PatchMap(d, q)",
    "CenteredPatchInverse(q, d)": "origin: bounded(d); lead: PatchInverse(q, d)",
    "Overlaps(c)": "first: i(m); second: i(m); counts: i(m); means: f(m, _, _); moments: f(m, _, _)",
    "Atlas(c, d)": "cover: cover(c, d); charts: charts(c, d, r); members.points: i(m); members.patches: i(m) < c; "
    "overlaps.first: i(o) < c; overlaps.second: i(o) < c; coordinates: f(m, r); distortions: f(_)",
    "PatchGrowth(c, d)": "rows: f(n, d); radii: f(c)",
}

CLUSTERS = {
    "AffineSubspaces(c, d)": "means: f(c, d); bases: f(c, d, r); variances: f(c, r)",
    "LeastCost(d)": "subspaces: AffineSubspaces(c, d); geodesics: GeodesicsToMedoids(c, d)?",
    "GeodesicsToMedoids(c, d)": "index: NeighborIndex(n, d); lengths: f(n, c)",
    "Mixture(c, d)": "weights: f(c); means: f(c, d); bases: f(c, d, r); variances: f(c, r); noise_variances: f(c); "
    "diagonals: f(c, d)",
    "MaximumPosterior(d)": "mixture: Mixture(c, d); center: f(d)",
    "NearestCenter(d)": "centers: f(c, d)",
    "LargestCoordinate(d)": "rotation: f(d, c)",
    "SpectralAssignment(d)": "extension: LaplacianNystrom(d, q); rule: map(q)",
}

RECORDS = {
    "Growth(n)": "neighbors: NeighborGraph(n)?; graph: NeighborGraph(n)?",
    "Trace()": "objective: f(m); steps: i(m)?",
    "RowMoments(d)": "mean: f(d); scatter: f(d, d)",
    "ComparedMethod()": "embedding: f(_, _)",
    "Comparison()": "rows: i(m)",
}

NO_ARRAYS = (
    *("Certificate", "Criterion", "IntrinsicDimension", "Kernel", "LayoutKernel", "LayoutParameters"),
    *("NeighborRule", "Purpose", "SkippedMethod", "Stop"),
)
"""Classes without arrays."""

EMBEDDER = (
    "n_features_in_: int(d)?; embedding_: f(n, q)?; _extension: map(d, q)?; _inverse: map(q, d)?; "
    "graph_: NeighborGraph(_)?; spectrum_: Spectrum(_, _)?"
)
CLUSTERER = (
    "n_features_in_: int(d)?; labels_: i(n)?; subspaces_: AffineSubspaces(c, d)?; _assign: map(d)?; "
    "graph_: NeighborGraph(n)?; n_clusters_: int(c)?"
)
PROJECTION = "n_features_in_: int(d)?; embedding_: f(n, q)?; components_: f(q, d)?; mean_: f(d)?"

ESTIMATORS = {
    **{f"{name}(d, q)": EMBEDDER for name in (*METHODS, "AutoEmbedding")},
    **{f"{name}(d)": CLUSTERER for name in CLUSTERINGS},
    **{f"{name}(d, q)": f"{EMBEDDER}; _growth: Growth(n)?" for name in ("Isomap", "LLE")},
    "IPA(d, q)": f"{EMBEDDER}; patches_: Atlas(c, d)?; _growth: PatchGrowth(c, d)?; _growth.rows: f(n, d)?",
    "PCA(d, q)": f"{PROJECTION}; explained_variance_: f(q)?; singular_values_: x(q)?",
    "IncrementalPCA(d, q)": f"{PROJECTION}; var_: f(d)?; explained_variance_: f(q)?; singular_values_: x(q)?",
    "SparsePCA(d, q)": PROJECTION,
    "FactorAnalysis(d, q)": f"{PROJECTION}; noise_variance_: f(d)?",
    "FastICA(d, q)": f"{PROJECTION}; mixing_: f(d, q)?; whitening_: f(_, d)?; _unmixing: f(q, _)?",
    "NMF(d, q)": PROJECTION,
    "GaussianRandomProjection(d, q)": PROJECTION,
    "SparseRandomProjection(d, q)": "n_features_in_: int(d)?; embedding_: rows(n, q)?; components_: rows(q, d)?",
    "KNeighborsTransformer(d)": "n_features_in_: int(d)?; n_samples_fit_: int(n)?; _index: NeighborIndex(n, d)?",
    "sklearn.PCA(d, q)": "n_features_in_: int(d)?; components_: f(q, d)?; mean_: f(d)?; explained_variance_: f(q)?",
    "sklearn.TruncatedSVD(d, q)": "n_features_in_: int(d)?; components_: f(q, d)?",
    "sklearn.StandardScaler(d, d)": "n_features_in_: int(d)?; mean_: f(d)?; var_: f(d)?; scale_: f(d)?",
    "sklearn.MinMaxScaler(d, d)": "n_features_in_: int(d)?; min_: f(d)?; scale_: f(d)?",
    "sklearn.RobustScaler(d, d)": "n_features_in_: int(d)?; center_: f(d)?; scale_: f(d)?",
    "sklearn.SimpleImputer(d)": "n_features_in_: int(d)?; statistics_: f(d)?; indicator_: model(d)?",
    **dict.fromkeys(("sklearn.FunctionTransformer", "sklearn.Normalizer", "sklearn.Pipeline"), ""),
    "sklearn.MissingIndicator(d)": "n_features_in_: int(d)?; _n_features: int(d)?; features_: i(_) < d ?",
}

SHAPES = {
    signature.partition("(")[0]: (signature.partition("(")[2].rstrip(")"), entry)
    for table in (SEARCHES, MAPS, PATCHES, CLUSTERS, RECORDS, dict.fromkeys(NO_ARRAYS, ""), ESTIMATORS)
    for signature, entry in table.items()
}
"""Sizes that a class has for others, and its attributes, by its name in a file."""


COUNTED: dict[str, Callable[[Any], tuple[int, ...]]] = {
    "Network": lambda net: (net.sizes[0], net.sizes[-1]),
    "HermiteBasis": lambda basis: (basis.d, comb(basis.d + basis.degree, basis.d) - 1),
    "MonomialFeatures": lambda rows: (len(rows.mean), comb(len(rows.mean) + rows.degree, rows.degree) - 1),
}
"""Sizes that follow from numbers instead of arrays."""
