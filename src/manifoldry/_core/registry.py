"""The tables of methods and clusterings. Each registers a card; tests, docs, command line and benchmarks read them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

C = TypeVar("C", bound=type)

GIVES = ("transform", "inverse", "predict", "spectrum", "trace", "certificate", "graph", "medoids")

METHODS: Mapping[str, str] = {
    "ClassicalMDS": "manifoldry.methods.scaling._classical_mds",
    "MDS": "manifoldry.methods.scaling._mds",
    "NonmetricMDS": "manifoldry.methods.scaling._mds",
    "Isomap": "manifoldry.methods.geodesic._isomap",
    "LandmarkIsomap": "manifoldry.methods.geodesic._variants",
    "ConformalIsomap": "manifoldry.methods.geodesic._variants",
    "KernelIsomap": "manifoldry.methods.geodesic._variants",
    "KernelPCA": "manifoldry.methods.spectral._kernel_pca",
    "PolynomialPCA": "manifoldry.methods.spectral._polynomial_pca",
    "LLE": "manifoldry.methods.local._lle",
    "NonnegativeLLE": "manifoldry.methods.local._lle",
    "ModifiedLLE": "manifoldry.methods.local._lle",
    "LTSA": "manifoldry.methods.local._ltsa",
    "HessianEigenmaps": "manifoldry.methods.local._ltsa",
    "LaplacianEigenmaps": "manifoldry.methods.spectral._laplacian",
    "DiffusionMaps": "manifoldry.methods.spectral._diffusion",
    "CommuteTime": "manifoldry.methods.spectral._commute",
    "LPP": "manifoldry.methods.linear._lpp",
    "KernelLPP": "manifoldry.methods.linear._lpp",
    "NPP": "manifoldry.methods.linear._npp",
    "ONPP": "manifoldry.methods.linear._npp",
    "LinearLTSA": "manifoldry.methods.linear._npp",
    "DPP": "manifoldry.methods.linear._dpp",
    "PCA": "manifoldry.methods.linear._pca",
    "IncrementalPCA": "manifoldry.methods.linear._pca",
    "SparsePCA": "manifoldry.methods.linear._pca",
    "FactorAnalysis": "manifoldry.methods.linear._factors",
    "NonlinearFactorAnalysis": "manifoldry.methods.linear._nonlinear_factors",
    "FastICA": "manifoldry.methods.linear._factors",
    "InfomaxICA": "manifoldry.methods.linear._infomax",
    "NMF": "manifoldry.methods.linear._factors",
    "GaussianRandomProjection": "manifoldry.methods.linear._factors",
    "SparseRandomProjection": "manifoldry.methods.linear._factors",
    "RobustPCA": "manifoldry.methods.linear._robust_pca",
    "L1PCA": "manifoldry.methods.linear._l1_pca",
    "ProbabilisticPCA": "manifoldry.methods.linear._probabilistic_pca",
    "MultilinearPCA": "manifoldry.methods.linear._multilinear_pca",
    "ProjectionPursuit": "manifoldry.methods.linear._pursuit",
    "PrincipalCurve": "manifoldry.methods.curves._curve",
    "Autoencoder": "manifoldry.methods.networks._autoencoder",
    "PrincipalSurface": "manifoldry.methods.curves._surface",
    "EAT": "manifoldry.methods.unfolding._eat",
    "IPA": "manifoldry.methods.unfolding._ipa",
    "ManifoldCharting": "manifoldry.methods.unfolding._charting",
    "MVU": "manifoldry.methods.unfolding._mvu",
    "FastMVU": "manifoldry.methods.unfolding._fast_mvu",
    "LandmarkMVU": "manifoldry.methods.unfolding._fast_mvu",
    "ColoredMVU": "manifoldry.methods.unfolding._colored_mvu",
    "MVE": "manifoldry.methods.unfolding._mve",
    "SPE": "manifoldry.methods.unfolding._spe",
    "TesseraMap": "manifoldry.methods.unfolding._tesseramap",
    "SNE": "manifoldry.methods.neighbor._sne",
    "SymmetricSNE": "manifoldry.methods.neighbor._sne",
    "TSNE": "manifoldry.methods.neighbor._tsne",
    "UMAP": "manifoldry.methods.neighbor._umap",
    "ParametricTSNE": "manifoldry.methods.networks._parametric_umap",
    "ParametricUMAP": "manifoldry.methods.networks._parametric_umap",
}
"""The module of each method, so that it is imported only when it is used."""

CLUSTERINGS: Mapping[str, str] = {
    "LDLC": "manifoldry.methods.clusters._ldlc",
    "VQPCA": "manifoldry.methods.clusters._vqpca",
    "GeodesicKMedoids": "manifoldry.methods.clusters._medoids",
    "SpectralClustering": "manifoldry.methods.clusters._spectral",
    "KMeans": "manifoldry.methods.clusters._wrapped",
    "AffinityPropagation": "manifoldry.methods.clusters._wrapped",
    "GPCA": "manifoldry.methods.clusters._gpca",
    "MPPCA": "manifoldry.methods.clusters._mixtures",
    "MFA": "manifoldry.methods.clusters._mixtures",
}
"""The module of each clustering."""

PICTURE_FAMILIES = ("scaling", "geodesic", "local", "unfolding", "neighbor", "network")
"""Families of methods meant for pictures, which should not be worse than PCA's; linear maps, kernels, factors and
spectral features have other purposes."""

OTHER_PURPOSES = ("ColoredMVU", "SPE")
"""Methods of these families that preserve something other than neighborhoods: targets, and the edges of a graph."""


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
    test_params: Mapping[str, Any] = field(default_factory=dict)
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
        """The rows that a fit to chunked data uses, as declared by the class.

        Examples
        --------
        >>> from manifoldry import list_methods
        >>> {card.name: card.blocks for card in list_methods()}["Isomap"]
        'a sample of 5,000'
        """
        return str(self.cls._blockwise)  # type: ignore[attr-defined]


_cards: dict[str, Card] = {}


def register(**facts: Any) -> Callable[[C], C]:
    """Return the class decorator that registers the card of a method and adds its advice to the docstring."""

    def register_card(cls: C) -> C:
        from manifoldry._core.docstrings import add_card  # not with the package, which imports this module

        card = _cards[cls.__name__] = Card(name=cls.__name__, cls=cls, **facts)
        add_card(cls, card.advice, card.papers)
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


def is_for_pictures(cls: type) -> bool:
    """Return whether a class is meant for pictures; assumed for classes without a card.

    Examples
    --------
    >>> from manifoldry import FastICA, Isomap
    >>> is_for_pictures(Isomap), is_for_pictures(FastICA)
    (True, False)
    """
    card = _cards.get(cls.__name__)
    return card is None or (card.family in PICTURE_FAMILIES and card.name not in OTHER_PURPOSES)


def _filed(table: Mapping[str, str]) -> tuple[Card, ...]:
    for module in dict.fromkeys(table.values()):
        importlib.import_module(module)
    return tuple(_cards[name] for name in table)
