"""Manifold charting: planes, the alignment by its definition, the null space, one chart, pieces, new points."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from helpers import tilted, up_to_sign
from manifoldry import ManifoldCharting, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._numerics.patches.affine import WeightedCharts

EPS = np.finfo(float).eps


def memberships(atlas):
    """The shares p (n, c) of the points in the charts, and their homogeneous coordinates (n, c, r + 1) there."""
    members, n, c = atlas.members, atlas.members.n_points, atlas.charts.n_patches
    p, u = np.zeros((n, c)), np.zeros((n, c, atlas.charts.width + 1))
    p[members.points, members.patches] = members.weights
    u[members.points, members.patches, :-1] = atlas.coordinates
    u[:, :, -1] = 1.0
    return p / p.sum(axis=1, keepdims=True), u


def disagreement_form(p, u):
    """The quadratic form of sum_i sum_{j<k} p_j p_k (g_j u_j - g_k u_k)^2 over all rows g, by its definition."""
    n, c, m = u.shape
    form = np.zeros((c * m, c * m))
    for i in range(n):
        for j in range(c):
            for k in range(j):
                if p[i, j] * p[i, k] > 0:
                    difference = np.zeros((c, m))
                    difference[j], difference[k] = u[i, j], -u[i, k]
                    form += p[i, j] * p[i, k] * np.outer(difference, difference)
    return form


def plane(n=300, seed=0):
    """Points of a piece of plane in seven dimensions, and their coordinates in it."""
    flat = np.random.default_rng(seed).uniform(size=(n, 2)) * [3.0, 1.0]
    return tilted(flat, 7, seed), flat


@pytest.mark.parametrize("chart", ["flat", "curved"])
def test_a_plane_is_found_up_to_an_affine_map_and_then_to_a_rigid_one(chart):
    """An eigenvector turns by rounding over the gap (Davis-Kahan); rounding is that of sums of n products."""
    X, flat = plane()
    affine = ManifoldCharting(n_patches=10, chart=chart, isometric=False).fit(X)
    charts = WeightedCharts.of(affine.patches_.members, affine.patches_.coordinates, affine.n_patches_)
    gap = charts.eigenpairs(3, Run()).values[2]
    angle = len(X) * EPS / gap
    assert angle < 1e-7
    assert metrics.procrustes(affine.embedding_, flat, kind="affine").error < angle**2
    np.testing.assert_allclose(affine.embedding_.T @ affine.embedding_, len(X) * np.eye(2), atol=len(X) * angle)
    rigid = ManifoldCharting(n_patches=10, chart=chart).fit(X)
    assert rigid.diagnostics_["isometric"]
    assert metrics.procrustes(rigid.embedding_, flat).error < (10 * angle) ** 2
    assert rigid.alignment_error_ < len(X) * EPS


def test_a_plane_leaves_as_many_zeros_as_coordinates_and_the_constant():
    X, _ = plane()
    atlas = ManifoldCharting(n_patches=10).fit(X).patches_
    charts = WeightedCharts.of(atlas.members, atlas.coordinates, atlas.charts.n_patches)
    values = np.linalg.eigvalsh(charts.alignment_matrix().toarray())
    np.testing.assert_allclose(values[:3], 0.0, atol=len(X) * EPS)
    assert values[3] > 1e-6
    assert values[-1] <= 1 + len(X) * EPS
    constant = charts.constant
    np.testing.assert_allclose(charts.blends @ constant, 1 / np.sqrt(len(X)), rtol=1e-12)


def test_the_alignment_solves_the_problem_of_its_definition():
    """A generalized eigenproblem of form and constraint, each summed up by loops."""
    roll = datasets.s_curve(240)
    model = ManifoldCharting(n_patches=8, isometric=False, min_participation=0.0, n_init=1).fit(roll.X)
    p, u = memberships(model.patches_)
    n, c, m = u.shape
    blends = (p[:, :, None] * u).reshape(n, c * m)
    values, vectors = scipy.linalg.eigh(disagreement_form(p, u), blends.T @ blends)
    assert abs(values[0]) < 1e-10
    by_definition = np.sqrt(n) * blends @ vectors[:, 1:3]
    assert up_to_sign(model.embedding_, by_definition) < 1e-6
    np.testing.assert_allclose(model.alignment_error_, values[1:3].sum(), rtol=1e-6)
    np.testing.assert_allclose(np.mean(model.disagreement_**2), model.alignment_error_, rtol=1e-8)


def test_the_form_is_the_disagreement_of_the_charts_and_zero_only_where_they_agree():
    """One chart moved by t disagrees with the others by t^2 times the sum of p (1 - p)."""
    X, flat = plane(120)
    model = ManifoldCharting(n_patches=5, chart="flat").fit(X)
    atlas, X = model.patches_, X - model.mean_
    p, u = memberships(atlas)
    n, c, m = u.shape
    form = disagreement_form(p, u)
    # In every chart the affine map that gives the first coordinate of the plane.
    design = np.column_stack([X, np.ones(n)])
    slope = np.linalg.lstsq(design, flat[:, 0], rcond=None)[0]
    charts = atlas.charts
    agreed = np.array(
        [[*(charts.frames[k].T @ slope[:-1]), slope[:-1] @ charts.means[k] + slope[-1]] for k in range(c)]
    )
    # Entries of the form are sums over n points, their products with the maps sums of two times c m terms.
    size = np.abs(agreed.ravel()) @ np.abs(form) @ np.abs(agreed.ravel())
    assert abs(agreed.ravel() @ form @ agreed.ravel()) < (n + 2 * c * m) * EPS * size
    t, moved = 0.3, agreed.copy()
    moved[2, -1] += t
    np.testing.assert_allclose(moved.ravel() @ form @ moved.ravel(), t**2 * (p[:, 2] * (1 - p[:, 2])).sum(), rtol=1e-9)
    # And in the orthonormal functions it is I - B'B, for any maps.
    weighted = WeightedCharts.of(atlas.members, atlas.coordinates, c)
    some = np.random.default_rng(1).standard_normal(int(weighted.present.sum()))
    blended = weighted.blends @ some
    wide = np.zeros((c, m))
    wide[weighted.present] = some
    frames = np.einsum("cra,ca->cr", weighted.axes, wide[:, 1:])
    shifts = wide[:, 0] / np.sqrt(weighted.masses) - np.einsum("cr,cr->c", weighted.means, frames)
    g = np.column_stack([frames, shifts])
    np.testing.assert_allclose((p * np.einsum("ncm,cm->nc", u, g)).sum(axis=1), blended, atol=1e-12)
    np.testing.assert_allclose(some @ weighted.alignment_matrix() @ some, g.ravel() @ form @ g.ravel(), rtol=1e-9)


def test_one_chart_is_principal_components():
    X = np.random.default_rng(2).standard_normal((60, 4)) * [4.0, 2.0, 0.3, 0.1]
    model = ManifoldCharting(n_patches=1, chart="flat").fit(X)
    scores = PCA(2).fit_transform(X)
    assert model.n_patches_ == 1
    assert up_to_sign(model.embedding_, scores) < 1e-10


def test_rolls_are_unfolded_and_new_points_go_where_they_belong_and_back():
    roll, new = datasets.swiss_roll(1000, hole=True), datasets.swiss_roll(200, hole=True, random_state=9)
    model = ManifoldCharting().fit(roll.X)
    found = metrics.procrustes(model.embedding_, roll.truth)
    assert found.error < 1e-3
    np.testing.assert_allclose(model.transform(roll.X), model.embedding_, atol=1e-12 * np.abs(model.embedding_).max())
    placed = model.transform(new.X) @ found.matrix + found.shift
    assert np.mean((placed - new.truth) ** 2) < 1e-3 * new.truth.var(axis=0).sum()
    assert np.mean((model.inverse_transform(model.transform(new.X)) - new.X) ** 2) < 1e-3 * new.X.var(axis=0).sum()


def test_of_a_plane_places_and_points_are_exchanged_exactly():
    X, _ = plane()
    model = ManifoldCharting(n_patches=10, chart="flat").fit(X[:200])
    np.testing.assert_allclose(model.inverse_transform(model.transform(X[200:])), X[200:], atol=1e-8)


def test_pieces_are_aligned_by_themselves_and_laid_side_by_side():
    one, flat = plane(150, 1)
    other, bent = plane(150, 2)
    model = ManifoldCharting(n_patches=8)
    with pytest.warns(UserWarning, match="2 connected components"):
        Y = model.fit_transform(np.r_[one, other + 50.0])
    assert model.diagnostics_["components"] == 2
    assert metrics.procrustes(Y[:150], flat).error < 1e-12
    assert metrics.procrustes(Y[150:], bent).error < 1e-12
    with pytest.raises(ValueError, match="2 connected components"):
        ManifoldCharting(n_patches=8, disconnected="raise").fit(np.r_[one, other + 50.0])


def test_it_says_where_it_cannot_help():
    with pytest.warns(UserWarning, match="so an embedding with n_components=2 cannot preserve distances"):
        ManifoldCharting().fit(load_digits().data[:400])
    globe = np.random.default_rng(3).standard_normal((500, 3))
    with pytest.warns(UserWarning, match="agree on no common scale"):
        closed = ManifoldCharting(n_init=1).fit(globe / np.linalg.norm(globe, axis=1, keepdims=True))
    assert not closed.diagnostics_["isometric"]


def test_more_charts_than_points_allow_are_refused_in_words():
    with pytest.raises(ValueError, match="each patch needs 3 of the 20 points"):
        ManifoldCharting(n_patches=9).fit(np.random.default_rng(4).standard_normal((20, 3)))


def test_advice_says_when_coordinates_have_unit_variance():
    rng = np.random.default_rng(1)
    cloud, sheet = rng.normal(size=(60, 5)) * [5, 3, 2, 2, 2], rng.normal(size=(60, 2)) * [5, 3]
    of_cloud, of_sheet = (ManifoldCharting(n_init=1).fit(rows) for rows in (cloud, sheet))
    np.testing.assert_allclose(of_cloud.embedding_.T @ of_cloud.embedding_, 60 * np.eye(2), atol=1e-8)
    assert any("unit variance" in sentence for sentence in of_cloud.diagnostics_["advice"])
    assert of_sheet.diagnostics_["isometric"]
    assert not any("unit variance" in sentence for sentence in of_sheet.diagnostics_["advice"])
