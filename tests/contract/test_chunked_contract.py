"""What every method and clustering makes of chunked data, enumerated from the cards.

Blocks have 16 rows here and samples 60, so that 90 rows are several blocks and more than a sample.
"""

import inspect
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import hypergeom

import manifoldry
from helpers import AUTO, among, bent_sheet, in_new_process, make
from manifoldry.data._chunked import ChunkedData, chunked_data
from manifoldry.methods._base._chunks import seen_size

da = pytest.importorskip("dask.array")

N_ROWS, N_SAMPLED, BLOCK_ROWS = 90, 60, 16
CARDS = (*manifoldry.list_methods(), AUTO, *manifoldry.list_clusterings())
FITTED = [card for card in CARDS if card.cls._chunk_support.kind != "no"]
SAMPLED = [card for card in CARDS if card.cls._chunk_support.kind == "sample"]
REFUSED = [card for card in CARDS if card.cls._chunk_support.kind == "no"]
MODELS = {}
NAMES = {card.name for card in CARDS}
X = np.abs(bent_sheet(N_ROWS)) + 0.1  # of both signs some methods take none


@pytest.fixture(autouse=True, scope="module")
def _small():
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr("manifoldry._core.chunks.MIN_CHUNK_ROWS", BLOCK_ROWS)
        patch.setattr("manifoldry._core.chunks.MAX_CHUNK_ROWS", BLOCK_ROWS)
        for card in FITTED:
            patch.setattr(card.cls, "_chunk_support", replace(card.cls._chunk_support, n_rows=N_SAMPLED))
        yield


def stream():
    return chunked_data(lambda: iter(np.split(X, [7, 40])), n_rows=N_ROWS)


def collection():
    return da.from_array(X, chunks=(33, 3))


def fitted(card):
    """The method fitted to chunked data, once for all tests: none changes it."""
    if card.name not in MODELS:
        MODELS[card.name] = make(card).fit(stream())
    return MODELS[card.name]


def method_of(card):
    return "transform" if hasattr(card.cls, "transform") else "predict"


def gathered(blocks):
    return np.concatenate(list(blocks))


@among(SAMPLED)
def test_a_fit_to_blocks_is_the_fit_to_their_sample(card):
    model = fitted(card)
    assert len(model.sampled_rows_) == N_SAMPLED
    assert (np.diff(model.sampled_rows_) > 0).all()
    alone = make(card).fit(X[model.sampled_rows_])
    for name in ("embedding_", "labels_"):
        if hasattr(alone, name):
            np.testing.assert_array_equal(getattr(model, name), getattr(alone, name))
    assert model.diagnostics_["fitted_to"].startswith(f"a sample of {N_SAMPLED} of {N_ROWS} rows")
    assert "fitted_to" not in alone.diagnostics_


@among(FITTED)
def test_every_form_of_blocks_gives_the_same_bits(card):
    model, method = fitted(card), method_of(card)
    lazy = getattr(model, method)(stream())
    assert isinstance(lazy, ChunkedData)
    placed = gathered(lazy)
    tasks = getattr(model, method)(collection())
    assert isinstance(tasks, da.Array)
    np.testing.assert_array_equal(tasks.compute(scheduler="synchronous"), placed)
    whole = getattr(model, method)(X)
    assert placed.dtype == whole.dtype
    if method == "predict":
        np.testing.assert_array_equal(placed, whole)
    else:  # the same map of other batches: BLAS may add up in another order
        np.testing.assert_allclose(placed, whole, rtol=0, atol=1e-9 * np.abs(whole).max())


@among([card for card in FITTED if card.name in ("IPA", "LPP", "NMF", "PCA", "UMAP")])
def test_fit_transform_places_all_rows(card):
    placed = gathered(make(card).fit_transform(stream()))
    np.testing.assert_array_equal(placed, gathered(fitted(card).transform(stream())))


def test_maps_go_to_other_processes(tmp_path):
    maps = {card.name: (method_of(card), fitted(card)._strip_for_transform(method_of(card))) for card in FITTED}
    expected = {name: getattr(alone, method)(X) for name, (method, alone) in maps.items()}
    (tmp_path / "maps").write_bytes(pickle.dumps((maps, X)))
    script = f"""
import pickle, warnings
warnings.simplefilter("ignore")
maps, X = pickle.load(open({str(tmp_path / "maps")!r}, "rb"))
placed = {{name: getattr(alone, method)(X) for name, (method, alone) in maps.items()}}
pickle.dump(placed, open({str(tmp_path / "placed")!r}, "wb"))
"""
    in_new_process(script)
    placed = pickle.loads((tmp_path / "placed").read_bytes())
    for name, there in placed.items():
        np.testing.assert_array_equal(there, expected[name], err_msg=name)


