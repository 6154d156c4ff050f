"""Isomap and its variants by landmarks, conformal, and with a positive kernel: keep the geodesic distances."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from manifoldry._core import check
from manifoldry._core.parameters import ArrayLike, Fraction, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding
from manifoldry._numerics.extension.geodesic import (
    GeodesicNystrom,
    embed_by_landmarks,
    embed_by_scaling,
    geodesic_matrix,
    reconstruction_error,
    residual_variances,
    some_paths,
    suggest_n_components,
    with_path_error,
)
from manifoldry._numerics.scaling import additive_constant, classical_scaling
from manifoldry.graph._geodesics import geodesic_lengths
from manifoldry.graph._operations import local_scale, rescaled
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._short_circuits import short_circuit_notes
from manifoldry.methods._base import GraphEmbedder, estimator
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import TARGET_METRIC_TEXT, TARGET_WEIGHT_TEXT

_GIVES = ("transform", "inverse", "spectrum", "graph")
_TEST_PARAMS = {"n_components": 2, "n_neighbors": 5}
_FAILS = "short circuits (n_neighbors too large, noise), holes, closed or strongly curved surfaces"


class GeodesicMixin(GraphEmbedder):
    """What Isomap and its variants share.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, orthogonal columns with squared norms equal to the eigenvalues.
    graph_ : NeighborGraph
        The graph on which shortest paths are computed.
    """

    _invertible = _local_inverse = True

    residual_variances = residual_variances
    suggest_n_components = suggest_n_components

    _chunk_support = ChunkSupport(n_rows=5_000)

    def _embed_sample(self, sample: NeighborhoodData, run: Run) -> Embedding:
        sample = replace(sample, neighbors=sample.graph)  # paths need no lists, whose memory is free from here on
        return super()._embed_sample(sample, run)


@register(
    problem="eigen",
    papers=("tenenbaum2000", "deridder2003", "geng2005", "zhu2003"),
    gives=_GIVES,
    keeps="geodesic distances, near and far",
    loses="the insides of holes, which it widens",
    use_when="the data is one sheet, evenly sampled, whose parameters fill a convex region",
    fails_when=_FAILS,
    cost="O(n^2 log n) time, one n x n matrix: to about 20,000 points",
    test_params=_TEST_PARAMS,
)
@estimator
class Isomap(GeodesicMixin):
    r"""Unfold a sheet by classical scaling of shortest-path distances, if it is one evenly sampled, convex piece.

    Isometric feature mapping solves

    .. math:: Y = \arg\min_Y \left\| -\tfrac12 H D_G^{(2)} H - Y Y^T \right\|_F ,

    where :math:`D_G` are the lengths of shortest paths on the neighbor graph. It is kernel PCA with the
    kernel :math:`-\frac12 D_G^{(2)}`; with all points neighbors of each other it is PCA.

    Attributes
    ----------
    embedding_
    spectrum_ : Spectrum
        Eigenpairs of the doubly centered squared geodesics.
    graph_
    dist_matrix_ : ndarray of shape (n_samples, n_samples)
        The geodesic distances, computed on access; infinite between components that are embedded apart.
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice, the values chosen by "auto". ``path_error`` of a curve or surface:
        the root mean square difference between distances in the layout and geodesic distances, relative to the latter.
        If it is above 0.03 or not known, ``short_circuits`` of the graph are searched for, and there is advice.

    See Also
    --------
    LandmarkIsomap : more than 20,000 points.
    ConformalIsomap : a sheet that is stretched unevenly.
    KernelIsomap : exact projection of new points, noise.
    IPA : sheets with holes, of any size.
    LTSA : local geometry only; holes stay holes.

    Notes
    -----
    If a callback ends the fit, the points whose geodesic distances are known by then serve as landmarks.

    Examples
    --------
    >>> from manifoldry import Isomap, datasets, metrics
    >>> roll = datasets.swiss_roll(1000)
    >>> Y = Isomap(n_neighbors=10).fit_transform(roll.X)
    >>> bool(metrics.procrustes(Y, roll.truth).error < 0.01)
    True
    """

    target_metric: Literal["categorical", "numeric"] = parameter(TARGET_METRIC_TEXT, default="categorical")
    target_weight: Fraction = parameter(TARGET_WEIGHT_TEXT, default=0.0)

    dist_matrix_ = property(geodesic_matrix)
    reconstruction_error = reconstruction_error

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        lengths, sources = geodesic_lengths(sample.graph, run, at_least=n_components + 2)
        if len(sources) < sample.n_points:  # stopped by the callback
            return embed_by_landmarks(sample.index, lengths, sources, n_components, run)
        paths = some_paths(sources, lengths)
        scaling = classical_scaling(lengths, n_components, run, overwrite=True)
        embedding = embed_by_scaling(GeodesicNystrom(sample.index, sample.graph, scaling))
        return with_path_error(embedding, sample, paths, find=partial(short_circuit_notes, run=run))


@register(
    problem="eigen",
    papers=("desilva2003", "desilva2004"),
    gives=_GIVES,
    keeps="geodesic distances to the landmarks",
    loses="precision where no landmark is near; the insides of holes",
    use_when="Isomap fits but there are more than 20,000 points",
    fails_when=_FAILS,
    cost="O(l n log n) time, l x n memory for l landmarks: to millions of points",
    test_params={**_TEST_PARAMS, "n_landmarks": 12},
)
@estimator
class LandmarkIsomap(GeodesicMixin):
    r"""Unfold a sheet as Isomap does, by distances to landmarks only, if there are more than 20,000 points.

    Classical scaling embeds the landmarks; all other points follow from their distances to them:

    .. math:: y = \tfrac12 \Lambda^{-1/2} V^T (\overline{\delta} - \delta(x)) ,

    with :math:`\delta(x)` the squared geodesic distances of a point to the landmarks and :math:`V, \Lambda` the
    eigenpairs of the landmarks' own scaling. With all points as landmarks it is Isomap. No n x n matrix is
    formed.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Coordinates of the points.
    spectrum_ : Spectrum
        Eigenpairs of the scaling of the landmarks.
    graph_
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice, and ``landmarks``: their indices.

    See Also
    --------
    Isomap : uses all distances, for up to 20,000 points.
    IPA : sheets with holes, of any size.

    Examples
    --------
    >>> from manifoldry import LandmarkIsomap, datasets
    >>> roll = datasets.swiss_roll(2000)
    >>> LandmarkIsomap(n_landmarks=100).fit_transform(roll.X).shape
    (2000, 2)
    """

    n_landmarks: PositiveInt = parameter(
        "Number of landmarks; a few dozen times ``n_components`` is enough.", default=200
    )
    landmarks: ArrayLike | None = parameter("Indices of the landmarks; None draws them at random.", default=None)

    _chunk_support = ChunkSupport(n_rows=50_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        if self.landmarks is None:
            check.integer("n_landmarks", self.n_landmarks, self.n_components + 1, None, " (n_components + 1)")
            return
        chosen = np.unique(np.asarray(self.landmarks))
        enough = chosen.dtype.kind in "iu" and len(chosen) > self.n_components
        if not (enough and chosen[0] >= 0 and chosen[-1] < n_points):
            raise ValueError(
                f"landmarks must be at least {self.n_components + 1} different indices below {n_points}; "
                f"got {self.landmarks!r}."
            )
        if self.disconnected in ("apart", "largest"):
            raise ValueError(
                f"Given landmarks need one connected graph, which disconnected={self.disconnected!r} does not; "
                "use 'bridge' or 'raise', or n_landmarks."
            )

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        chosen = self.landmarks
        if chosen is None:
            n = sample.n_points
            chosen = run.rng("landmarks").choice(n, min(self.n_landmarks, n), replace=False)
        lengths, landmarks = geodesic_lengths(sample.graph, run, np.unique(chosen), at_least=n_components + 2)
        embedding = embed_by_landmarks(sample.index, lengths, landmarks, n_components, run)
        paths = some_paths(landmarks, lengths)
        return with_path_error(embedding, sample, paths, find=partial(short_circuit_notes, run=run))


@register(
    problem="eigen",
    papers=("desilva2003",),
    gives=_GIVES,
    keeps="angles: geodesic distances measured in units of the local spacing",
    loses="sizes: dense regions are magnified, sparse ones shrunk",
    use_when="the map from parameters to data stretches some regions more than others (a fishbowl)",
    fails_when="sampling density that does not come from the stretching; otherwise as Isomap",
    cost="as Isomap",
    test_params=_TEST_PARAMS,
)
@estimator
class ConformalIsomap(GeodesicMixin):
    r"""Unfold a sheet that stretches its parameters unevenly but keeps angles, such as a fishbowl.

    Every edge is measured in units of the mean neighbor distances at its ends,

    .. math:: w_{ij} = \frac{\|x_i - x_j\|}{\sqrt{M(i) M(j)}}, \qquad
              M(i) = \frac1k \sum_{j \in N(i)} \|x_i - x_j\| ,

    then shortest paths are scaled as in `Isomap`. Samples that are uniform in the parameters are recovered up to a
    similarity even where the surface stretches them, as long as it keeps angles.

    Attributes
    ----------
    embedding_
    spectrum_ : Spectrum
        Eigenpairs of the doubly centered squared path lengths.
    graph_ : NeighborGraph
        The neighbor graph with the rescaled lengths.
    diagnostics_

    See Also
    --------
    Isomap : sheets that are not stretched.
    LaplacianEigenmaps : nearness without distances.

    Examples
    --------
    >>> from manifoldry import ConformalIsomap, datasets
    >>> ConformalIsomap(n_neighbors=12).fit_transform(datasets.fishbowl(500).X).shape
    (500, 2)
    """

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        k = sample.index.rule.n_neighbors
        scale = local_scale(sample.graph, k if isinstance(k, int) else None)
        graph = rescaled(sample.graph, scale)
        lengths, sources = geodesic_lengths(graph, run, at_least=n_components + 2)
        if len(sources) < graph.n_points:
            return replace(embed_by_landmarks(sample.index, lengths, sources, n_components, run, scale), graph=graph)
        scaling = classical_scaling(lengths, n_components, run, overwrite=True)
        # In conformal lengths edges across a gap are not long, because they contribute to the scale of their ends.
        notes = short_circuit_notes(sample.graph, run)
        return embed_by_scaling(GeodesicNystrom(sample.index, graph, scaling, scale=scale), **notes)


@register(
    problem="eigen",
    papers=("choi2007", "cailliez1983"),
    gives=_GIVES,
    keeps="geodesic distances plus one constant, as exact Euclidean distances",
    loses="nothing to negative eigenvalues; the constant blurs small distances",
    use_when="noise makes Isomap's kernel indefinite, or new points must be projected exactly",
    fails_when="very large constants (strong short circuits): everything looks equally far",
    cost="as Isomap, several eigenproblems and three n x n matrices: to about 10,000 points",
    test_params=_TEST_PARAMS,
)
@estimator
class KernelIsomap(GeodesicMixin):
    r"""Unfold a sheet as Isomap does, with a kernel made positive, so that new points are projected exactly.

    The smallest constant c that makes the geodesic kernel a Mercer kernel is added to the distances:

    .. math:: \tilde K = -\tfrac12 H (D_G + c\,(11^T - I))^{(2)} H \succeq 0 .

    Kernel PCA with that kernel embeds the points and projects new ones exactly.

    Attributes
    ----------
    embedding_
    spectrum_ : Spectrum
        Eigenpairs of the kernel.
    graph_
    diagnostics_ : dict
        Seconds, memory, components, bridges, advice, and ``additive_constant``: c.

    See Also
    --------
    Isomap : without the constant, and faster.
    KernelPCA : other kernels.

    Notes
    -----
    A callback cannot shorten this fit.

    Examples
    --------
    >>> from manifoldry import KernelIsomap, datasets
    >>> model = KernelIsomap(n_neighbors=8).fit(datasets.s_curve(300).X)
    >>> bool(model.diagnostics_["additive_constant"] > 0)
    True
    """

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        lengths, _ = geodesic_lengths(sample.graph, run, at_least=sample.n_points)
        shift = additive_constant(lengths, run)
        lengths[lengths > 0] += shift
        scaling = classical_scaling(lengths, n_components, run, overwrite=True)
        notes = {"additive_constant": shift, **short_circuit_notes(sample.graph, run)}
        return embed_by_scaling(GeodesicNystrom(sample.index, sample.graph, scaling, shift), **notes)
