"""The arrays of every class that a model file may hold: their types, their shapes, and the sizes they share.

One entry per tag of a class. ``LinearMap(d|f, q)`` maps rows of d columns to q columns. A letter is the same number in
the whole entry. The attributes follow, separated by semicolons:

- ``f(n, d)`` is an array of shape (n, d) in floating point, ``i`` of integers, ``b`` of booleans; ``i4``, ``f4``
  and ``u8`` are of exactly this type and in C order. ``_`` stands for any size, ``n+1`` for one more than n.
- ``i(m) < n`` holds integers from 0 to n - 1, which index something else; ``i(m) <~ n`` may also hold -1.
- ``x`` is as ``f`` with finite numbers only. ``rows(n, d)`` is a dense or sparse matrix of finite numbers that are not
  too large, ``bounded(n, d)`` a dense array of such numbers, and ``nullable(n, q)`` one in which points without
  coordinates have NaN.
- ``NeighborIndex(n, d)`` is an object of this class with these sizes; ``map(d, q)`` is any object that has the
  attribute in `ROLES`.
- ``int(n)`` is the number itself; ``number()`` is a finite number that is not too large, ``positive()`` one above 0.
- ``list(m) of f(q)`` is a list or tuple of m such values.
- A question mark at the end allows None, and that the attribute is absent.

``d|f`` is d, or f where d is not known.
"""

from __future__ import annotations

import numbers
import re
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from math import comb
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core.check import MAX_SCALE
from manifoldry._core.registry import CLUSTERINGS, METHODS
from manifoldry._core.values import Array
from manifoldry.data._models.classes import find_class

ROLES = {
    "map": "__call__",
    "engine": "nearest",
    "charts": "coordinates",
    "cover": "members",
    "model": "get_params",
}
"""Roles by which an entry names an object, and the attribute that such an object must have."""

SEARCHES = {
    "NeighborGraph(n)": "indptr: i(n+1); indices: i(e) < n; lengths: f(e)",
    "NeighborIndex(n, d|n)": "n_points: int(n); engine: engine(n, d)?; rule: NeighborRule()",
    "RefinedIndex(n, d|n)": "n_points: int(n); engine: engine(n, d)?; rule: NeighborRule(); "
    "index: NeighborIndex(n, d); sheet: NeighborGraph(n)",
    "KDTree(n, d)": "X: bounded(n, d)",
    "Brute(n, d)": "X: rows(n, d)",
    "Precomputed(n, d)": "",
    "NNDescent(n, d)": "X: bounded(n, d); center: f(d); basis: f(d, p)?; Z: f4(n, p|d); order: i4(n) < n; "
    "lists: i4(n, k) <~ n; search_graph: i4(n, g) <~ n; search_trees: list(t) of ProjectionTree(n)",
    "DeviceSearch(n, d)": "X: bounded(n, d); center: f(d); centers: bounded(p, c, d); members: i4(p, n) < n; "
    "starts: i8(p, c+1)",
    "ProjectionTree(n)": "nodes: i4(m, 4); starts: i8(l+1); members: i4(n) < n",
    "CosineSearch(n, d)": "engine: engine(n, d)",
    "MappedSearch(n, d|e-1)": "rows: map(d, e); engine: engine(n, e)",
    "LinearRows(d, e)": "transposed: bounded(e, d)",
    "ScaledColumns(d, d)": "factors: bounded(d)",
    "RootProportions(d, e)": "",
    "ShortCircuits()": "pairs: i(m, 2); lengths: f(m); detours: f(m)",
}

