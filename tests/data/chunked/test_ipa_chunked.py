"""IPA of chunked data: every row counts, and the result is that of an array, whatever holds the rows."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans

from helpers import rigid_error
from manifoldry import IPA, chunked_data, datasets
from manifoldry._core import chunks as chunk_rows
from manifoldry._numerics.patches import layout
from manifoldry._numerics.patches.cover import Membership
from manifoldry._numerics.patches.layout import ChunkOverlaps
from manifoldry._numerics.patches.overlaps import find_overlaps, merged_overlaps
from manifoldry.methods.unfolding import _ipa as ipa

da = pytest.importorskip("dask.array")

SAMPLE, N = 1200, 3000


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make a few thousand rows more than a sample, in several blocks."""
    monkeypatch.setattr(ipa, "MAX_SAMPLE", SAMPLE)
    monkeypatch.setattr(chunk_rows, "MAX_CHUNK_ROWS", 512)


def forms(X):
    cuts = np.sort(np.random.default_rng(1).choice(X.shape[0], 6, replace=False))
    return {
        "stream": chunked_data(lambda: iter([X[lo:hi] for lo, hi in zip([0, *cuts], [*cuts, None], strict=True)])),
        "dask": da.from_array(X, chunks=(777, 2)),
    }


def assert_same_in_every_form(X, **parameters):
    """Fit all forms and the array; return the fits to a stream and in memory."""
    whole = IPA(**parameters).fit(X)
    fits = {name: IPA(**parameters).fit(blocks) for name, blocks in forms(X).items()}
    for fit in fits.values():
        # The placement of the patches, by overlaps of all rows, has the bits of that in memory.
        np.testing.assert_array_equal(fit._extension.place.stitched.frames, whole._extension.place.stitched.frames)
        np.testing.assert_array_equal(fit._extension.place.stitched.shifts, whole._extension.place.stitched.shifts)
        np.testing.assert_array_equal(fit.embedding_, fits["stream"].embedding_)
        np.testing.assert_array_equal(fit.sampled_rows_, whole.sample_)
        np.testing.assert_array_equal(fit.distortion_, whole.distortion_)
        np.testing.assert_array_equal(fit.spectrum_.values, whole.spectrum_.values)
        assert getattr(fit, "certificate_", None) == getattr(whole, "certificate_", None)  # none with one patch
        assert fit.diagnostics_["advice"] == whole.diagnostics_["advice"]
    # A place is a sum of at most p products in each of three steps (chart, motion of the patch, turn to the axes), of
    # numbers up to the size of the data; single precision rounds the result.
    p, size = whole._extension.place.stitched.frames.shape[2], np.abs(whole.embedding_).max() + np.abs(X).max()
    eps = np.finfo(float).eps * 3 * (p + 3) + (np.finfo(np.float32).eps if X.dtype == np.float32 else 0)
    stream = fits["stream"]
    np.testing.assert_allclose(stream.embedding_, whole.embedding_[whole.sample_], rtol=0, atol=eps * size)
    np.testing.assert_allclose(stream.disagreement_, whole.disagreement_[whole.sample_], rtol=0, atol=eps * size)
    placed = np.concatenate(list(stream.transform(forms(X)["stream"])))
    np.testing.assert_allclose(placed, whole.embedding_, rtol=0, atol=eps * size)
    np.testing.assert_array_equal(fits["dask"].transform(forms(X)["dask"]).compute(scheduler="sync"), placed)
    return stream, whole


@pytest.mark.parametrize("compiled", [False, True])
def test_a_roll_in_blocks_is_that_in_memory(compiled, monkeypatch):
    monkeypatch.setattr(layout, "MIN_COMPILED_ROWS", 0 if compiled else N + 1)
    roll = datasets.swiss_roll(N, hole=True)
    stream, whole = assert_same_in_every_form(roll.X)
    # The distortion of charts that passes for flat, DISTORTION_TOL, over some dozen patches.
    assert rigid_error(whole.embedding_, roll.truth) < 0.02
    assert stream.diagnostics_["fitted_to"].startswith(f"all {N:,} rows")


@pytest.mark.parametrize("compiled", [False, True])
def test_single_precision_stays(compiled, monkeypatch):
    monkeypatch.setattr(layout, "MIN_COMPILED_ROWS", 0 if compiled else N + 1)
    stream, _ = assert_same_in_every_form(datasets.swiss_roll(N).X.astype(np.float32), n_patches=20)
    assert stream.embedding_.dtype == np.float32


@pytest.mark.parametrize("compiled", [False, True])
def test_pieces_lie_side_by_side(compiled, monkeypatch):
    monkeypatch.setattr(layout, "MIN_COMPILED_ROWS", 0 if compiled else N + 1)
    X = datasets.swiss_roll(N).X
    X[::2] += 200.0
    stream, _ = assert_same_in_every_form(X)
    assert stream.diagnostics_["components"] == 2
    with pytest.raises(ValueError, match="has 2 connected components"):
        IPA(disconnected="raise").fit(chunked_data(X))


