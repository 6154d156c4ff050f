"""GPCA: the polynomial of a union of subspaces, its gradients, exact recovery without noise, and refusals."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from manifoldry import GPCA, VQPCA
from manifoldry.methods.clusters._gpca import Form, all_exponents, hyperplanes, monomials, n_monomials, vanishing_form


def flats(c, r, d, seed, n=60, through_origin=False):
    """Points on c random affine subspaces of dimension r, and the subspace of each."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(c):
        basis = np.linalg.qr(rng.normal(size=(d, r)))[0]
        parts.append(rng.uniform(-2, 2, (n, r)) @ basis.T + (0 if through_origin else rng.uniform(-1, 1, d)))
    return np.concatenate(parts), np.repeat(np.arange(c), n)


def agreement(truth, model, X):
    """Adjusted Rand index over the points that lie on one of the subspaces only."""
    distances = np.sort(np.sqrt(model.subspaces_.squared_distances(X)), axis=1)
    alone = distances[:, 1] > 1e-5
    assert alone.mean() > 0.95
    return adjusted_rand_score(truth[alone], model.labels_[alone])


def test_the_veronese_map_has_all_monomials_and_gradients_are_differences():
    X = np.random.default_rng(0).normal(size=(5, 3))
    exponents = all_exponents(3, 3)
    assert len(exponents) == n_monomials(3, 3) == 10
    assert len(np.unique(exponents, axis=0)) == 10
    assert (exponents.sum(axis=1) == 3).all()
    expected = np.array([[np.prod(x**row) for row in exponents] for x in X])
    assert np.allclose(monomials(X, exponents), expected, rtol=1e-14)
    form, h = Form(np.random.default_rng(1).normal(size=10), exponents), 1e-5
    moved = [(form(X + h * axis) - form(X - h * axis)) / (2 * h) for axis in np.eye(3)]
    assert np.allclose(form.gradient(X), np.stack(moved, axis=1), atol=1e-7)
    # Euler's identity of homogeneous functions
    assert np.allclose(np.einsum("nd,nd->n", X, form.gradient(X)), 3 * form(X), rtol=1e-12)


def test_the_form_of_two_planes_is_the_product_of_their_normals():
    rng = np.random.default_rng(3)
    normals = np.linalg.qr(rng.normal(size=(3, 3)))[0][:2] + np.array([[0, 0, 0.3], [0, 0, 0]])
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    X = rng.normal(size=(80, 3))
    side = np.arange(80) % 2
    X -= np.einsum("nd,nd->n", X, normals[side])[:, None] * normals[side]
    X /= np.linalg.norm(X, axis=1)[:, None]
    form, values = vanishing_form(X, 2)
    b, c = normals
    product = np.array([b[0] * c[0], b[0] * c[1] + b[1] * c[0], b[0] * c[2] + b[2] * c[0]])
    product = np.append(product, [b[1] * c[1], b[1] * c[2] + b[2] * c[1], b[2] * c[2]])
    cosine = product @ form.coefficients / np.linalg.norm(product) / np.linalg.norm(form.coefficients)
    assert abs(cosine) == pytest.approx(1, abs=1e-10)
    assert values[0] <= 1e-14 < 1e-4 < values[1]
    found = hyperplanes(X, 2)[0]
    assert np.allclose(np.sort(np.abs(found @ normals.T).max(axis=1)), 1, atol=1e-7)


def test_gradients_alone_divide_three_planes():
    for seed in range(5):
        X, truth = flats(3, 2, 3, seed, through_origin=True)
        X /= np.linalg.norm(X, axis=1)[:, None]
        cosines = np.sort(np.abs(X @ hyperplanes(X, 3)[0].T), axis=1)
        assert cosines[:, 0].max() <= 1e-6  # every point lies on one of them
        alone = cosines[:, 1] > 1e-5
        nearest = np.argmin(np.abs(X @ hyperplanes(X, 3)[0].T), axis=1)
        assert adjusted_rand_score(truth[alone], nearest[alone]) == 1


@pytest.mark.parametrize("through_origin", [True, False])
@pytest.mark.parametrize(("c", "r", "d"), [(2, 1, 3), (3, 1, 3), (2, 2, 3), (3, 2, 3), (3, 1, 2), (2, 2, 6), (3, 1, 8)])
def test_flats_without_noise_are_found_exactly(c, r, d, through_origin):
    for seed in range(3):
        X, truth = flats(c, r, d, seed, through_origin=through_origin)
        model = GPCA(n_clusters=c, n_components=r).fit(X)
        assert agreement(truth, model, X) == 1
        # Squares of roundings of 100 operations on numbers of at most 5.
        assert model.reconstruction_error_ <= len(X) * (100 * 5 * 2.3e-16) ** 2 * d
        assert model.diagnostics_["vanishing"] < 1e-3
        assert model.diagnostics_["advice"] == ()


def test_four_crossing_lines_need_no_luck():
    X, truth = flats(4, 1, 3, seed=5, through_origin=True)
    assert agreement(truth, GPCA(n_clusters=4, n_components=1, n_init=1).fit(X), X) == 1
    one_start = [VQPCA(n_clusters=4, n_components=1, n_init=1, random_state=s).fit(X).objective_ for s in range(10)]
    assert max(one_start) > 1  # the alternation alone stays in other minima from some starts


def test_rotation_shift_and_unit_do_not_matter():
    X, _ = flats(3, 1, 3, seed=1)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    labels = GPCA(n_clusters=3, n_components=1).fit_predict(X)
    assert adjusted_rand_score(labels, GPCA(n_clusters=3, n_components=1).fit_predict(1e6 * X @ turn + 3e5)) > 0.97


def test_noise_is_told_of_and_what_is_too_large_is_refused():
    X, truth = flats(2, 1, 3, seed=0)
    noisy = GPCA(n_clusters=2, n_components=1).fit(X + np.random.default_rng(0).normal(scale=0.05, size=X.shape))
    assert noisy.diagnostics_["advice"][0].startswith("No polynomial vanishes")
    assert adjusted_rand_score(truth, noisy.labels_) > 0.5
    with pytest.raises(ValueError, match=r"286 coefficients, as many points.*VQPCA"):
        GPCA(n_clusters=10, n_components=2).fit(X)
    with pytest.raises(ValueError, match="no more than 2000"):
        GPCA(n_clusters=8, n_components=5).fit(np.random.default_rng(0).normal(size=(5000, 8)))
