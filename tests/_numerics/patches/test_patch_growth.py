"""Patches that grow: old charts stay, overlaps are sums over all rows, layouts are as good as those of a fit."""

from dataclasses import replace

import numpy as np
import pytest

from manifoldry import IPA, datasets, metrics
from manifoldry._core.run import Run
from manifoldry._core.warnings import EmbeddingWarning
from manifoldry._numerics.patches.layout import ChunkOverlaps
from manifoldry._numerics.patches.overlaps import merged_overlaps
from manifoldry.methods.unfolding._patches import placement_start

MAX_ROLL_ERROR = 1e-5
"""Procrustes error, a share of the variance: 3e-9 to 5e-7 on rolls of 3,000 points in 5 or 10 batches, as by fits, and
3e-6 where the first 240 points of a holed one were a batch."""


def ordered_roll(n=1200, hole=False):
    """A roll whose rows come in the order of arc length."""
    roll = datasets.swiss_roll(n, hole=hole, random_state=1)
    order = np.argsort(roll.truth[:, 0], kind="stable")
    return roll.X[order], roll.truth[order]


def grown(batches):
    model = IPA()
    for batch in batches:
        model.partial_fit(batch)
    return model


@pytest.mark.parametrize("hole", [False, True])
def test_a_roll_that_grows_is_unrolled_as_by_a_fit(hole):
    X, truth = ordered_roll(hole=hole)
    model, whole = grown(np.array_split(X, 5)), IPA().fit(X)
    assert model.certificate_.optimal
    assert metrics.procrustes(model.embedding_, truth).error < MAX_ROLL_ERROR
    assert metrics.procrustes(model.embedding_, whole.embedding_).error < 4 * MAX_ROLL_ERROR  # (a + b)^2 <= 4 max^2
    assert model.embedding_.shape == truth.shape
    np.testing.assert_allclose(model.transform(X[:200]), model.embedding_[:200], atol=1e-9)


def test_rows_among_old_ones_change_no_chart_and_no_cell():
    X, truth = ordered_roll()
    rows = np.random.default_rng(0).permutation(len(X))
    model = IPA().partial_fit(X[rows[:1100]])
    before = model.patches_
    model.partial_fit(X[rows[1100:]])
    after = model.patches_
    assert after.charts is before.charts
    assert after.cover is before.cover
    assert metrics.procrustes(model.embedding_, truth[rows]).error < MAX_ROLL_ERROR


def test_old_charts_stay_bit_for_bit_and_overlaps_are_sums_over_all_rows():
    X, _ = ordered_roll()
    model = IPA().partial_fit(X[:700])
    old = model.patches_.charts
    model.partial_fit(X[700:])
    atlas, c = model.patches_, old.n_patches
    assert atlas.charts.n_patches > c
    for name in ("means", "frames", "second_forms", "offsets", "residuals"):
        np.testing.assert_array_equal(getattr(atlas.charts, name)[:c], getattr(old, name))
    work = ChunkOverlaps(atlas.cover, atlas.charts, model.mean_)
    parts = [work(rows, 0, Run(0, 1)) for rows in np.array_split(X, 4)]
    total = parts[0]
    for part in parts[1:]:
        total = merged_overlaps(total, part)
    np.testing.assert_array_equal(atlas.overlaps.counts, total.counts)
    # Means of at most 1,200 products, each summed in another order.
    size = np.abs(total.moments).max()
    np.testing.assert_allclose(atlas.overlaps.moments, total.moments, atol=1200 * np.finfo(float).eps * size)


def test_a_placement_starts_where_it_ends():
    """With no new patch the start is the solution itself; with new ones it is close to it."""
    X, _ = ordered_roll()
    model = grown((X[:800], X[800:]))
    overlaps, sizes = model.patches_.overlaps, model.patches_.charts.sizes
    stitched = model._extension.place.stitched
    c = len(sizes)
    start = placement_start(stitched, overlaps, sizes)
    np.testing.assert_array_equal(start[-c:], stitched.shifts)
    known = replace(
        stitched, frames=stitched.frames[:-9], shifts=stitched.shifts[:-9], components=stitched.components[:-9]
    )
    size = np.abs(stitched.shifts).max()
    np.testing.assert_allclose(placement_start(known, overlaps, sizes)[-c:], stitched.shifts, atol=0.02 * size)


def test_few_rows_far_away_wait_for_more():
    """Four rows beyond the end of a strip are too few for a chart; with twenty more they are a patch, and in line."""
    rng = np.random.default_rng(2)
    strip = np.column_stack([rng.uniform(0, 10, 400), rng.uniform(0, 2, 400), np.zeros(400)])
    more = np.column_stack([rng.uniform(10, 13, 160), rng.uniform(0, 2, 160), np.zeros(160)])
    model = IPA(n_patches=10).partial_fit(strip)
    model.partial_fit(more[:4])
    assert model.n_patches_ == 10
    model.partial_fit(more[4:])
    assert model.n_patches_ > 10
    flat = np.concatenate([strip, more])[:, :2]
    assert metrics.procrustes(model.embedding_, flat).error < 1e-20


def test_what_cannot_grow_is_fitted_again():
    X = np.random.default_rng(0).standard_normal((240, 6))  # no surface
    model, whole = grown((X[:200], X[200:])), IPA().fit(X)
    np.testing.assert_array_equal(model.embedding_, whole.embedding_)


def test_after_a_fit_rows_begin_anew_and_that_is_told():
    X, _ = ordered_roll(600)
    model = IPA().fit(X[:300])
    with pytest.warns(EmbeddingWarning, match="kept none of its 300 rows"):
        model.partial_fit(X[300:])
    assert model.embedding_.shape == (300, 2)