def test_data_that_is_no_surface():
    X = np.random.default_rng(0).standard_normal((N, 4))
    with pytest.warns(UserWarning, match="cannot preserve distances"):
        stream, _ = assert_same_in_every_form(X)
    assert stream.diagnostics_["patch_components"] == 4


def test_all_rows_count():
    X = datasets.swiss_roll(N, noise=0.05).X
    blocks = chunked_data(X)
    whole, alone = IPA(n_patches=20).fit(blocks), IPA(n_patches=20)
    alone.fit(X[whole.sampled_rows_])
    np.testing.assert_array_equal(alone.patches_.charts.means, whole.patches_.charts.means)
    assert not np.array_equal(alone.embedding_, whole.embedding_)


@pytest.mark.parametrize("n", [SAMPLE - 1, SAMPLE, SAMPLE + 1])
def test_just_above_and_below_the_sample(n):
    X = datasets.swiss_roll(n).X
    stream, whole = assert_same_in_every_form(X, n_patches=20)
    assert len(stream.sampled_rows_) == min(n, SAMPLE)
    assert len(whole.embedding_) == n


def test_blocks_are_read_twice():
    X, reads = datasets.swiss_roll(N).X, []

    def read():
        reads.append(1)
        return iter(np.array_split(X, 9))

    IPA(n_patches=20).fit(chunked_data(read))
    assert len(reads) == 2
    with pytest.raises(ValueError, match="read only once"):
        IPA(n_patches=20).fit(iter(np.array_split(X, 9)))


def test_sparse_rows():
    X = datasets.swiss_roll(N).X
    dense, sparse = (IPA(n_patches=20).fit(chunked_data(source)) for source in (X, csr_array(X)))
    np.testing.assert_array_equal(sparse.embedding_, dense.embedding_)


def test_patches_of_an_estimator():
    X = datasets.swiss_roll(N).X
    clustering = KMeans(40, random_state=0, n_init=1)
    fits = [IPA(clustering=clustering).fit(blocks) for blocks in forms(X).values()]
    for fit in fits:
        np.testing.assert_array_equal(fit.embedding_, fits[0].embedding_)
    assert fits[0].n_patches_ == 40
    placed = fits[0].transform(X)
    np.testing.assert_allclose(placed[fits[0].sampled_rows_], fits[0].embedding_, atol=1e-10)


@pytest.mark.parametrize("patches", [np.zeros(N, dtype=int), [np.arange(N)]])
def test_given_patches_are_refused(patches):
    def read():
        raise AssertionError("read")

    blocks = chunked_data(np.ones((N, 3)))
    blocks.sample = read
    with pytest.raises(ValueError, match="patches of single points cannot be given for chunked data"):
        IPA(patches=patches).fit(blocks)


def test_what_goes_to_the_blocks_is_small():
    fit = IPA(n_patches=20).fit(datasets.swiss_roll(N).X)
    work = ChunkOverlaps(fit.patches_.cover, fit.patches_.charts)
    # 20 patches of some 50 numbers each, not the 1,200 rows of the sample.
    assert len(pickle.dumps(work)) < 8 * 20 * 50 + 2000 < fit.patches_.members.points.nbytes * 3


def test_merged_overlaps_are_those_of_all_points():
    rng = np.random.default_rng(0)
    n, n_patches = 900, 12
    points = np.repeat(np.arange(n), 3)
    patches = np.concatenate([rng.choice(n_patches, 3, replace=False) for _ in range(n)])
    patches[: n // 2] %= 4  # some pairs of the last points do not occur among the first
    f = rng.standard_normal((len(points), 2)) + 5
    keep = np.r_[True, (np.diff(points) > 0) | (np.diff(patches) != 0)]
    points, patches, f = points[keep], patches[keep], f[keep]

    def overlaps(lo, hi):
        some = (points >= lo) & (points < hi)
        return find_overlaps(
            Membership(points[some] - lo, patches[some], np.ones(some.sum()), hi - lo), f[some], n_patches
        )

    whole = overlaps(0, n)
    for cuts in ([0, 450, n], [0, 1, 2, n], [0, 300, 600, n]):
        parts = [overlaps(lo, hi) for lo, hi in pairwise(cuts)]
        total = parts[0]
        for part in parts[1:]:
            total = merged_overlaps(total, part)
        for name in ("first", "second", "counts"):
            np.testing.assert_array_equal(getattr(total, name), getattr(whole, name))
        # Sums of m terms in two orders differ by at most 2 m eps times the mean size of the terms.
        bound = 2 * (whole.counts.max() + len(cuts)) * np.finfo(float).eps
        np.testing.assert_allclose(total.means, whole.means, rtol=0, atol=bound * np.abs(f).max())
        np.testing.assert_allclose(total.moments, whole.moments, rtol=0, atol=bound * np.abs(f).max() ** 2)