MAPS = {
    "AffinityExtension(d, q)": "extension: map(d, q)",
    "LaplacianNystrom(d, q)": "index: NeighborIndex(n, d); bandwidth: Bandwidths(n) or number; coordinates: f(n, q); "
    "values: f(q); degrees: f(n)",
    "DiffusionNystrom(d, q)": "index: NeighborIndex(n, d); bandwidth: Bandwidths(n) or number; coordinates: f(n, q); "
    "values: f(q); density_factors: f(n); distances: FittedDistances(n, d)?",
    "Bandwidths(n)": "values: f(n); reach: f(n)?",
    "DivergenceExtension(d, q)": "index: NeighborIndex(n, d); layout: f(n, q); potential: map(n, q); "
    "kernel: LayoutKernel()",
    "ExactPotential(n, q)": "columns: f8(q, n); charges: f8(n); kernel: LayoutKernel()",
    "Mesh()": "corner: list(2) of number(); spacing: positive(); halves: list(2) of int(_)",
    "FFTPotential(n, q)": "mesh: Mesh(); nodes: f4(_, _); layout: ExactPotential(n, q)",
    "BarnesHutPotential(n, q)": "layout: f8(n, 4); angle: positive(); kernel: LayoutKernel()",
    "DiffusionMean(d, q)": "index: NeighborIndex(n, d); targets: f(n, q); coordinates: f(n, q); decay: positive(); "
    "n_neighbors: int(_)",
    "NearPairExtension(d, q)": "index: NeighborIndex(n, d); layout: f4(n, q); scale: positive()",
    "UMAPExtension(d, q)": "index: NeighborIndex(n, d); layout: f4(n, q); parameters: LayoutParameters(); seeds: u8(s)",
    "FittedDistances(n, d)": "X: rows(n, d)?",
    "GramExtension(n, q)": "scaling: Scaling(n, q)",
    "ScalingExtension(d|n, q)": "distances: FittedDistances(n, d); scaling: Scaling(n, q)",
    "StressExtension(d|n, q)": "distances: FittedDistances(n, d); embedding: x(n, q); curve: list(2) of f(k)?",
    "Scaling(n, q)": "spectrum: Spectrum(n, q); mean_squares: f(n)",
    "Spectrum(n, q)": "values: f(q); vectors: f(n, q); residuals: f(q); dropped: f(_)?",
    "GeodesicNystrom(d, q)": "index: NeighborIndex(n, d); graph: NeighborGraph(n); scaling: Scaling(n, q); "
    "scale: f(n)?",
    "LandmarkExtension(d, q)": "index: NeighborIndex(n, d); lengths: f(l, n); scaling: Scaling(l, q); scale: f(n)?",
    "SeparateComponents(d, q)": "index: NeighborIndex(n, d); extensions: list(c) of map(d, q); "
    "shifts: list(c) of f(q); label: i(n) < c",
    "ComponentExtension(d, q)": "columns: i(e)?; extension: map(e|d, _); width: int(q)",
    "SinglePointExtension(d, q)": "width: int(q)",
    "LinearMap(d|f, q)": "mean: f(f); components: f(q, f); features: map(d, f)?",
    "LinearInverse(q, d)": "mean: f(d); directions: f(q, d)",
    "DistanceFeatures(n, n)": "",
    "GramFeatures(n, n)": "half_norms: f(n)",
    "KernelFeatures(d|n, n)": "distances: FittedDistances(n, d); means: f(n); kernel: Kernel()",
    "MonomialFeatures": "mean: f(d); unit: positive()",
    "KernelProjection(d|n, q)": "anchors: rows(n, d)?; weights: f(n, q); shift: f(q); kernel: Kernel()",
    "ShiftedProjection(d, q)": "origin: bounded(d); projection: KernelProjection(d, q)",
    "LocalPreimage(q, d)": "n_neighbors: positive(); scores: bounded(n, q); X: f(n, d)",
    "LocalInverse(q, d)": "X: rows(n, d); coordinates: nullable(n, q); _rule: LocalReconstruction(q, d)?",
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
    "AlignedPatches(c, q, r)": "frames: f(c, r, q); shifts: f(c, q); components: i(c) < c",
    "Stitched(c, q, r)": "frames: f(c, r, q); shifts: f(c, q); components: i(c) < c",
    "PatchMap(d, q)": "cover: cover(c, d); charts: charts(c, d, r); stitched: AlignedPatches(c, q, r)",
    "PatchInverse(q, d)": "cover: cover(c, q); charts: charts(c, d, r); stitched: AlignedPatches(c, q, r); "
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
    "AlignedEmbedding(d, q)": "models_: list(t) of model(d, q)?; identities_: list(t) of i(_)?",
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
"""The sizes of a class, and its attributes, by tag."""


COUNTED: dict[str, Callable[[Any], tuple[int, ...]]] = {
    "Network": lambda net: (net.sizes[0], net.sizes[-1]),
    "HermiteBasis": lambda basis: (basis.d, comb(basis.d + basis.degree, basis.d) - 1),
    "MonomialFeatures": lambda rows: (len(rows.mean), comb(len(rows.mean) + rows.degree, rows.degree) - 1),
}
"""Sizes that follow from numbers instead of arrays."""


# The check of loaded objects against these tables.

Sizes = dict[str, int]
FIELD = re.compile(
    r"(?P<name>[\w.]+): (?:list\((?P<length>\w+)\) of )?(?P<kind>\w+?)(?P<bytes>(?<=[fiux])\d)?\((?P<sizes>[^)]*)\)"
    r"(?: (?P<bound><~?) (?P<limit>[\w+]+))?(?P<number> or number)? ?(?P<optional>\?)?"
)
KINDS = {"f": "f", "x": "f", "nullable": "f", "rows": "f", "bounded": "f", "i": "i", "u": "u", "b": "b"}
"""Numpy's letter for the entries of a kind of array."""
MAX_ENTRY = MAX_SCALE**2  # maximum of rows and inner products in a fit; squares of it do not overflow
TYPES: dict[str, Any] = {"float": numbers.Real, "int": numbers.Integral, "bool": (bool, np.bool_), "str": str}
"""Types of plain attributes by the annotation of a dataclass."""


@cache
def declared(name: str) -> tuple[re.Match[str], ...]:
    """Return the declarations of the attributes of a class by its tag, as matches of `FIELD`."""
    texts = [text for text in SHAPES[name][1].split("; ") if text]
    matches = [FIELD.fullmatch(text) for text in texts]
    if None in matches:
        raise ValueError(f"The declaration {texts[matches.index(None)]!r} of {name} cannot be read.")
    return tuple(match for match in matches if match)


def _letters(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.replace(" ", "").split(",")))


