"""NumPy arrays and archives, and sparse matrices."""

import gzip
import io
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy import io as scipy_io
from scipy import sparse

from manifoldry._core import memory
from manifoldry.data._tables import errors as refusals
from manifoldry.data._tables import read_table

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 3))


def refused(path, match, **settings):
    with pytest.raises(ValueError, match=match):
        read_table(path, **settings)


def saved(tmp_path, **arrays):
    np.savez_compressed(tmp_path / "data.npz", **arrays)
    return tmp_path / "data.npz"


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i4", "u1", "?", ">f8"])
def test_arrays_are_read_exactly(tmp_path, dtype):
    array = (100 * X).astype(dtype)
    np.save(tmp_path / "data.npy", array)
    table = read_table(tmp_path / "data.npy")
    np.testing.assert_array_equal(table.X, array.astype(np.float64))
    assert table.X.dtype == (np.float32 if dtype in ("f4", "f2") else np.float64)
    assert (table.features, table.id_name, table.ids.tolist()) == (("x0", "x1", "x2"), "row", [*range(6)])


def test_columns_of_an_array_have_positions(tmp_path):
    np.save(tmp_path / "data.npy", X)
    table = read_table(tmp_path / "data.npy", label="2", drop=["0"])
    assert (table.features, table.label) == (("x1",), "x2")
    np.testing.assert_array_equal(table.columns["x2"], X[:, 2])
    assert read_table(tmp_path / "data.npy", features=["2", "0"]).X.tolist() == X[:, [2, 0]].tolist()
    refused(tmp_path / "data.npy", "no names: use a number from 0 to 2", label="y")
    refused(tmp_path / "data.npy", "No feature is left", drop=["0", "1", "2"])


def test_an_array_of_one_dimension_is_a_column(tmp_path):
    np.save(tmp_path / "data.npy", X[:, 0])
    assert read_table(tmp_path / "data.npy").X.shape == (6, 1)


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3)])
def test_stacks_of_images_have_small_pictures(tmp_path, shape):
    images = RNG.integers(0, 256, size=(7, *shape), dtype=np.uint8)
    np.save(tmp_path / "data.npy", images)
    table = read_table(tmp_path / "data.npy")
    np.testing.assert_array_equal(table.X, images.reshape(7, -1))
    np.testing.assert_array_equal(table.thumbnails, images)
    np.save(tmp_path / "unit.npy", images / 255)
    np.testing.assert_array_equal(read_table(tmp_path / "unit.npy").thumbnails, images if images.max() == 255 else None)


def test_large_images_have_thumbnails_of_at_most_64_pixels(tmp_path):
    np.save(tmp_path / "data.npy", np.zeros((2, 150, 70), np.uint8))
    assert read_table(tmp_path / "data.npy").thumbnails.shape == (2, 50, 24)


def test_records_are_columns(tmp_path):
    records = np.array(
        [(1.5, b"a", 2), (2.5, b"b", 3), (3.5, b"a", 4)], dtype=[("u", "f8"), ("kind", "S1"), ("v", "i4")]
    )
    np.save(tmp_path / "data.npy", records)
    table = read_table(tmp_path / "data.npy")
    assert table.X.tolist() == [[1.5, 2], [2.5, 3], [3.5, 4]]
    assert table.columns["kind"].tolist() == ["a", "b", "a"]


def test_arrays_that_are_no_points(tmp_path):
    path = tmp_path / "data.npy"
    for array, match in [
        (X.astype(complex), "entries of type complex128"),
        (np.array(["a", "b"]), "entries of type <U1"),
        (np.array(1.0), r"array of shape \(\)"),
        (np.zeros((0, 3)), r"array of shape \(0, 3\)"),
        (np.array([[1.0, np.nan]]), r"1 row of 1 has missing values, in column x1 \(1\)"),
    ]:
        np.save(path, array)
        refused(path, match)