@among(FITTED)
def test_a_map_holds_nothing_of_single_rows_that_it_does_not_need(card):
    model = fitted(card)
    alone = model._strip_for_transform(method_of(card))
    rows = {"graph_", "affinity_matrix_", "spectrum_", "diagnostics_", "sampled_rows_", "trace_"}
    assert not rows & set(vars(alone))
    for name in ("embedding_", "labels_"):
        assert len(getattr(alone, name, ())) == 0
    if card.family == "linear" and not card.name.startswith("Kernel"):  # a matrix and a mean, of whatever sample
        larger = make(card).fit(X)._strip_for_transform("transform")
        assert abs(len(pickle.dumps(alone)) - len(pickle.dumps(larger))) < 8 * (N_ROWS - N_SAMPLED)


@among(REFUSED)
def test_what_cannot_be_fitted_names_what_can(card):
    with pytest.raises(ValueError, match="cannot be fitted to chunked data") as refused:
        make(card).fit(stream())
    instead = card.cls._chunk_support.instead
    assert instead in str(refused.value)
    named = {name for name in NAMES if name in instead.replace(",", " ").replace(":", " ").split()}
    assert named & {each.name for each in FITTED}
    sample = stream().sample(30, np.random.default_rng(0))  # what the sentence advises
    model = make(card).fit(sample.rows)
    assert gathered(getattr(model, method_of(card))(stream())).shape[0] == N_ROWS


@among([card for card in CARDS if "metric" in inspect.signature(card.cls).parameters])
def test_pairs_are_refused(card):
    words = "precomputed" if card in manifoldry.list_clusterings() else "all pairs in memory|cannot be fitted"
    with pytest.raises(ValueError, match=words):
        make(card, metric="precomputed").fit(stream())


@pytest.mark.parametrize("cls", [manifoldry.KernelPCA, manifoldry.KernelLPP])
def test_kernels_of_all_pairs_are_refused(cls):
    with pytest.raises(ValueError, match="all pairs in memory"):
        cls(kernel="precomputed").fit(stream())


@among([card for card in FITTED if card is not AUTO])  # saved as the method that it chose
def test_a_model_fitted_to_blocks_is_saved(card, tmp_path):
    model = fitted(card)
    model.save(tmp_path / "model.mfy")
    loaded = manifoldry.load(tmp_path / "model.mfy")
    np.testing.assert_array_equal(loaded.sampled_rows_, model.sampled_rows_)
    assert loaded.diagnostics_["fitted_to"] == model.diagnostics_["fitted_to"]
    placed, known = (gathered(getattr(each, method_of(card))(stream())) for each in (loaded, model))
    np.testing.assert_array_equal(placed, known)


@among(FITTED)
def test_a_fit_in_memory_leaves_no_trace_of_blocks(card):
    model = pickle.loads(pickle.dumps(fitted(card)))
    model.fit(X[:40])
    assert not hasattr(model, "sampled_rows_")
    assert "fitted_to" not in model.diagnostics_


@among([card for card in FITTED if hasattr(card.cls, "set_output")])
def test_frames_are_not_gathered(card):
    model = pickle.loads(pickle.dumps(fitted(card))).set_output(transform="pandas")
    with pytest.raises(ValueError, match="would gather all rows"):
        model.transform(stream())


def test_a_sample_of_wide_rows_is_bounded(monkeypatch):
    monkeypatch.setattr("manifoldry.methods._base._chunks.MAX_SAMPLE_ENTRIES", 40 * X.shape[1] + 1)
    model = manifoldry.LPP(n_components=2, n_neighbors=5).fit(stream())
    assert len(model.sampled_rows_) == 40
    assert "# Fitted to a sample of 40 of 90 rows; transform embeds the others." in repr(model)


@pytest.mark.parametrize(("n_sampled", "n_rows"), [(60, 90), (100, 5000), (100_000, 10_000_000)])
def test_groups_that_are_said_to_be_seen_are_seen(n_sampled, n_rows):
    size = seen_size(n_sampled, n_rows)
    missed = hypergeom(n_rows, np.array([size, size // 2]), n_sampled).pmf(0)  # no row of the group is drawn
    assert missed[0] <= 0.01 < missed[1]
