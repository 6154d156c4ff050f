"""IPA's passes over rows on the GPU: charts, overlaps, images and points, against the loops of the CPU."""

import numpy as np
import pytest

from manifoldry import IPA, datasets
from manifoldry._core.run import Run
from manifoldry._numerics.gpu import patches
from manifoldry._numerics.gpu.kernels.patch_rows import add_parts, sum_moments
from manifoldry._numerics.gpu.patches import DevicePatches, invert_points, overlaps_of
from manifoldry._numerics.patches.cover import nearest_center
from manifoldry._numerics.patches.layout import PatchLoops

N_ROWS = 200  # each is a thread of the simulator


@pytest.fixture(scope="module")
def model():
    """IPA of a curved sheet in several patches."""
    return IPA(n_patches=9, n_jobs=1).fit(datasets.s_curve(600, random_state=0).X)


@pytest.fixture(scope="module")
def rows():
    return datasets.s_curve(N_ROWS, random_state=1).X


@pytest.fixture
def small_chunks(monkeypatch):
    """Several chunks of rows, and several blocks in most cells."""
    monkeypatch.setattr(patches, "PATCH_CHUNK_BYTES", 30_000)
    monkeypatch.setattr(patches, "BLOCK_ROWS", 3)


def on_device(model, run):
    return DevicePatches(PatchLoops.of(model.patches_.cover, model.patches_.charts), model.mean_, run)


def on_cpu(model, rows):
    """Loops of the CPU, centered rows, and their cells."""
    centered = rows - model.mean_
    loops = PatchLoops.of(model.patches_.cover, model.patches_.charts)
    return loops, centered, nearest_center(centered, loops.centers, Run(0, 1))


@pytest.mark.usefixtures("small_chunks")
def test_overlaps_have_the_same_points_and_moments(model, rows, run):
    loops, centered, cells = on_cpu(model, rows)
    expected, overlaps = loops.overlaps(centered, cells), on_device(model, run).overlaps(rows)
    assert len(list(patches._chunks(rows, model.mean_, 500, run.gpu))) > 2
    for name in ("first", "second", "counts"):
        np.testing.assert_array_equal(getattr(overlaps, name), getattr(expected, name))
    # Sums of at most 200 products in another order: their rounding is at most 200 eps of the sum of magnitudes.
    for name in ("means", "moments"):
        scale = np.abs(getattr(expected, name)).max()
        np.testing.assert_allclose(getattr(overlaps, name), getattr(expected, name), rtol=0, atol=1e-13 * scale)


def test_sums_of_integers_are_exact_in_any_chunks_and_blocks(run, model, monkeypatch):
    # Terms of integers have no rounding, so any arrangement must give the same sums.
    charted = np.random.default_rng(0).integers(-4, 5, size=(N_ROWS, 3, 2)).astype(float)
    charted[np.random.default_rng(1).random((N_ROWS, 3)) < 0.3] = np.nan
    cells = np.random.default_rng(2).integers(4, size=N_ROWS).astype(np.int32)
    terms = patches.moment_terms(3, 2)
    values = np.concatenate([charted[:, terms[:, 0]], charted[:, terms[:, 1]]], axis=2)
    both = ~np.isnan(values).any(axis=2)
    factors = [np.where(terms[:, k] < 0, 1.0, values[:, np.arange(len(terms)), terms[:, k]]) for k in (2, 3)]
    products = np.where(both, factors[0] * factors[1], 0.0)
    expected = np.stack([products[cells == cell].sum(axis=0) for cell in range(4)])
    for block_rows, n_threads in ((7, 32), (64, 16)):
        monkeypatch.setattr(patches, "BLOCK_ROWS", block_rows)
        order, starts, firsts = patches._blocks(run.gpu.array(cells), 4, run.gpu)
        parts, totals = run.gpu.xp.empty((len(starts) - 1, len(terms))), run.gpu.xp.zeros((4, len(terms)))
        arrays = run.gpu.array(charted), order, starts, run.gpu.array(terms)
        sum_moments(len(parts), n_threads, *arrays, parts)
        add_parts.over(totals.size, parts, firsts, totals)
        np.testing.assert_array_equal(run.gpu.host(totals), expected)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_images_are_those_of_the_cpu_and_have_the_type_of_the_rows(model, rows, run, dtype):
    rows = rows.astype(dtype)
    loops, centered, cells = on_cpu(model, rows.astype(float))
    stitched = model._extension.place.stitched
    expected, spread = loops.blend(centered, cells, stitched)
    Y, disagreement = on_device(model, run).blend(rows, stitched)
    assert Y.dtype == disagreement.dtype == dtype
    # A dozen operations on numbers of the size of the layout; disagreement is a root of such an error.
    scale, eps = np.abs(expected).max(), np.finfo(dtype).eps
    np.testing.assert_allclose(Y, expected, rtol=0, atol=100 * eps * scale)
    np.testing.assert_allclose(np.square(disagreement), np.square(spread), rtol=0, atol=100 * eps * scale**2)
    again, _ = on_device(model, run).blend(rows, stitched)
    np.testing.assert_array_equal(again, Y)


@pytest.mark.parametrize("chart", ["curved", "flat"])
def test_inverse_points_are_those_of_the_cpu(chart, run, monkeypatch):
    monkeypatch.setattr(patches, "PATCH_CHUNK_BYTES", 6000)
    model = IPA(n_patches=9, chart=chart, n_jobs=1).fit(datasets.s_curve(600, random_state=0).X)
    Y = model.embedding_[:60]
    expected = model.inverse_transform(Y)
    lead = model._inverse.lead
    loops = PatchLoops.of(lead.cover, lead.charts)
    points = invert_points(Y, loops, lead.charts, lead.stitched, lead.back, model.mean_, run)
    # Newton's method ends within some roundings of the coordinates.
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_a_fit_on_the_gpu_is_that_of_the_cpu(monkeypatch):
    from manifoldry.methods.unfolding import _ipa

    monkeypatch.setattr(_ipa, "MAX_SAMPLE", 150)
    X = datasets.s_curve(240, random_state=0).X
    settings = {"n_patches": 3, "n_jobs": 1}
    cpu = IPA(**settings).fit(X)
    gpu, again = (IPA(**settings, device="cuda").fit(X) for _ in range(2))
    assert len(gpu.sample_) == 150
    assert gpu.diagnostics_["device"].startswith(("simulator", "cuda"))
    np.testing.assert_array_equal(again.embedding_, gpu.embedding_)
    np.testing.assert_array_equal(again.disagreement_, gpu.disagreement_)
    # The alignment stops at a relative gradient of the square root of the gap it is asked for.
    np.testing.assert_allclose(gpu.embedding_, cpu.embedding_, rtol=0, atol=1e-6 * np.abs(cpu.embedding_).max())
    np.testing.assert_allclose(gpu.transform(X[:50]), gpu.embedding_[:50], rtol=0, atol=1e-12)
    back = cpu.inverse_transform(gpu.embedding_[:40])  # of the other alignment
    np.testing.assert_allclose(gpu.inverse_transform(gpu.embedding_[:40]), back, rtol=0, atol=1e-6 * np.abs(X).max())


def test_overlaps_of_one_patch_are_none(model):
    loops = PatchLoops.of(model.patches_.cover, model.patches_.charts)
    terms = patches.moment_terms(loops.pairs.shape[1], loops.width)
    assert len(overlaps_of(loops, np.zeros((len(loops.centers), len(terms))))) == 0
