"""A sparse matrix whose indices lead out of it is refused everywhere: compiled loops would follow them."""

import numpy as np
import pytest
import scipy.sparse as sp

import manifoldry
from helpers import AUTO, among, bent_sheet, make
from manifoldry import KNeighborsTransformer
from manifoldry.evaluation.metrics import reliability

CARDS = (*manifoldry.list_methods(), AUTO, *manifoldry.list_clusterings())
SPARSE = [card for card in CARDS if card.cls().__sklearn_tags__().input_tags.sparse]
N = 30
WORDS = "sparse matrix of shape .* build it again"


def rows(n=N, seed=0):
    """Return positive rows with zeros in some entries."""
    X = np.abs(bent_sheet(n, seed=seed))
    return np.where(X < 0.2, 0.0, X)


def changed(kind, attribute, place, value, n=N):
    """Return rows of a kind of sparse matrix with one number of an index array changed."""
    matrix = getattr(sp, f"{kind}_array")(rows(n))
    getattr(matrix, attribute)[place] = value
    return matrix


def lil(n=N):
    matrix = sp.lil_array(rows(n))
    matrix.rows[1][0] = 10**6
    return matrix


def dok(n=N):
    matrix = sp.dok_array(rows(n))
    matrix._dict[(0, 10**6)] = 1.0
    return matrix


def dia(n=N):
    matrix = sp.dia_array(rows(n))
    matrix.data = matrix.data[:-1]
    return matrix


BAD = {
    "column": lambda n=N: changed("csr", "indices", 0, 400_000, n),
    "last column": lambda n=N: changed("csr", "indices", -1, 4, n),
    "negative column": lambda n=N: changed("csr", "indices", 0, -1, n),
    "row ends": lambda n=N: changed("csr", "indptr", 2, 10**6, n),
    "last end": lambda n=N: changed("csr", "indptr", -1, 10**6, n),
    "no last end": lambda n=N: changed("csr", "indptr", -1, 0, n),  # which scipy's own check passes
    "falling ends": lambda n=N: changed("csr", "indptr", 2, -1, n),
    "first end": lambda n=N: changed("csr", "indptr", 0, -1, n),
    "csc": lambda n=N: changed("csc", "indices", 0, n, n),
    "bsr": lambda n=N: changed("bsr", "indices", 0, 10**6, n),
    "coo column": lambda n=N: changed("coo", "col", 0, 10**6, n),
    "coo row": lambda n=N: changed("coo", "row", 0, -1, n),
    "lil": lil,
    "dok": dok,
    "dia": dia,
}


@among(CARDS)
def test_no_fit_follows_them(card):
    refused = f"{WORDS}|partial_fit does not support sparse" if card in SPARSE else "parse"
    for matrix in BAD.values():
        for call in ("fit", "fit_transform", "fit_predict", "partial_fit"):
            if hasattr(card.cls, call):
                with pytest.raises((ValueError, TypeError), match=refused):
                    getattr(make(card), call)(matrix())


@among(CARDS)
def test_no_map_follows_them(card):
    model = make(card).fit(rows())
    for kind, matrix in BAD.items():
        for call in ("transform", "predict", "inverse_transform"):
            if hasattr(model, call) and kind != "dia":  # of which one with fewer rows is sound
                with pytest.raises((ValueError, TypeError), match=WORDS if card in SPARSE else "parse"):
                    getattr(model, call)(matrix(5))


@pytest.mark.parametrize("kind", BAD)
def test_nothing_else_follows_them(kind):
    X, Y = BAD[kind](), rows()[:, :2]
    graph = sp.csr_array(np.ones((N, N)) - np.eye(N))
    graph.indices[0] = N
    for call in (
        lambda: manifoldry.score(X, Y),
        lambda: manifoldry.diagnose(X),
        lambda: manifoldry.compare(X),
        lambda: manifoldry.suggest_neighbors(X),
        lambda: manifoldry.suggest_n_components(X),
        lambda: manifoldry.neighborhood_graph(X),
        lambda: manifoldry.neighbor_lists(X, 3),
        lambda: reliability(X, Y),
        lambda: KNeighborsTransformer(n_neighbors=3).fit(X),
        lambda: KNeighborsTransformer(n_neighbors=3).fit(rows()).transform(X),
        lambda: manifoldry.Isomap(metric="precomputed").fit(graph),
        lambda: manifoldry.chunked_data([X, X]).sample(10, np.random.default_rng(0)),
    ):
        with pytest.raises(ValueError, match=WORDS):
            call()


def test_sound_matrices_pass_in_every_format():
    X = rows()
    wanted = manifoldry.PCA(n_components=2).fit(sp.csr_array(X)).embedding_
    for kind in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
        for build in (getattr(sp, f"{kind}_array"), getattr(sp, f"{kind}_matrix")):
            found = manifoldry.PCA(n_components=2).fit(build(X)).embedding_
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    spare = sp.csr_array(X)  # more room than entries, which scipy allows
    spare.data, spare.indices = np.append(spare.data, 7.0), np.append(spare.indices, 10**6).astype(spare.indices.dtype)
    np.testing.assert_array_equal(manifoldry.PCA(n_components=2).fit(spare).embedding_, wanted)
