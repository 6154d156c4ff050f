"""Fits and maps on a real cluster of two processes: the same bits for any chunks, workers, scheduler, and if one dies.

One cluster serves all tests of the module. If they take too long it is closed, so that nothing waits for ever.
"""

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import manifoldry
from helpers import DEADLINE
from manifoldry._core import chunks as chunk_rows
from manifoldry.data._chunked import chunked_data
from manifoldry.methods.unfolding import _ipa as ipa
from mortal import die_once

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

X = manifoldry.datasets.swiss_roll(2500, noise=0.01).X
SAMPLE, BLOCK = 400, 256
CHUNKINGS = [(700, 3), (BLOCK, 2), ((1, 1000, 499, 0, 1000), 3)]
METHODS = {
    "UMAP": lambda: manifoldry.UMAP(n_epochs=20),
    "TSNE": lambda: manifoldry.TSNE(max_iter=60, perplexity=10, init="pca"),
    "Isomap": manifoldry.Isomap,
    "IPA": lambda: manifoldry.IPA(n_init=1),
    "PCA": lambda: manifoldry.PCA(n_components=2),
    "MPPCA": lambda: manifoldry.MPPCA(n_clusters=4, n_init=1),
}


@pytest.fixture(scope="module", autouse=True)
def small():
    """Make some thousand rows more than a sample, in ten blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_rows, "MAX_CHUNK_ROWS", BLOCK)
        patch.setattr(ipa, "MAX_SAMPLE", SAMPLE)
        yield


@contextmanager
def two_processes(seconds, connect="20s"):
    """A cluster of two processes, closed after so many seconds at the latest, which ends whatever waits for it."""
    settings = {"distributed.comm.timeouts.connect": connect, "distributed.worker.daemon": True}
    with dask.config.set(settings):
        made = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            worker_dashboard_address=None,
            memory_limit=0,
            silence_logs=50,
        )
        alarm = threading.Timer(seconds, made.close)
        alarm.daemon = True
        alarm.start()
        try:
            yield made
        finally:
            alarm.cancel()
            made.close(timeout=DEADLINE)


@contextmanager
def connected(cluster):
    with distributed.Client(cluster, timeout=DEADLINE) as client:
        client.wait_for_workers(2, timeout=DEADLINE)
        yield client


@pytest.fixture(scope="module")
def cluster():
    with two_processes(12 * DEADLINE) as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster):
    with connected(cluster) as made:
        yield made


def fitted(name, rows):
    model = METHODS[name]()
    model._chunk_support = replace(model._chunk_support, n_rows=SAMPLE)
    return model.fit(rows)


def answers(name, rows):
    """Return what a fit leaves of its sample, and where it puts all rows."""
    model = fitted(name, rows)
    if name == "MPPCA":
        return [model.labels_, model.predict(rows), model.predict_proba(rows), model.score_samples(rows)]
    return [model.embedding_, model.transform(rows)]


def in_memory(parts):
    return [
        np.asarray(part if isinstance(part, (np.ndarray, da.Array)) else np.concatenate(list(part))) for part in parts
    ]


@pytest.fixture(scope="module")
def streamed():
    """Return the answers for a stream of pieces, each method's computed once."""
    known = {}

    def answer(name):
        if name not in known:
            known[name] = in_memory(answers(name, chunked_data(np.array_split(X, 7))))
        return known[name]

    return answer


