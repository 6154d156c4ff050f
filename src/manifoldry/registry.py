"""The tables of methods and clusterings: each files a card, and tests, docs, command line and benchmarks read them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

C = TypeVar("C", bound=type)

GIVES = ("transform", "inverse", "predict", "spectrum", "trace", "certificate", "graph", "medoids")

METHODS: Mapping[str, str] = {
    "ClassicalMDS": "manifoldry.embedders.classical_mds",
    "MDS": "manifoldry.embedders.mds",
    "NonmetricMDS": "manifoldry.embedders.mds",
    "Isomap": "manifoldry.embedders.isomap",
    "LandmarkIsomap": "manifoldry.embedders.isomap_variants",
    "ConformalIsomap": "manifoldry.embedders.isomap_variants",
    "KernelIsomap": "manifoldry.embedders.isomap_variants",
    "KernelPCA": "manifoldry.embedders.kernelpca",
    "PolynomialPCA": "manifoldry.embedders.polynomial",
    "LLE": "manifoldry.embedders.lle",
    "NonnegativeLLE": "manifoldry.embedders.lle",
    "ModifiedLLE": "manifoldry.embedders.lle",
    "LTSA": "manifoldry.embedders.ltsa",
    "HessianEigenmaps": "manifoldry.embedders.ltsa",
    "LaplacianEigenmaps": "manifoldry.embedders.laplacian",
    "DiffusionMaps": "manifoldry.embedders.diffusion",
    "CommuteTime": "manifoldry.embedders.commute",
    "LPP": "manifoldry.embedders.lpp",
    "KernelLPP": "manifoldry.embedders.lpp",
    "NPP": "manifoldry.embedders.npp",
    "ONPP": "manifoldry.embedders.npp",
    "LinearLTSA": "manifoldry.embedders.lltsa",
    "DPP": "manifoldry.embedders.dpp",
    "PCA": "manifoldry.embedders.wrapped",
    "IncrementalPCA": "manifoldry.embedders.wrapped",
    "SparsePCA": "manifoldry.embedders.wrapped",
    "FactorAnalysis": "manifoldry.embedders.wrapped_factors",
    "NonlinearFactorAnalysis": "manifoldry.embedders.factors",
    "FastICA": "manifoldry.embedders.wrapped_factors",
    "InfomaxICA": "manifoldry.embedders.infomax",
    "NMF": "manifoldry.embedders.wrapped_factors",
    "GaussianRandomProjection": "manifoldry.embedders.wrapped_random",
    "SparseRandomProjection": "manifoldry.embedders.wrapped_random",
    "RobustPCA": "manifoldry.embedders.robustpca",
    "L1PCA": "manifoldry.embedders.l1pca",
    "ProbabilisticPCA": "manifoldry.embedders.probabilistic",
    "MultilinearPCA": "manifoldry.embedders.multilinear",
    "ProjectionPursuit": "manifoldry.embedders.pursuit",
    "PrincipalCurve": "manifoldry.embedders.curve",
    "Autoencoder": "manifoldry.embedders.autoencoder",
    "PrincipalSurface": "manifoldry.embedders.surface",
    "EAT": "manifoldry.embedders.eat",
    "IPA": "manifoldry.embedders.ipa",
    "ManifoldCharting": "manifoldry.embedders.charting",
    "MVU": "manifoldry.embedders.mvu",
    "FastMVU": "manifoldry.embedders.fastmvu",
    "LandmarkMVU": "manifoldry.embedders.fastmvu",
    "ColoredMVU": "manifoldry.embedders.colored",
    "MVE": "manifoldry.embedders.mve",
    "SPE": "manifoldry.embedders.spe",
    "TesseraMap": "manifoldry.embedders.tesseramap",
    "SNE": "manifoldry.embedders.sne",
    "SymmetricSNE": "manifoldry.embedders.sne",
    "TSNE": "manifoldry.embedders.tsne",
    "UMAP": "manifoldry.embedders.umap",
    "ParametricTSNE": "manifoldry.embedders.parametric_tsne",
    "ParametricUMAP": "manifoldry.embedders.parametric_umap",
}
"""Where each method lives, so that a name is imported only when it is used."""

CLUSTERINGS: Mapping[str, str] = {
    "LDLC": "manifoldry.clusters.ldlc",
    "VQPCA": "manifoldry.clusters.vqpca",
    "GeodesicKMedoids": "manifoldry.clusters.medoids",
    "SpectralClustering": "manifoldry.clusters.spectral",
    "KMeans": "manifoldry.clusters.wrapped",
    "AffinityPropagation": "manifoldry.clusters.wrapped",
    "GPCA": "manifoldry.clusters.gpca",
    "MPPCA": "manifoldry.clusters.mixtures",
    "MFA": "manifoldry.clusters.mixtures",
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
        >>> from manifoldry import methods
        >>> {card.name: card.blocks for card in methods()}["Isomap"]
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


def methods() -> tuple[Card, ...]:
    """Return the cards of all methods, in the order of the table.

    Examples
    --------
    >>> import manifoldry
    >>> [card.name for card in manifoldry.methods()][:2]
    ['ClassicalMDS', 'MDS']
    """
    return _filed(METHODS)


def clusterings() -> tuple[Card, ...]:
    """Return the cards of all clusterings, in the order of the table.

    Examples
    --------
    >>> import manifoldry
    >>> "KMeans" in [card.name for card in manifoldry.clusterings()]
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