def test_pickled_objects_are_never_opened(tmp_path):
    np.save(tmp_path / "data.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    refused(tmp_path / "data.npy", "Python objects, which may run any program and are never opened")
    np.savez(tmp_path / "data.npz", X=np.array([{}], dtype=object))
    refused(tmp_path / "data.npz", "X.npy of data.npz holds Python objects, which may run any program")
    (tmp_path / "data.pkl").write_bytes(b"\x80\x04.")
    refused(tmp_path / "data.pkl", "a pickle, which is never opened")


def test_an_archive_has_labels_names_and_columns(tmp_path):
    labels = np.array([0, 1, 1, 0, 2, 2])
    path = saved(
        tmp_path, X=X, y=labels, names=np.array(["u", "v", "w"]), features=np.array(["p", "q", "r"]), weight=X[:, 0],
        pose=X[:, :2], ids=np.array([b"a", b"b", b"c", b"d", b"e", b"f"]), other=np.zeros(9),
    )  # fmt: skip
    table = read_table(path)
    np.testing.assert_array_equal(table.X, X)
    assert (table.features, table.label, table.id_name) == (("p", "q", "r"), "y", "ids")
    assert table.labels.tolist() == ["u", "v", "v", "u", "w", "w"]
    assert table.ids.tolist() == [*"abcdef"]
    assert sorted(table.columns) == ["pose_0", "pose_1", "weight", "y"]
    np.testing.assert_array_equal(table.columns["weight"], X[:, 0])
    assert read_table(path, label="q", drop=["weight"]).label == "q"


def test_the_matrix_of_an_archive_is_the_only_one_or_named(tmp_path):
    assert read_table(saved(tmp_path, train=X, y=np.arange(6))).X.shape == (6, 3)
    path = saved(tmp_path, train=X, test=2 * X)
    refused(path, r"several arrays that could be the features; key=\.\.\. names one of train \(6, 3\), test \(6, 3\)")
    np.testing.assert_array_equal(read_table(path, key="test").X, 2 * X)
    refused(path, r"has no array 'tst'; did you mean 'test'\?", key="tst")
    refused(saved(tmp_path, a=np.zeros(3), b=np.zeros(3)), "no array that could be the features")
    refused(saved(tmp_path), "holds nothing")


def test_sparse_archives_stay_sparse(tmp_path):
    for form in ("csr", "csc", "coo"):
        matrix = sparse.random(9, 5, 0.2, format=form, random_state=1)
        sparse.save_npz(tmp_path / "data.npz", matrix)
        table = read_table(tmp_path / "data.npz")
        assert table.X.format == "csr"
        np.testing.assert_array_equal(table.X.toarray(), matrix.toarray())
    np.testing.assert_array_equal(
        read_table(tmp_path / "data.npz", drop=["1"]).X.toarray(), matrix.toarray()[:, [0, 2, 3, 4]]
    )
    np.testing.assert_array_equal(read_table(tmp_path / "data.npz", color=["1"]).columns["x1"], matrix.toarray()[:, 1])


@pytest.mark.parametrize(("share", "dense"), [(0.3, False), (0.4, True)])
def test_sparse_matrices_that_are_full_become_arrays(tmp_path, share, dense):
    matrix = sparse.random(20, 10, share, format="csr", random_state=4)
    sparse.save_npz(tmp_path / "data.npz", matrix)
    table = read_table(tmp_path / "data.npz")
    assert isinstance(table.X, np.ndarray) is dense
    assert any("40% of it is nonzero" in remark for remark in table.remarks) is dense
    np.testing.assert_array_equal(table.X if dense else table.X.toarray(), matrix.toarray())


def test_sparse_indices_that_lead_out_are_refused(tmp_path):
    path = saved(
        tmp_path, format=np.array(b"csr"), shape=np.array([2, 2]), data=np.ones(2), indices=np.array([0, 7]),
        indptr=np.array([0, 1, 2]),
    )  # fmt: skip
    refused(path, "with the index 7, where indices from 0 to 1 are expected")


def test_missing_values_of_sparse_matrices(tmp_path):
    matrix = sparse.csr_array(np.array([[0.0, 2.0, 0, 0, 0], [np.nan, 0, 0, 0, 0], [1.0, np.nan, 0, 0, 0]]))
    sparse.save_npz(tmp_path / "data.npz", matrix)
    refused(tmp_path / "data.npz", r"2 rows of 3 have missing values, in columns x0 \(1\), x1 \(1\)")
    assert read_table(tmp_path / "data.npz", missing="drop").X.toarray().tolist() == [[0, 2, 0, 0, 0]]
    kept = read_table(tmp_path / "data.npz", missing="impute").X.toarray()
    np.testing.assert_array_equal(kept[:, :2], [[0, 2], [np.nan, 0], [1, np.nan]])


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
def test_matrix_market_files(tmp_path, field, symmetry):
    A = sparse.random(6, 6, 0.1, random_state=2).toarray()
    A = np.round(10 * (A + A.T if symmetry == "symmetric" else A)) if field == "integer" else A + A.T
    A = A.astype(int) if field == "integer" else (A != 0) * 1.0 if field == "pattern" else A
    scipy_io.mmwrite(tmp_path / "data.mtx", sparse.coo_matrix(A), field=field, symmetry=symmetry, precision=17)
    table = read_table(tmp_path / "data.mtx")
    assert table.X.format == "csr"
    np.testing.assert_array_equal(table.X.toarray(), A)
    (tmp_path / "data.mtx.gz").write_bytes(gzip.compress((tmp_path / "data.mtx").read_bytes()))
    np.testing.assert_array_equal(read_table(tmp_path / "data.mtx.gz").X.toarray(), A)


def test_fractions_in_a_matrix_market_file_of_integers_are_kept(tmp_path):
    (tmp_path / "data.mtx").write_bytes(market("2 9 2", "coordinate integer general", "1 1 1.5\n2 2 3\n"))
    assert read_table(tmp_path / "data.mtx").X.toarray()[:, :2].tolist() == [[1.5, 0], [0, 3]]


def test_dense_matrix_market_files(tmp_path):
    scipy_io.mmwrite(tmp_path / "data.mtx", X, precision=17)
    np.testing.assert_array_equal(read_table(tmp_path / "data.mtx").X, X)


def test_counts_of_genes_are_turned_and_named(tmp_path):
    counts = sparse.random(4, 3, 0.25, random_state=3)
    scipy_io.mmwrite(tmp_path / "matrix.mtx", counts, precision=17)
    (tmp_path / "barcodes.tsv").write_text("AAA\nCCC\nGGG\n")
    (tmp_path / "genes.tsv.gz").write_bytes(gzip.compress(b"E1\tCD4\nE2\tCD8\nE3\tCD4\nE4\tB\n"))
    table = read_table(tmp_path / "matrix.mtx")
    np.testing.assert_array_equal(table.X.toarray(), counts.toarray().T)
    assert table.features == ("CD4", "CD8", "CD4.1", "B")
    assert (table.id_name, table.ids.tolist()) == ("barcode", ["AAA", "CCC", "GGG"])


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("matrix coordinate complex general\n1 1 1\n1 1 1 1\n", "a complex general matrix"),
        ("matrix coordinate real hermitian\n1 1 1\n1 1 1\n", "a real hermitian matrix"),
        ("matrix coordinate real general\n% only\n", "Premature EOF"),
        ("matrix coordinate real general\n2 2 2\n1 1 1\n", "Truncated file. Expected another 1 lines"),
        ("matrix coordinate real general\n2 2 1\n3 1 1\n", "Line 3: Row index out of bounds"),
        ("matrix coordinate real general\n2 2 1\n0 1 1\n", "Line 3: Row index out of bounds"),
        ("matrix coordinate real general\n2 2 1\n1 1 x\n", "Line 3: Invalid floating-point value"),
        ("matrix coordinate real general\n0 2 0\n", "of 0 x 2"),
        ("graph coordinate real general\n1 1 1\n", "cannot be read as a Matrix Market file: Line 1"),
    ],
)
def test_broken_matrix_market_files(tmp_path, text, match):
    (tmp_path / "data.mtx").write_text(f"%%MatrixMarket {text}")
    refused(tmp_path / "data.mtx", match)


