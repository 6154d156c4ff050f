"""Fits that are stationary: no small change of the map brings the points closer."""

import pickle

import numpy as np
import pytest
from scipy.linalg import expm, orthogonal_procrustes

from manifoldry._numerics.procrustes import Alignment, affine_fit, rigid_fit, similarity_fit

FITS = (rigid_fit, similarity_fit, affine_fit)


def clouds(seed, p=3, q=3, n=50):
    rng = np.random.default_rng(seed)
    source = rng.normal(size=(n, p)) + 2.0
    mixed = source @ rng.normal(size=(p, q)) + 0.3 * rng.normal(size=(n, q)) - 1.0
    return source, mixed


def residual(fit, source, target):
    image = fit(source)
    padded = np.pad(target, ((0, 0), (0, image.shape[1] - target.shape[1])))
    return ((image - padded) ** 2).sum()


@pytest.mark.parametrize("shape", [(3, 3), (2, 3), (3, 2), (1, 4), (4, 1)])
def test_no_turn_scale_or_shift_nearby_fits_better(shape):
    source, target = clouds(1, *shape)
    rng = np.random.default_rng(2)
    for fit_kind in (rigid_fit, similarity_fit):
        fit = fit_kind(source, target)
        width = max(shape)
        np.testing.assert_allclose(fit.matrix @ fit.matrix.T, np.eye(shape[0]), atol=1e-14)
        assert fit.matrix.shape == (shape[0], width)
        best = residual(fit, source, target)
        for _ in range(20):
            skew = rng.normal(size=(width, width)) * 1e-2
            turned = fit.matrix @ expm(skew - skew.T)
            shifted = fit.shift + 1e-2 * rng.normal(size=width)
            shifted_turn = target_mean(target, width) - fit.scale * source.mean(axis=0) @ turned
            assert residual(Alignment(turned, fit.scale, shifted_turn), source, target) >= best
            assert residual(Alignment(fit.matrix, fit.scale, shifted), source, target) > best
            if fit_kind is similarity_fit:
                scale = fit.scale * (1 + 1e-2 * rng.normal())
                shift = target_mean(target, width) - scale * source.mean(axis=0) @ fit.matrix
                assert residual(Alignment(fit.matrix, scale, shift), source, target) > best


def target_mean(target, width):
    return np.pad(target.mean(axis=0), (0, width - target.shape[1]))


def test_scipy_finds_the_same_rotation():
    source, target = clouds(3)
    expected, total = orthogonal_procrustes(source - source.mean(axis=0), target - target.mean(axis=0))
    np.testing.assert_allclose(rigid_fit(source, target).matrix, expected, atol=1e-13)
    scale = similarity_fit(source, target).scale
    assert scale == pytest.approx(total / ((source - source.mean(axis=0)) ** 2).sum(), rel=1e-13)


def test_affine_residuals_are_orthogonal_to_the_points():
    """The normal equations, with a constant column for the shift; and nothing below: the map is linear."""
    source, target = clouds(4, p=3, q=2)
    rest = affine_fit(source, target)(source) - target
    design = np.column_stack([source, np.ones(len(source))])
    # 50 products of numbers of order 3
    np.testing.assert_allclose(design.T @ rest, 0.0, atol=50 * 10 * 2.3e-16 * 10)


def test_affine_of_a_flat_set_is_the_shortest_of_many():
    source, _ = clouds(5, p=2)
    flat = np.column_stack([source, source.sum(axis=1)])
    target = source[:, :1]
    matrix = affine_fit(flat, target).matrix
    np.testing.assert_allclose(flat @ matrix + affine_fit(flat, target).shift, target, atol=1e-13)
    np.testing.assert_allclose(np.array([1.0, 1.0, -1.0]) @ matrix, 0.0, atol=1e-13)


def test_fitting_back_is_the_inverse_for_rigid_maps():
    source, _ = clouds(6)
    moved = rigid_fit(source, clouds(7)[1])
    back = rigid_fit(moved(source), source)
    np.testing.assert_allclose(back.matrix, moved.matrix.T, atol=1e-13)
    np.testing.assert_allclose(back(moved(source)), source, atol=1e-13)


def test_coincident_points_are_only_shifted():
    _, target = clouds(8)
    for fit_kind in FITS:
        fit = fit_kind(np.full((50, 3), 4.0), target)
        np.testing.assert_allclose(fit(np.full((1, 3), 4.0))[0], target.mean(axis=0), atol=1e-13)


def test_an_alignment_survives_pickling_and_leaves_its_arguments_alone():
    source, target = clouds(9)
    before = source.copy(), target.copy()
    fit = similarity_fit(source, target)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fit))(source), fit(source))
    np.testing.assert_array_equal(source, before[0])
    np.testing.assert_array_equal(target, before[1])


def test_bad_input_is_refused_in_a_sentence():
    source, target = clouds(10)
    for fit_kind in FITS:
        with pytest.raises(ValueError, match=r"same n > 0; got \(50, 3\) and \(49, 3\)"):
            fit_kind(source, target[1:])
    with pytest.raises(ValueError, match=r"a \(p, q\) matrix and q shifts; got shapes \(3, 2\) and \(3,\)"):
        Alignment(np.zeros((3, 2)), 1.0, np.zeros(3))
