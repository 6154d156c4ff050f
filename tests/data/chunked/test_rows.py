"""Chunked data: the same rows, sums and samples from every kind of source."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

import manifoldry
from manifoldry._core.chunks import TreeReduction, merge_levels, rows_per_chunk
from manifoldry._core.run import Run
from manifoldry.data._chunked import as_chunked, chunked_data
from manifoldry.data._chunked.sampling import KeyedRows, drawn_rows

da = pytest.importorskip("dask.array")


@pytest.fixture(name="X")
def rows():
    return np.random.default_rng(0).standard_normal((1000, 20_000)).astype(np.float32)


def sources(X):
    """The same rows in five forms."""
    cuts = np.sort(np.random.default_rng(1).choice(len(X), 9, replace=False))
    return {
        "array": chunked_data(X),
        "function": chunked_data(lambda: iter(np.split(X, cuts))),
        "list": chunked_data(np.split(X, cuts[:3])),
        "iterator": chunked_data(iter(np.array_split(X, 4))),
        "dask": chunked_data(da.from_array(X, chunks=(333, 7000))),
    }


def column_sums(rows, start, run):
    return rows.sum(axis=0, dtype=np.float32), start, len(rows)


def joined(a, b):
    assert a[1] + a[2] == b[1]  # neighbors, in order
    return a[0] + b[0], a[1], a[2] + b[2]


def test_sums_are_the_same_bits_in_every_form(X):
    assert rows_per_chunk(X.shape[1]) == 256  # four blocks
    totals = {name: blocks.reduce(column_sums, joined, Run(0)) for name, blocks in sources(X).items()}
    for total, start, count in totals.values():
        assert (start, count) == (0, 1000)
        np.testing.assert_array_equal(total, totals["array"][0])
    np.testing.assert_allclose(totals["array"][0], X.sum(axis=0, dtype=float), atol=1e-3)


def test_samples_are_the_same_rows_in_every_form(X):
    samples = {name: blocks.sample(50, np.random.default_rng(3)) for name, blocks in sources(X).items()}
    for sample in samples.values():
        np.testing.assert_array_equal(sample.numbers, samples["array"].numbers)
        np.testing.assert_array_equal(sample.rows, X[sample.numbers])
        assert (sample.n_rows, sample.whole) == (1000, False)


def test_drawing_a_sample_holds_little_more_than_twice_its_rows():
    drawn, rng = KeyedRows(10_000), np.random.default_rng(0)
    tracemalloc.start()
    for block in range(100):
        drawn.add(rng.random(1000), np.full((1000, 100), block, dtype=np.float32))
    rows = drawn.rows
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(rows[:, 0], drawn.numbers // 1000)
    # Twice the rows before the smallest keys are kept, two blocks, and keys and numbers: 16 bytes to a row's 400.
    assert peak < 3 * rows.nbytes


def test_a_sample_of_more_rows_than_there_are_is_all_of_them(X):
    for blocks in sources(X).values():
        sample = blocks.sample(2000, np.random.default_rng(3))
        assert sample.whole
        np.testing.assert_array_equal(sample.rows, X)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 12, 31, 32, 33])
def test_both_orders_of_merging_are_the_same(n):
    pairwise = TreeReduction(lambda a, b: (a, b))
    for i in range(n):
        pairwise.add(i)
    assert pairwise.total() == merge_levels(list(range(n)), lambda a, b: (a, b))
    assert len(pairwise.stack) <= np.log2(n) + 1


def test_every_row_is_drawn_equally_often():
    counts = np.zeros(40)
    for seed in range(2000):
        counts[drawn_rows(40, 10, np.random.default_rng(seed))] += 1
    # Binomial with 2,000 draws of 1/4: standard deviation 19.4, and 5 of them for the largest of 40.
    assert np.abs(counts - 500).max() < 5 * 19.4


@pytest.mark.parametrize("n_jobs", [1, 4])
@pytest.mark.parametrize(("n", "size"), [(0, 5), (40, 50), (1000, 1), (1000, 300)])
def test_drawn_rows_have_the_smallest_numbers_of_the_stream(n, size, n_jobs, monkeypatch):
    monkeypatch.setattr("manifoldry.data._chunked.sampling.KEYS_AT_ONCE", 64)
    rng, keys = np.random.default_rng(n), np.random.default_rng(n).random(n + 1)
    np.testing.assert_array_equal(drawn_rows(n, size, rng, Run(0, n_jobs)), np.sort(np.argsort(keys[:n])[:size]))
    assert rng.random() == keys[n]  # the stream goes on behind them


def test_sparse_rows_stay_sparse(X):
    sparse = csr_array(np.where(X > 2, X, 0))
    blocks = chunked_data(sparse)
    parts = list(blocks)
    assert all(hasattr(part, "tocsr") for part in parts)
    assert abs(blocks.sample(5, np.random.default_rng(0)).rows).sum() > 0
    assert sum(part.sum() for part in parts) == pytest.approx(sparse.sum(), rel=1e-4)


@pytest.mark.parametrize("method", [manifoldry.PCA, manifoldry.IncrementalPCA, manifoldry.IPA])
def test_an_iterator_that_would_be_read_twice_is_refused_as_soon_as_that_is_known(method, monkeypatch):
    monkeypatch.setattr("manifoldry._core.chunks.MAX_CHUNK_ROWS", 256)
    taken = []
    rng = np.random.default_rng(0)
    blocks = (taken.append(i) or rng.standard_normal((5000, 3)) for i in range(1000))
    with pytest.raises(ValueError, match="More than 20,000 rows are read twice by this fit"):
        method().fit(blocks)
    assert len(taken) <= 6


def test_an_iterator_of_any_length_is_enough_where_nothing_is_added_up():
    rng = np.random.default_rng(0)
    model = manifoldry.GaussianRandomProjection(n_components=2)
    model.fit(rng.standard_normal((5000, 3)) for _ in range(5))
    assert model.diagnostics_["fitted_to"].startswith("all 25,000 rows")


def test_an_iterator_is_read_once():
    blocks = as_chunked(iter([np.ones((3, 2))]))
    assert sum(len(part) for part in blocks) == 3
    with pytest.raises(ValueError, match="read only once"):
        list(blocks)


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([np.ones((3, 2)), np.ones((3, 4))], "same columns; there are 4 from row 3 on, 2 before"),
        ([np.ones((3, 2)), np.array([[1, np.nan]])], "Row 3 has NaN or infinity"),
        ([np.ones(3)], "one row per point; got shape"),
        ([np.array([["a", "b"]])], "entries of type"),
        ([], "no chunks"),
    ],
)
def test_bad_chunks_are_errors(blocks, words):
    with pytest.raises(ValueError, match=words):
        list(chunked_data(blocks))


def test_other_sources_are_refused(tmp_path):
    with pytest.raises(ValueError, match="got a int"):
        chunked_data(3)
    assert as_chunked(np.ones((3, 2))) is None


def test_a_file_is_mapped(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    blocks = chunked_data(tmp_path / "x.npy")
    assert isinstance(blocks.X, np.memmap)
    np.testing.assert_array_equal(np.concatenate(list(blocks)), X)


def test_a_transform_gives_the_same_bits_in_every_form():
    X = manifoldry.datasets.swiss_roll(3000).X
    model = manifoldry.PCA(n_components=2).fit(X)
    placed = [np.concatenate(list(model.transform(chunked_data(source)))) for source in (X, [X[:7], X[7:]])]
    placed.append(model.transform(da.from_array(X, chunks=(999, 2))).compute())
    for other in placed[1:]:
        np.testing.assert_array_equal(other, placed[0])


def test_the_map_goes_without_the_rows_of_the_fit():
    import pickle

    X = manifoldry.datasets.swiss_roll(3000).X
    model = manifoldry.IPA(n_components=2).fit(X)
    assert len(pickle.dumps(model._strip_for_transform("transform"))) < 0.2 * len(pickle.dumps(model))


def test_blocks_do_not_become_an_array_silently(X):
    with pytest.raises(ValueError, match="not gathered silently: read it block by block"):
        np.asarray(chunked_data(X))


def blocks_of_integers(X, folder):
    """Yield rows of integers and a wide column of floating-point numbers in all forms of chunked data."""
    pa, pd, dd = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "dask.dataframe"))
    from pyarrow import csv, feather, parquet

    np.save(folder / "x.npy", X)
    yield from (X, iter([X[:20], X[20:]]), da.from_array(X, chunks=(25, 2)), str(folder / "x.npy"))
    columns = {"id": X[:, 0], "x": 1e12 * np.arange(len(X))}
    table, frame = pa.table(columns), pd.DataFrame(columns)
    parquet.write_table(table, folder / "x.parquet", row_group_size=25)
    feather.write_feather(table, folder / "x.feather")
    csv.write_csv(table, folder / "x.csv")
    yield from (str(folder / f"x.{kind}") for kind in ("parquet", "feather", "csv"))
    yield from ([frame[:20], frame[20:]], dd.from_pandas(frame, npartitions=2))
    yield dd.from_pandas(frame.astype({"id": "Int64"}), npartitions=2)


@pytest.mark.parametrize("base", [2**55, -(2**60), 2**62])
def test_integers_that_become_one_number_are_refused_in_every_form(base, tmp_path):
    close, far = (base + step * np.stack([np.arange(60)] * 2, axis=1) % (2 * step) for step in (1, 2**40))
    for rows in blocks_of_integers(close, tmp_path):
        with pytest.raises(ValueError, match=r"column (0|'0'|'id') of X differ by at most 1 .* become one number"):
            manifoldry.PCA(1).fit(chunked_data(rows))
    for rows in blocks_of_integers(far, tmp_path):
        assert manifoldry.PCA(1).fit(chunked_data(rows)).embedding_ is not None
