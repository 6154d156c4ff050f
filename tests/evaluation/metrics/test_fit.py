"""Procrustes errors whose values are known on paper."""

import numpy as np
import pytest

from manifoldry.evaluation.metrics import procrustes

KINDS = ("rigid", "similarity", "affine")


def spread(Z):
    return ((Z - Z.mean(axis=0)) ** 2).sum()


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_moved_copy_fits_exactly(mirrored):
    rng = np.random.default_rng(int(mirrored))
    truth = rng.normal(size=(70, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn[:, 0] *= np.sign(np.linalg.det(turn)) * (-1.0 if mirrored else 1.0)
    Y = truth @ turn + 5.0
    for kind in KINDS:
        fit = procrustes(Y, truth, kind=kind)
        # each coordinate of about 5 errs by a few eps = 1e-15, squared against a spread of order 1 per point
        assert fit.error < 1e-28
        assert fit.scale == pytest.approx(1.0, abs=1e-14)
        np.testing.assert_allclose(fit.matrix, turn.T, atol=1e-14)
        np.testing.assert_allclose(fit.aligned, fit.scale * Y @ fit.matrix + fit.shift, atol=1e-13)


def test_what_each_kind_forgives():
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(60, 2))
    scaled = 3.0 * truth
    assert procrustes(scaled, truth).error == pytest.approx(4.0, rel=1e-13)  # |3z - z|^2 / |z|^2
    assert procrustes(scaled, truth, kind="similarity").error < 1e-28
    assert procrustes(scaled, truth, kind="similarity").scale == pytest.approx(1 / 3, rel=1e-14)
    sheared = truth @ np.array([[2.0, 1.0], [0.0, 1.0]])
    assert procrustes(sheared, truth, kind="similarity").error > 0.01
    assert procrustes(sheared, truth, kind="affine").error < 1e-28


def test_errors_fall_as_more_is_allowed():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        Y, truth = rng.normal(size=(40, 1 + seed % 4)), rng.normal(size=(40, 2))
        errors = [procrustes(Y, truth, kind=kind).error for kind in KINDS]
        assert 1.0 >= errors[1]
        assert errors[0] > errors[1]
        # one column turned and scaled is any linear map of it, so there the two errors agree to rounding
        assert errors[1] > errors[2] if Y.shape[1] > 1 else errors[1] == pytest.approx(errors[2], rel=1e-13)


def test_missing_and_extra_directions_count_as_error():
    """Columns without correlation to one another: the best turn keeps the axes."""
    signs = np.array(np.meshgrid([-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0])).reshape(3, -1).T
    truth = signs * [3.0, 2.0, 1.0]
    total = spread(truth)
    for kind in KINDS:
        assert procrustes(truth[:, :2], truth, kind=kind).error == pytest.approx(8.0 / total, rel=1e-13)
        assert procrustes(truth[:, :2], truth, kind=kind).aligned.shape == truth.shape
    wide = procrustes(truth, truth[:, :2])
    assert wide.error == pytest.approx(8.0 / spread(truth[:, :2]), rel=1e-13)
    assert wide.aligned.shape == truth.shape
    assert procrustes(truth, truth[:, :2], kind="affine").error < 1e-28


def test_a_collapsed_embedding_has_error_one():
    truth = np.random.default_rng(4).normal(size=(30, 2))
    for kind in KINDS:
        assert procrustes(np.full((30, 2), 7.0), truth, kind=kind).error == pytest.approx(1.0, rel=1e-13)


def test_bad_input_is_refused_in_a_sentence():
    Y = np.random.default_rng(5).normal(size=(30, 2))
    with pytest.raises(ValueError, match=r"got 30 and 29 rows"):
        procrustes(Y, Y[1:])
    with pytest.raises(ValueError, match=r"points of the truth coincide"):
        procrustes(Y, np.ones((30, 2)))
    with pytest.raises(ValueError, match=r"kind must be one of 'rigid', 'similarity', 'affine'; got 'any'"):
        procrustes(Y, Y, kind="any")
    with pytest.raises(ValueError, match=r"truth must be finite"):
        procrustes(Y, np.where(Y > 1, np.inf, Y))
