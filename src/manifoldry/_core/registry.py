"""The tables of methods and clusterings. Each registers a card; tests, docs, command line and benchmarks read them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from manifoldry._core.run import Run

C = TypeVar("C", bound=type)
GIVES = ("transform", "inverse", "predict", "spectrum", "trace", "certificate", "graph", "medoids")


def _modules(*rows: str) -> Mapping[str, str]:
    """Return the module of each class; a row lists a module and its classes."""
    parts = [row.split() for row in rows]
    return {name: f"manifoldry.methods.{module}" for module, *names in parts for name in names}


METHODS = _modules(
    "scaling._classical_mds ClassicalMDS",
    "scaling._mds MDS NonmetricMDS",
    "geodesic._isomap Isomap LandmarkIsomap ConformalIsomap KernelIsomap",
    "spectral._kernel_pca KernelPCA",
    "spectral._polynomial_pca PolynomialPCA",
    "local._lle LLE NonnegativeLLE ModifiedLLE LTSA HessianEigenmaps",
    "spectral._laplacian LaplacianEigenmaps",
    "spectral._diffusion DiffusionMaps",
    "spectral._laplacian CommuteTime",
    "spectral._phate PHATE",
    "linear._lpp LPP KernelLPP",
    "linear._npp NPP ONPP LinearLTSA DPP",
    "linear._pca PCA IncrementalPCA SparsePCA",
    "linear._factors FactorAnalysis",
    "linear._nonlinear_factors NonlinearFactorAnalysis",
    "linear._factors FastICA",
    "linear._infomax InfomaxICA",
    "linear._factors NMF GaussianRandomProjection SparseRandomProjection",
    "linear._robust_pca RobustPCA",
    "linear._pursuit L1PCA",
    "linear._probabilistic_pca ProbabilisticPCA",
    "linear._multilinear_pca MultilinearPCA",
    "linear._pursuit ProjectionPursuit",
    "curves._curve PrincipalCurve",
    "networks._autoencoder Autoencoder",
    "curves._surface PrincipalSurface",
    "unfolding._eat EAT",
    "unfolding._ipa IPA",
    "unfolding._charting ManifoldCharting",
    "unfolding._mvu MVU",
    "unfolding._fast_mvu FastMVU LandmarkMVU",
    "unfolding._mvu_variants ColoredMVU MVE",
    "unfolding._spe SPE",
    "unfolding._tesseramap TesseraMap",
    "neighbor._tsne SNE SymmetricSNE TSNE",
    "neighbor._umap UMAP",
    "neighbor._pacmap PaCMAP LocalMAP",
    "neighbor._trimap TriMap",
    "networks._parametric_umap ParametricTSNE ParametricUMAP",
)
"""The module of each method, so that it is imported only when it is used."""

CLUSTERINGS = _modules(
    "clusters._ldlc LDLC VQPCA GeodesicKMedoids",
    "clusters._spectral SpectralClustering",
    "clusters._wrapped KMeans AffinityPropagation",
    "clusters._gpca GPCA",
    "clusters._mixtures MPPCA MFA",
)
"""The module of each clustering."""
VISUALIZATION_FAMILIES = ("scaling", "geodesic", "local", "unfolding", "neighbor", "network")
"""Families of methods meant for pictures, which should not be worse than PCA's; the others have other purposes."""
OTHER_PURPOSES = ("ColoredMVU", "SPE")
"""Methods of these families that preserve something other than neighborhoods: targets, and the edges of a graph."""

LONG_FITS: Mapping[str, tuple[float, float, str]] = {
    "AffinityPropagation": (0.45, 2.1, "use KMeans or LDLC"),
    "EAT": (13.0, 3.0, "use LandmarkMVU, FastMVU or IPA"),
    "GeodesicKMedoids": (0.33, 2.0, "use KMeans or SpectralClustering"),
    "KernelIsomap": (0.3, 2.1, "use LandmarkIsomap"),
    "KernelLPP": (0.6, 3.0, "use LPP"),
    "LDLC": (0.9, 2.2, "use VQPCA or SpectralClustering"),
    "MDS": (0.12, 2.0, "use ClassicalMDS or UMAP"),
    "MVU": (13.0, 1.5, "use LandmarkMVU, FastMVU or IPA"),
    "NonmetricMDS": (1.1, 2.4, "use MDS or UMAP"),
}
"""Methods that can take more than half an hour on data that fits in memory: CPU seconds of 1,000 points, the power of
the number of points by which they grow, and what to use instead. Measured at 1,000 to 10,000 rows of Fashion-MNIST in
50 columns with one thread and default parameters; MVU on a roll (other data takes longer, known with the graph), LDLC
and GeodesicKMedoids without all geodesic distances, as above 10,000 points."""


