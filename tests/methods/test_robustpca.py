"""Principal component pursuit recovers what its theorem says, proves it, and places rows by its own problem."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from helpers import problems
from manifoldry import PCA, RobustPCA
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry.methods.linear._robust_pca import pursue, shrunk_singular_values, soft_threshold


def corrupted(n=100, p=80, rank=4, share=0.08, seed=0):
    """Return a table of low rank about an offset, and the errors at places without pattern, of any size."""
    rng = np.random.default_rng(seed)
    low = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p)) + rng.uniform(-3, 3, p)
    return low, np.where(rng.random((n, p)) < share, 30 * rng.standard_normal((n, p)), 0.0)


@pytest.mark.parametrize("rank", [1, 4])
@pytest.mark.parametrize("share", [0.02, 0.08])
def test_low_rank_and_errors_are_recovered(rank, share):
    """Within the regime of the theorem the program has one solution, and its tables are the ones put in."""
    low, errors = corrupted(rank=rank, share=share)
    model = RobustPCA(n_components=rank, tol=1e-8).fit(low + errors)
    assert np.abs(model.low_rank_ - low).max() < 1e-4
    np.testing.assert_allclose(model.low_rank_ + model.sparse_, low + errors, atol=1e-10)
    assert model.certificate_.rank == rank
    assert model.certificate_.optimal
    centered = low - model.mean_
    assert np.linalg.norm(centered - centered @ model.components_.T @ model.components_) < 1e-5 * np.linalg.norm(low)


def test_principal_components_are_not():
    """The same table: PCA follows the errors."""
    low, errors = corrupted()
    pca, pursuit = (cls(n_components=4).fit(low + errors) for cls in (PCA, RobustPCA))
    clean = np.linalg.svd(low - low.mean(axis=0))[2][:4]
    cosines = [np.linalg.svd(clean @ model.components_.T, compute_uv=False).min() for model in (pca, pursuit)]
    assert cosines[0] < 0.9
    assert cosines[1] > 1 - 1e-6


def test_bound_is_below_every_decomposition():
    """Weak duality, against decompositions of other weights, of PCA and at random."""
    X = np.random.default_rng(1).standard_normal((40, 15)) ** 3
    model = RobustPCA(n_components=2, tol=1e-7, max_iter=5000).fit(X)
    weight, certificate = model.diagnostics_["weight"], model.certificate_
    assert certificate.gap <= 1e-7

    def value(low):
        centered = low - low.mean(axis=0)
        return np.linalg.svd(centered, compute_uv=False).sum() + weight * np.abs(X - low).sum()

    assert value(model.low_rank_) == pytest.approx(certificate.objective, rel=1e-6)
    others = [
        X,
        np.tile(np.median(X, axis=0), (40, 1)),
        PCA(n_components=3).fit(X).inverse_transform(PCA(3).fit_transform(X)),
    ]
    others += [RobustPCA(weight=factor * weight).fit(X).low_rank_ for factor in (0.7, 1.4)]
    assert min(value(low) for low in others) > certificate.bound * (1 + 1e-4)


def test_without_rank_it_is_a_median():
    """So small a weight leaves no low rank: offsets are then medians, which have the least sum of absolute errors."""
    X = np.random.default_rng(2).standard_normal((31, 6))
    model = RobustPCA(n_components=2, weight=1e-3, tol=1e-9).fit(X)
    np.testing.assert_allclose(model.mean_, np.median(X, axis=0), atol=1e-4)
    assert model.certificate_.rank == 0
    assert not model.embedding_.any()
    assert not model.transform(X[:3]).any()


def test_a_huge_weight_gives_principal_components():
    X = np.random.default_rng(3).standard_normal((50, 8)) * np.arange(1, 9)
    model, pca = RobustPCA(n_components=3, weight=1e3, tol=1e-9).fit(X), PCA(n_components=3).fit(X)
    assert np.abs(model.sparse_).max() < 1e-6
    signs = np.sign((model.embedding_ * pca.embedding_).sum(axis=0))
    np.testing.assert_allclose(model.embedding_ * signs, pca.embedding_, atol=1e-5 * np.abs(X).max())
    Q = np.random.default_rng(4).standard_normal((5, 8))
    np.testing.assert_allclose(model.transform(Q) * signs, pca.transform(Q), atol=1e-5)


def test_new_rows_with_errors_are_placed_by_their_clean_entries():
    low, errors = corrupted(200, 80)
    model = RobustPCA(n_components=4, tol=1e-8).fit(low[:150] + errors[:150])
    clean, dirty = model.transform(low[150:]), model.transform(low[150:] + errors[150:])
    assert np.abs(dirty - clean).max() < 0.02 * np.abs(clean).max()
    pca = PCA(n_components=4).fit(low[:150])
    assert np.abs(pca.transform(low[150:] + errors[150:]) - pca.transform(low[150:])).max() > np.abs(clean).max()


def test_a_row_is_the_limit_of_an_absolute_regression():
    """As the singular values grow the problem of a row is the least sum of absolute errors: a linear program."""
    low, errors = corrupted(150, 40, rank=2, share=0.2)
    model = RobustPCA(n_components=2, tol=1e-8).fit(low[:120] + errors[:120])
    x = (low + errors)[130] + 0.1 * np.random.default_rng(5).standard_normal(40)
    ridgeless = replace(model._extension, sizes=1e4 * model.singular_values_)
    V = model.components_.T
    p, r = V.shape
    ends = np.block([[V, -np.eye(p)], [-V, -np.eye(p)]])
    away = np.concatenate([x - model.mean_, model.mean_ - x])
    best = linprog(np.r_[np.zeros(r), np.ones(p)], A_ub=ends, b_ub=away, bounds=[(None, None)] * r + [(0, None)] * p)
    found = ridgeless(x[None], Run(0))[0]
    assert np.abs(x - model.mean_ - V @ found).sum() == pytest.approx(best.fun, rel=1e-4)


def test_thresholds_are_the_minimizers():
    """Neither an entry nor a table near the answer has a smaller value; both are known by hand on a diagonal."""
    rng = np.random.default_rng(6)
    A = rng.standard_normal((7, 5))
    shrunk, sizes, directions = shrunk_singular_values(A, 0.8)
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    np.testing.assert_allclose(shrunk, (u * np.maximum(s - 0.8, 0)) @ vt, atol=1e-12)
    np.testing.assert_allclose(sizes, (s - 0.8)[s > 0.8], atol=1e-12)
    assert directions.shape == (5, len(sizes))
    wide, _, _ = shrunk_singular_values(A.T, 0.8)
    np.testing.assert_allclose(wide, shrunk.T, atol=1e-12)

    def value(L):
        return 0.8 * np.linalg.svd(L, compute_uv=False).sum() + ((L - A) ** 2).sum() / 2

    assert all(value(shrunk) < value(shrunk + 0.01 * rng.standard_normal(A.shape)) for _ in range(20))
    grid = np.linspace(-3, 3, 6001)
    for x in (-2.0, 0.3, 1.7):
        least = grid[np.argmin(0.9 * np.abs(grid) + (grid - x) ** 2 / 2)]
        assert soft_threshold(np.array(x), 0.9) == pytest.approx(least, abs=1e-3)


def test_best_value_never_rises_and_the_bound_is_true_at_any_stop():
    low, errors = corrupted(60, 50, rank=2)
    X = low + errors
    X -= X.mean(axis=0)
    end = pursue(X, 1 / np.sqrt(60), 1000, 1e-6, Run(0))
    assert end.trace.stop is Stop.CONVERGED
    for steps in (1, 3, 10, 30):
        early = pursue(X, 1 / np.sqrt(60), steps, 1e-6, Run(0))
        assert early.trace.n_iter == steps
        assert (np.diff(early.trace.objective) <= 0).all()
        assert early.bound <= end.trace.objective[-1]
        assert early.trace.objective[-1] >= end.trace.objective[-1]


def test_a_rotation_spreads_errors():
    """Why the contract asks for no rotation here: it makes a table of the same rank whose errors are everywhere."""
    low, errors = corrupted()
    turn = np.linalg.qr(np.random.default_rng(7).standard_normal((80, 80)))[0]
    straight, turned = RobustPCA(n_components=4).fit(low + errors), RobustPCA(n_components=4).fit((low + errors) @ turn)
    assert turned.certificate_.rank > straight.certificate_.rank == 4
    assert any("errors are not few" in sentence for sentence in turned.diagnostics_["advice"])


def test_entries_that_hide_all_others_in_the_tolerance_are_told():
    rng = np.random.default_rng(0)
    clean = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 30))
    for size, hidden in ((1e4, False), (1e8, True), (1e10, True)):
        X = clean.copy()
        X[7, 3] += size
        advice = RobustPCA(n_components=3).fit(X).diagnostics_["advice"]
        assert any("lost in the tolerance" in sentence for sentence in advice) == hidden


@pytest.mark.parametrize("share", [0.02, 0.08])
def test_spikes_in_noisy_columns_are_no_reason_to_warn(share):
    """Noise gives nearly every entry a small error; what counts is that few entries hold most of all errors."""
    rng = np.random.default_rng(3)
    clean = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 12)) + 0.05 * rng.standard_normal((300, 12))
    hit = rng.random(clean.shape) < share
    model = RobustPCA().fit(clean + np.where(hit, 15 * rng.choice([-1, 1], clean.shape), 0.0))
    assert model.diagnostics_["error_share"] > 0.5
    assert model.diagnostics_["gross_share"] < share
    np.testing.assert_array_equal(np.abs(model.sparse_) > 5, hit)
    assert problems(model) == ()


def test_noise_alone_is_a_reason_to_warn():
    model = RobustPCA().fit(np.random.default_rng(4).standard_normal((200, 12)))
    assert any("errors are not few" in sentence for sentence in model.diagnostics_["advice"])
    assert model.diagnostics_["gross_share"] > 0.2


@pytest.mark.parametrize(
    ("shape", "rank", "share", "expected"),
    [((100, 100), 5, 0.1, True), ((200, 50), 3, 0.1, True), ((60, 60), 12, 0.2, False), ((200, 20), 5, 0.2, False)],
)
def test_a_solved_program_is_not_called_a_recovery(shape, rank, share, expected):
    """The certificate is of the program in any case; where the parts are not the true ones, there is a sentence."""
    rng = np.random.default_rng(11)
    true = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    wrong = np.where(rng.random(shape) < share, rng.choice([-5.0, 5.0], shape) * np.sqrt(rank), 0.0)
    model = RobustPCA(tol=1e-6).fit(true + wrong)
    error = np.linalg.norm(model.low_rank_ - true) / np.linalg.norm(true)
    found = [s for s in model.diagnostics_["advice"] if "need not be the true one" in s]
    assert model.certificate_.optimal
    assert "whether its parts are the true ones is another question" in model.certificate_.sentence
    assert (error < 1e-3) == expected
    assert len(found) == (0 if expected else 1)


def test_an_offset_of_the_largest_integers_loses_no_digits():
    """Integers near 2**64 are multiples of 2048 in double precision, and their differences exact.

    The iteration ends at a relative gap of 1e-5, at a point that the rounding of the means decides.
    """
    steps = np.random.default_rng(12).integers(0, 50, size=(100, 6))
    far = np.uint64(2**64 - 2048 * 100) + np.uint64(2048) * steps.astype(np.uint64)
    model, near = RobustPCA(n_components=2).fit(far), RobustPCA(n_components=2).fit(2048.0 * steps)
    assert model.certificate_.optimal
    np.testing.assert_allclose(np.abs(model.embedding_), np.abs(near.embedding_), atol=1e-4 * 2048 * 50)
