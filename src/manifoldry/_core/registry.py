"""The tables of methods and clusterings: each files a card, and tests, docs, command line and benchmarks read them."""

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
"""Where each method lives, so that a name is imported only when it is used."""

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
"""Where each clustering lives."""


PICTURE_FAMILIES = ("scaling", "geodesic", "local", "unfolding", "neighbor", "network")
"""Families of methods that are meant for pictures, which should not be worse than PCA's; linear maps, kernels, factors
and spectral features have other purposes."""

OTHER_PURPOSES = ("ColoredMVU", "SPE")
"""Methods of these families that keep something else than neighborhoods: targets, and the edges of a graph."""


@dataclass(frozen=True)
class Card:
    """What there is to know about a method before using it.

    Parameters
    ----------
    name : str
        The class name.
    cls : type
        The estimator.
    family : str
        The shelf it stands on.
    problem : str
        The one problem it solves: eigen, descent, majorization, alternation, expectation maximization, semidefinite.
    papers : tuple of str
        Keys into references.bib.
    gives : tuple of str
        What a fitted estimator offers, of `GIVES`.
    keeps, loses, use_when, fails_when : str
        Advice, a clause each.
    cost : str
        Time and memory.
    test_params : mapping
        Settings with which it runs on a handful of points.
    wrapped : bool
        Whether the computation is scikit-learn's, and with it the words of the constructor.
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
            raise ValueError(f"The card of {self.name} needs a paper and gives only of {GIVES}; got {unknown}.")

    @property
    def blocks(self) -> str:
        """What a fit to rows in blocks takes account of, as its class says.

        Examples
        --------
        >>> from manifoldry import list_methods
        >>> {card.name: card.blocks for card in list_methods()}["Isomap"]
        'a sample of 5,000'
        """
        return str(self.cls._blockwise)  # type: ignore[attr-defined]


_cards: dict[str, Card] = {}


def register(**facts: Any) -> Callable[[C], C]:
    """Return the class decorator that files the card of a method."""

    def file(cls: C) -> C:
        _cards[cls.__name__] = Card(name=cls.__name__, cls=cls, **facts)
        return cls

    return file


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
    """Tell whether a class is meant for pictures; of a class without a card that is assumed.

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