@pytest.fixture
def little_memory(monkeypatch):
    """Let ten megabytes be all that is free."""
    for module in ("errors", "source"):
        monkeypatch.setattr(f"manifoldry.data._tables.{module}.available_memory", lambda: 10**7)
    assert refusals.available_memory() == 10**7 < memory.available_memory()


def test_declared_sizes_are_refused_before_they_are_read(tmp_path, little_memory):
    with zipfile.ZipFile(tmp_path / "data.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for key in ("X", "y"):  # 16 MB of zeros in some kilobytes
            content = io.BytesIO()
            np.save(content, np.zeros((1000, 1000)))
            archive.writestr(f"{key}.npy", content.getvalue())
    refused(tmp_path / "data.npz", r"takes 32 MB once it is unpacked, and 10 MB of memory are free")
    header = b"%%MatrixMarket matrix coordinate real general\n1000000000 5 99999999999\n1 1 1\n"
    (tmp_path / "data.mtx").write_bytes(header)
    refused(tmp_path / "data.mtx", "10 MB of memory are free")
    for name in ("data.mtx.gz", "data.csv.gz"):
        begin = header if "mtx" in name else b"a,b\n"
        (tmp_path / name).write_bytes(gzip.compress(begin + b"1,2\n" * 3_000_000, 1))
        refused(tmp_path / name, r"unpacks to more than 5 MB|takes .* GB")


def test_a_header_that_declares_too_much_is_refused(tmp_path):
    content = io.BytesIO()
    np.save(content, X)
    (tmp_path / "data.npy").write_bytes(content.getvalue().replace(b"(6, 3)", b"(10**9,")[:-1])
    refused(tmp_path / "data.npy", "cannot be read as a NumPy array")
    (tmp_path / "data.npy").write_bytes(content.getvalue().replace(b"(6, 3), }    ", b"(99999999, 3)}"))
    refused(tmp_path / "data.npy", "is cut off: its header declares 2399999976 bytes, it has")


def market(sizes, kind="coordinate real general", body="1 1 1\n"):
    return f"%%MatrixMarket matrix {kind}\n{sizes}\n{body}".encode()


def archive(form, shape):
    """Return a sparse archive of a small matrix that declares another shape."""
    whole, changed = io.BytesIO(), io.BytesIO()
    sparse.save_npz(whole, sparse.random(60, 5, 0.5, format=form, random_state=0))
    whole.seek(0)
    np.savez(changed, **{**np.load(whole), "shape": np.array(shape)})
    return changed.getvalue()


def header(shape):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return head.getvalue() + bytes(100)


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as members:
        members.writestr("X.npy", content)
    return file.getvalue()


TOO_WIDE, TOO_LONG = "declares 1,000,000,000 columns and holds", "declares 1,000,000,000 rows and holds"
DECLARED = {
    "wide.mtx": (market("60 1000000000 1"), TOO_WIDE + " 1 entry; leave empty columns out"),
    "long.mtx": (market("1000000000 60 1"), TOO_LONG),
    "void.mtx": (market("60 1000000000 0", body=""), TOO_WIDE + " 0 entries"),
    "square.mtx": (market("1000000000 1000000000 1", "coordinate real symmetric"), TOO_LONG),
    "wide.mtx.gz": (gzip.compress(market("60 1000000000 1")), TOO_WIDE),
    "dense.mtx": (market("60000 10000", "array real general", "1\n"), "cut off .* declares 600,000,000 entries"),
    "dense.mtx.gz": (
        gzip.compress(market("600 1000", "array real general", "1\n")),
        "cut off .* declares 600,000 entries",
    ),
    **{f"{form}-wide.npz": (archive(form, (60, 10**9)), TOO_WIDE) for form in ("csr", "csc", "coo")},
    **{f"{form}-long.npz": (archive(form, (10**9, 5)), TOO_LONG) for form in ("csr", "csc", "coo")},
    "strange.npz": (archive("csr", (60, 5, 1)), "without a shape of two numbers"),
    "dense.npy": (header((10**6, 1000)), "cut off: its header declares 8000000000 bytes"),
    "dense.npz": (zipped(header((10**6, 1000))), "X.npy of dense.npz is cut off"),
}


@pytest.mark.parametrize("name", DECLARED)
def test_sizes_that_a_file_declares_take_no_memory(tmp_path, name):
    content, match = DECLARED[name]
    (tmp_path / name).write_bytes(content)
    tracemalloc.start()
    try:
        refused(tmp_path / name, match)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_sparse_matrix_may_have_many_columns_but_not_any_number(tmp_path):
    sparse.save_npz(tmp_path / "hashed.npz", sparse.random(5, 2**20, 1e-5, format="csr", random_state=0))
    assert read_table(tmp_path / "hashed.npz").X.shape == (5, 2**20)
    sparse.save_npz(
        tmp_path / "wide.npz",
        sparse.csr_array((np.ones(30_000), (np.zeros(30_000), np.arange(30_000))), (2, 2**21 + 1)),
    )
    refused(tmp_path / "wide.npz", "has 2,097,153 columns; at most 2,097,152 are read")


@pytest.mark.parametrize("missing", ["refuse", "drop", "impute", "keep"])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_infinity_is_not_missing(tmp_path, missing, value, dtype):
    array = np.eye(5, 9, dtype=dtype)
    array[3, 1] = value
    array[0, 2] = np.nan
    np.save(tmp_path / "data.npy", array)
    sparse.save_npz(tmp_path / "data.npz", sparse.csr_array(array))
    precision = "single" if dtype == "f4" else "double"
    for name in ("data.npy", "data.npz"):
        match = rf"Column 'x1' is infinite in row 4 \(counted from 1\), .* largest one in {precision} precision"
        refused(tmp_path / name, match, missing=missing)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_collapse_in_double_precision_are_refused(tmp_path, dtype):
    array = (np.arange(20).reshape(10, 2) * [1, 2**50] + 2**60).astype(dtype)
    np.save(tmp_path / "data.npy", array)
    refused(tmp_path / "data.npy", "10 different integers of column 'x0' lie near")
    assert read_table(tmp_path / "data.npy", drop=["0"]).X[:, 0].tolist() == [float(value) for value in array[:, 1]]
    sparse.save_npz(tmp_path / "data.npz", sparse.csr_array(array[:, :1]))
    refused(tmp_path / "data.npz", "10 different integers of columns 'x0' to 'x0' lie near")


def test_row_ends_that_scipy_does_not_check_are_refused(tmp_path):
    """The last end of a row is 0: scipy's own check passes, and its loops would read beyond the arrays."""
    matrix = sparse.random(9, 5, 0.2, format="csr", random_state=1)
    ends = matrix.indptr.copy()
    ends[-1] = 0
    np.savez(
        tmp_path / "data.npz", format=b"csr", shape=matrix.shape, data=matrix.data, indices=matrix.indices, indptr=ends
    )
    refused(tmp_path / "data.npz", "sparse")