def assert_same_bits(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", METHODS)
def test_a_cluster_gives_the_bits_of_a_stream(client, streamed, name):
    wanted = streamed(name)
    assert len(wanted[0]) == SAMPLE
    assert len(wanted[-1]) == len(X)
    for chunks in CHUNKINGS if name in ("UMAP", "IPA", "PCA") else CHUNKINGS[1:2]:
        rows = da.from_array(X, chunks=chunks)
        found = answers(name, rows)
        assert all(isinstance(part, da.Array) and part.chunks[0] == rows.chunks[0] for part in found[1:])
        assert_same_bits(in_memory(found), wanted)
    with dask.config.set(scheduler="threads", num_workers=2):
        assert_same_bits(in_memory(answers(name, da.from_array(X, chunks=CHUNKINGS[0]))), wanted)


def places_of_killed_workers(client, folder):
    """Return what IPA leaves of a fit and a transform in each of which a worker is killed."""

    def deadly(flag):
        """Rows of which one block, the seventh, kills the worker that makes it first."""
        rows = da.from_array(X, chunks=(BLOCK, 3))
        fatal = rows[6 * BLOCK : 7 * BLOCK].map_blocks(die_once, str(folder / flag), dtype=float, meta=np.empty((0, 0)))
        return da.concatenate([rows[: 6 * BLOCK], fatal, rows[7 * BLOCK :]])

    before = set(client.run(os.getpid).values())
    model = fitted("IPA", deadly("fit"))
    assert (folder / "fit").exists()
    placed = model.transform(deadly("transform"))
    assert not (folder / "transform").exists()  # nothing was computed
    places = client.compute(placed).result(timeout=2 * DEADLINE)
    assert (folder / "transform").exists()
    client.wait_for_workers(2, timeout=DEADLINE)
    assert set(client.run(os.getpid).values()) != before
    return [model.embedding_, places]


def test_a_worker_killed_in_mid_run_changes_no_bit(streamed, tmp_path):
    # A cluster of its own. The other worker asks the dead one for rows until a connection times out, so that is short.
    with two_processes(4 * DEADLINE, connect="3s") as mortal, connected(mortal) as client:
        found = places_of_killed_workers(client, tmp_path)
    assert_same_bits(found, streamed("IPA"))


def test_frames_go_to_the_cluster_and_stay_frames(client, streamed):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    index = pd.Index(np.arange(len(X)), name="id")
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"], index=index), npartitions=3)
    placed = fitted("PCA", frame).transform(frame)
    assert placed.divisions == frame.divisions
    table = placed.compute()
    assert list(table.columns) == ["pca0", "pca1"]
    pd.testing.assert_index_equal(table.index, index)
    # Parts of a frame have unknown lengths, so they are placed as they are and not as blocks: equal up to rounding.
    wanted = streamed("PCA")[1]
    np.testing.assert_allclose(table.to_numpy(), wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def test_dask_ml_maps_our_estimators_and_ours_take_its_arrays(client):
    wrappers = pytest.importorskip("dask_ml.wrappers")
    scaling = pytest.importorskip("dask_ml.preprocessing")
    from sklearn.pipeline import make_pipeline

    rows = da.from_array(X, chunks=CHUNKINGS[0])
    in_parts = wrappers.ParallelPostFit(estimator=manifoldry.Isomap()).fit(X[:SAMPLE])
    placed = in_parts.transform(rows)
    assert isinstance(placed, da.Array)
    alone = manifoldry.Isomap().fit(X[:SAMPLE]).transform(X)
    np.testing.assert_allclose(placed.compute(), alone, rtol=0, atol=1e-12 * np.abs(alone).max())
    labels = wrappers.ParallelPostFit(estimator=manifoldry.KMeans(n_clusters=3)).fit(X[:SAMPLE]).predict(rows)
    np.testing.assert_array_equal(labels.compute(), manifoldry.KMeans(n_clusters=3).fit(X[:SAMPLE]).predict(X))
    on_all = wrappers.ParallelPostFit(estimator=manifoldry.PCA(n_components=2)).fit(rows)
    np.testing.assert_allclose(
        on_all.transform(rows).compute(), manifoldry.PCA(n_components=2).fit(rows).transform(rows).compute(), atol=1e-12
    )
    pipeline = make_pipeline(scaling.StandardScaler(), manifoldry.PCA(n_components=2))
    scores = pipeline.fit_transform(rows)
    assert isinstance(scores, da.Array)
    # Of unit variances in three columns two components hold at least 2/3 of 3.
    assert 2 - 1e-9 < float(scores.var(axis=0).sum().compute()) < 3


def test_neighbor_lists_of_a_cluster_are_those_of_a_stream(client):
    wide = np.random.default_rng(0).standard_normal((1500, 20))
    for table, search in ((X, "exact"), (wide, "exact"), (wide, "approximate")):
        wanted = manifoldry.neighbor_lists(chunked_data(table), 10, search=search)
        found = manifoldry.neighbor_lists(da.from_array(table, chunks=(999, -1)), 10, search=search)
        assert_same_bits(dask.compute(*found), wanted)


def test_one_worker_gives_the_bits_of_two(client, cluster, streamed):
    """Is the last one: the other worker is gone for good."""
    cluster.scale(1)
    end = time.monotonic() + DEADLINE
    while len(client.scheduler_info(n_workers=-1)["workers"]) != 1:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert_same_bits(in_memory(answers("IPA", da.from_array(X, chunks=CHUNKINGS[1]))), streamed("IPA"))
