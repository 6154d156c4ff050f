"""What several modules of tests use: data, distances by definition, comparisons, graphs of points."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from manifoldry._core.registry import Card
from manifoldry._core.run import Run
from manifoldry._core.values import NeighborGraph
from manifoldry.evaluation.metrics import procrustes
from manifoldry.evaluation.selection._compare import AutoEmbedding
from manifoldry.graph._operations import symmetrize
from manifoldry.graph._sample import NeighborhoodData
from manifoldry.graph._search import NeighborRule, neighbor_graph
from manifoldry.methods._base._checks import certificates_of
from manifoldry.methods._base._checks import problems as found_problems

AUTO = Card(
    name="AutoEmbedding",
    cls=AutoEmbedding,
    family="choosing",
    problem="eigen",
    papers=("tenenbaum2000",),
    gives=("transform", "inverse"),
    keeps="what the best method keeps",
    loses="what the best method loses",
    use_when="a pipeline should choose",
    fails_when="no method does",
    cost="the sum of several methods",
    test_params={"n_components": 2, "purpose": "keep distances", "methods": ("Isomap",)},
)
"""The card of the estimator that chooses among methods, which is in no table, for the tests of the contract."""

DEADLINE = 50.0  # seconds after which a wait counts as a hang; nothing that waits for it takes more than a few


def among(cards):
    """Run a test once for each card."""
    return pytest.mark.parametrize("card", cards, ids=lambda card: card.name)


def make(card, **settings):
    """Return the card's estimator with its parameters for tests and these."""
    return card.cls(**{**card.test_params, **settings})


def bandwidths(D, k):
    """Automatic bandwidths by definition: the median root mean square distance to k neighbors over root 2, or 2/3 of
    a point's own where that is larger.
    """
    own = np.sqrt((np.sort(D, axis=1)[:, 1 : k + 1] ** 2).mean(axis=1) / 2)
    return np.maximum(np.median(own), own / 1.5)


def pair_bandwidths(D, own, reach, other, other_reach):
    """The larger bandwidth of those ends whose neighbors reach as far as the other end, or the least of all."""
    least = other.min()
    return np.maximum(
        np.where(reach[:, None] >= D, own[:, None], least), np.where(other_reach[None] >= D, other[None], least)
    )


def bent_sheet(n=40, columns=4, seed=0):
    """Return points of a bent sheet with a little noise: connected, no ties, no symmetry."""
    rng = np.random.default_rng(seed)
    t, h = rng.uniform(0, 3, n), rng.uniform(0, 1, n)
    sheet = np.column_stack([np.cos(t), np.sin(t), h, t * h])[:, :columns]
    return sheet + 0.01 * rng.standard_normal(sheet.shape)


def tilted(flat, columns, seed=0):
    """Return flat points in a space of more columns, turned at random."""
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((columns, columns)))[0]
    return flat @ turn[: flat.shape[1]]


def distances_by_differences(X):
    """Return all Euclidean distances by their definition."""
    return np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))


def up_to_sign(A, B):
    """Return the largest difference of columns after the best choice of signs, relative to the size of B."""
    signs = np.sign((A * B).sum(axis=0))
    return np.abs(A * signs - B).max() / np.abs(B).max()


def rigid_error(Y, truth):
    """Return the root of the rigid Procrustes error, relative to the spread of the truth."""
    return float(np.sqrt(procrustes(Y, truth).error))


def knn_lists(X, k):
    """Return the directed graph of the k nearest neighbors."""
    return neighbor_graph(X, NeighborRule(k).resolve(len(X)), Run(0, 1))[0]


def knn_graph(X, k):
    """Return the symmetric graph of the k nearest neighbors."""
    return symmetrize(knn_lists(X, k))


def sample_of(X, k=None, radius=None):
    """Return points with their neighbors, within a radius if one is given."""
    neighbors, index = neighbor_graph(X, NeighborRule(k, radius).resolve(len(X)), Run(0))
    return NeighborhoodData(X, neighbors, symmetrize(neighbors), index)


def edges_of(graph):
    """Return the edges (i, j, length) of a graph in order."""
    return sorted(zip(graph.rows().tolist(), graph.indices.tolist(), graph.lengths.tolist(), strict=True))


def bytes_of(graph):
    """Return the arrays of a graph as bytes, to compare bit for bit."""
    return graph.indptr.tobytes(), graph.indices.tobytes(), graph.lengths.tobytes()


def in_new_process(script, **variables):
    """Run a script where a hang can be ended and a fork is harmless; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def problems(model):
    """Return the findings of a fitted model that are worth a warning and not those of its certificates."""
    sentences = {certificate.sentence for certificate in certificates_of(model)}
    return tuple(sentence for sentence in found_problems(model) if sentence not in sentences)


def graph_of(n, edges):
    """Return the undirected graph with these edges (i, j, length)."""
    i, j, d = np.array(edges).T
    rows, columns = np.concatenate([i, j]).astype(int), np.concatenate([j, i]).astype(int)
    return NeighborGraph.from_sparse(
        sp.csr_array((np.concatenate([d, d]), (rows, columns)), shape=(n, n)), symmetric=True
    )


def subspace_error(X, labels, n_components):
    """Return the sum of squared distances of all points to the best affine subspace of their cluster."""
    members = (X[labels == name] - X[labels == name].mean(axis=0) for name in np.unique(labels))
    return sum(float(np.sum(np.linalg.svd(each, compute_uv=False)[n_components:] ** 2)) for each in members)