class Consistency:
    """Checks the parts of each object, and stores its sizes for the object that contains it."""

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[int | None, ...]] = {}
        self._alive: list[Any] = []  # keeps ids unique: a dead object could pass its id on

    def check(self, name: str, state: dict[str, Any]) -> Sizes:
        """Raise an error if attributes differ from their declarations; return the sizes by letter."""
        sizes: Sizes = {}
        for part in declared(name):
            first, _, inner = part["name"].partition(".")
            value = getattr(state.get(first), inner, None) if inner else state.get(first)
            if value is None and not part["optional"]:
                raise ValueError(f"it has a {name} without {part['name']!r}")
            if value is not None:
                self._check_part(f"{part['name']!r} of a {name}", value, part, sizes, part["length"])
        return sizes

    def remember(self, name: str, value: Any, sizes: Sizes) -> None:
        """Store the sizes of a checked object for the object that contains it."""
        if name in COUNTED:
            self._sizes[id(value)] = COUNTED[name](value)
        else:
            self._sizes[id(value)] = tuple(_size(letter, sizes) for letter in _letters(SHAPES[name][0]))
        self._alive.append(value)

    def _check_part(self, what: str, value: Any, part: re.Match[str], sizes: Sizes, length: str | None = None) -> None:
        kind = part["kind"]
        if length is not None:
            if not isinstance(value, (list, tuple)):
                raise ValueError(f"{what} is not a list")
            _check_sizes(what, (len(value),), (length,), sizes)
            for entry in value:
                self._check_part(what, entry, part, sizes)
        elif part["number"] and isinstance(value, numbers.Real):
            pass
        elif kind == "int":
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{what} is not a count")
            _check_sizes(what, (int(value),), _letters(part["sizes"]), sizes)
        elif kind in ("number", "positive"):
            real = isinstance(value, numbers.Real) and not isinstance(value, bool) and abs(float(value)) <= MAX_ENTRY
            if not real or (kind == "positive" and value <= 0):
                raise ValueError(f"{what} is not a valid number")
        elif kind in KINDS:
            _check_array(what, value, part, sizes)
        else:
            self._check_object(what, value, part, sizes)

    def _check_object(self, what: str, value: Any, part: re.Match[str], sizes: Sizes) -> None:
        object_sizes, letters = self._sizes.get(id(value)), _letters(part["sizes"])
        role = ROLES.get(part["kind"])
        fits = isinstance(value, find_class(part["kind"])) if role is None else hasattr(value, role)
        if object_sizes is None or not fits or len(object_sizes) != len(letters):
            raise ValueError(f"{what} is a {type(value).__name__}, which is not allowed there")
        _check_sizes(what, object_sizes, letters, sizes)