def announce_fit(name: str, n_points: int, run: Run, seconds: float | None = None) -> None:
    """Announce a fit that takes long, before it begins: by `LONG_FITS`, or as the method itself predicts."""
    if name in LONG_FITS:
        thousand, power, instead = LONG_FITS[name]
        seconds = thousand * (n_points / 1000) ** power if seconds is None else seconds
        run.announce_time(f"{name} of {n_points:,} points", seconds, instead)


@dataclass(frozen=True)
class Card:
    """Facts about a method: what it preserves, when to use it, what it offers.

    Parameters
    ----------
    name : str
        The class name.
    cls : type
        The estimator.
    family : str
        The family of methods.
    problem : str
        The one problem it solves: eigen, descent, majorization, alternation, expectation maximization, semidefinite.
    papers : tuple of str
        Keys into references.bib.
    gives : tuple of str
        What a fitted estimator offers, a subset of `GIVES`.
    keeps, loses, use_when, fails_when : str
        Advice, a clause each.
    cost : str
        Time and memory.
    test_params : mapping
        Settings with which it runs on a handful of points.
    wrapped : bool
        Whether the computation, and with it the parameters, is scikit-learn's.
    """

    name: str
    cls: type
    family: str
    problem: str
    papers: tuple[str, ...]
    gives: tuple[str, ...]
    keeps: str
    loses: str
    use_when: str
    fails_when: str
    cost: str
    test_params: Mapping[str, Any] = field(default_factory=lambda: {"n_components": 2})
    wrapped: bool = False

    def __post_init__(self) -> None:
        unknown = set(self.gives) - set(GIVES)
        if unknown or not self.papers:
            raise ValueError(f"The card of {self.name} needs a paper and only entries of {GIVES}; got {unknown}.")

    @property
    def advice(self) -> dict[str, str]:
        """When to use the method, what it keeps and loses, and its cost, by heading."""
        return {
            "Use when": self.use_when,
            "Keeps": self.keeps,
            "Loses": self.loses,
            "Fails when": self.fails_when,
            "Cost": self.cost,
        }

    @property
    def blocks(self) -> str:
        """The rows that a fit to chunked data uses, as declared by the class."""
        return str(self.cls._chunk_support)  # type: ignore[attr-defined]


_cards: dict[str, Card] = {}


def register(**facts: Any) -> Callable[[C], C]:
    """Return the class decorator that registers the card of a method and adds its advice to the docstring.

    Unless given, the family is the folder of the method, and it is tested with two components.
    """

    def register_card(cls: C) -> C:
        from manifoldry._core.docstrings import add_card  # not with the package, which imports this module

        usual = {"family": cls.__module__.split(".")[-2], "wrapped": hasattr(cls, "_wraps")}
        card = _cards[cls.__name__] = Card(name=cls.__name__, cls=cls, **{**usual, **facts})
        add_card(cls, card.advice, card.papers)
        cls._for_visualization = card.family in VISUALIZATION_FAMILIES and card.name not in OTHER_PURPOSES  # type: ignore[attr-defined]
        return cls

    return register_card


def list_methods() -> tuple[Card, ...]:
    """Return the cards of all methods, in the order of the table.

    Examples
    --------
    >>> import manifoldry
    >>> [card.name for card in manifoldry.list_methods()][:2]
    ['ClassicalMDS', 'MDS']
    """
    return _filed(METHODS)


def list_clusterings() -> tuple[Card, ...]:
    """Return the cards of all clusterings, in the order of the table.

    Examples
    --------
    >>> import manifoldry
    >>> "KMeans" in [card.name for card in manifoldry.list_clusterings()]
    True
    """
    return _filed(CLUSTERINGS)


def _filed(table: Mapping[str, str]) -> tuple[Card, ...]:
    for module in dict.fromkeys(table.values()):
        importlib.import_module(module)
    return tuple(_cards[name] for name in table)