def _check_array(what: str, value: Any, part: re.Match[str], sizes: Sizes) -> None:
    kind, n_bytes = part["kind"], int(part["bytes"] or 0)
    if not isinstance(value, np.ndarray) and not (kind == "rows" and issparse(value)):
        raise ValueError(f"{what} is not an array")
    if value.dtype.kind != KINDS[kind] or (n_bytes or value.dtype.itemsize) != value.dtype.itemsize:
        raise ValueError(f"{what} has numbers of the type {value.dtype}")
    if n_bytes and not value.flags.c_contiguous:
        raise ValueError(f"{what} is not in C order")
    _check_sizes(what, value.shape, _letters(part["sizes"]), sizes)
    _check_range(what, value.data if issparse(value) else value, kind)
    least, limit = -1 if part["bound"] == "<~" else 0, part["limit"] and _size(part["limit"], sizes)
    if limit is not None and value.size and not least <= value.min() <= value.max() < limit:
        raise ValueError(f"{what} refers to entries that do not exist")


def _check_range(what: str, entries: Array, kind: str) -> None:
    """Raise an error for numbers that searches and solvers cannot use."""
    if kind == "x" and not np.isfinite(entries).all():
        raise ValueError(f"{what} has entries that are not finite")
    if kind in ("rows", "bounded", "nullable") and entries.size:
        low, high = (np.min, np.max) if kind != "nullable" else (np.nanmin, np.nanmax)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # from numpy, if all are NaN
            bounded = -MAX_ENTRY <= low(entries) and high(entries) <= MAX_ENTRY
        if not bounded:
            raise ValueError(f"{what} has entries that are not finite, or too large")


def _check_sizes(what: str, actual: tuple[int | None, ...], letters: tuple[str, ...], sizes: Sizes) -> None:
    """Raise an error for sizes that differ from those of the letters; new letters get their size here."""
    if len(actual) != len(letters):
        raise ValueError(f"{what} has {len(actual)} axes instead of {len(letters)}")
    for size, text in zip(actual, letters, strict=True):
        expected = _size(text, sizes)
        if size is None or text == "_":
            continue
        if expected is None:
            letter, more = _term(text.split("|")[-1])
            expected = sizes[letter] = size - more
            if expected < 0:
                raise ValueError(f"{what} is empty")
        elif size != expected:
            raise ValueError(f"{what} has the size {size} where its other parts have {expected}")


def _size(text: str, sizes: Sizes) -> int | None:
    """Return the size of ``n``, ``n+1``, ``4`` or ``d|n``, None if it is not known yet."""
    for choice in text.split("|"):
        letter, more = _term(choice)
        if letter.isdecimal():
            return int(letter)
        if letter in sizes:
            return sizes[letter] + more
    return None


def _term(text: str) -> tuple[str, int]:
    """Return the letter of ``n``, ``n+1`` or ``n-1``, and what is added to it."""
    letter, sign, more = re.split(r"([+-])", text) if "+" in text or "-" in text else (text, "", "0")
    return letter, int(sign + more)


def check_plain(value: Any) -> None:
    """Raise an error if plain attributes of a dataclass do not have the annotated type."""
    for each in fields(value) if is_dataclass(value) else ():
        expected, entry = TYPES.get(str(each.type).removesuffix(" | None")), getattr(value, each.name, None)
        may_be_none = str(each.type).endswith("| None") and entry is None
        if expected is not None and not may_be_none and not isinstance(entry, expected):
            raise ValueError(f"{each.name!r} of a {type(value).__name__} is a {type(entry).__name__}")
