"""Whatever a file holds, it is a table or a sentence, and nothing is written."""

import gzip
import io
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet
from scipy import io as scipy_io
from scipy import sparse

from manifoldry.data._tables import Table, read_table

MATRIX = sparse.random(6, 4, 0.5, format="coo", random_state=0)
ROWS = "id,a,b,name\n" + "".join(f"{i},{i / 2},{i % 3},n{i % 2}\n" for i in range(15))
ARROW = pa.table(
    {"id": ["u", "v", "w"], "x": [1.0, 2, 3], "v": [[1.0, 2]] * 3, "c": pa.array([*"pqp"]).dictionary_encode()}
)


FOREIGN = re.compile(
    r"object at 0x|thrift|protocol|allow_pickle|pickle=|iospec|\bb['\"]|base64|errno|zlib|gzipped|error -|traceback"
    r"|exception|cannot reshape|invalid literal|codec|nonetype|ndarray|<class|invalid:|ioerror|arrowinvalid|flatbuffer"
    r"|h5[a-z]{2,}\(|zip file|bad magic|crc|buffer|__\w+__|read_table\(|decompress",
    flags=re.IGNORECASE,
)
"""Words of libraries for their own developers."""


class Files(dict):
    """Bytes by suffix, which a failing test does not print."""

    def __repr__(self):
        return f"Files({', '.join(self)})"


def buffered(save, *arguments, **settings):
    content = io.BytesIO()
    save(content, *arguments, **settings)
    return content.getvalue()


def annotated(folder):
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"kind": pd.Categorical([*"ababab"])}, index=[*"uvwxyz"])
    anndata.AnnData(MATRIX.tocsr(), obs=obs).write_h5ad(folder / "whole.h5ad")
    return (folder / "whole.h5ad").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the bytes of a sound file of every format by its suffix."""
    market = buffered(lambda file: scipy_io.mmwrite(file, MATRIX))
    files = Files({
        ".csv": ROWS.encode(),
        ".txt": b'"x y" z\n"a b" 1 2\n"c d" 3 4\n',
        ".dat": "a;b\n1,5;2\n3,5;4\n".encode("utf-16"),
        ".tsv": ROWS.replace(",", "\t").encode(),
        ".csv.gz": gzip.compress(ROWS.encode()),
        ".parquet": buffered(lambda file: parquet.write_table(ARROW, file)),
        ".arrow": buffered(lambda file: feather.write_feather(ARROW, file)),
        ".feather": buffered(lambda file: feather.write_feather(ARROW, file, compression="uncompressed")),
        ".npy": buffered(np.save, MATRIX.toarray()),
        ".npz": buffered(np.savez_compressed, X=MATRIX.toarray(), y=np.arange(6)),
        ".sparse.npz": buffered(sparse.save_npz, MATRIX.tocsr()),
        ".mtx": market,
        ".mtx.gz": gzip.compress(market),
        ".h5ad": annotated(tmp_path_factory.mktemp("whole")),
    })  # fmt: skip
    assert all(outcome(tmp_path_factory.mktemp("sound"), suffix, content) for suffix, content in files.items())
    return files


def outcome(folder, suffix, content, **options):
    """Read bytes under a suffix; tell whether they are a table, and fail if what is said otherwise is no sentence."""
    path = folder / f"data{suffix}"
    path.write_bytes(content)
    try:
        table = read_table(path, **options)
    except ValueError as error:
        sentence = str(error)
        assert re.fullmatch(r"\S.{10,}[.?]", sentence), sentence  # one line
        ours = re.sub(
            r"'[^']*'|\"[^\"]*\"|(?<=columns are ).*|(?<=of columns \().*", "", sentence
        )  # without what is from the file
        assert not FOREIGN.search(ours), sentence
        return False
    finally:
        assert [entry.name for entry in folder.iterdir()] == [path.name]
        assert path.read_bytes() == content
    assert isinstance(table, Table)
    assert table.X.shape[0] == len(table.ids) > 0
    return True


FUZZ = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SUFFIXES = (".csv", ".txt", ".dat", ".tsv", ".csv.gz", ".parquet", ".arrow", ".feather", ".npy", ".npz", ".sparse.npz")
SUFFIXES += (".mtx", ".mtx.gz", ".h5ad")
TEXT = st.text(st.sampled_from([*"0123456789,.;|\t \"\n\r#eE+-abNA?é'"]), max_size=80)


@FUZZ
@given(TEXT, st.sampled_from(["utf-8", "utf-16", "latin-1"]), st.sampled_from([None, True, False]))
@example("'b\r0\r;", "utf-8", None)  # a name that is quoted by the other quotation marks
def test_any_text(tmp_path_factory, text, encoding, header):
    outcome(tmp_path_factory.mktemp("text"), ".csv", text.encode(encoding), header=header)


@FUZZ
@given(st.binary(max_size=200), st.sampled_from((*SUFFIXES, "", ".json", ".png")))
def test_any_bytes_with_any_suffix(tmp_path_factory, content, suffix):
    outcome(tmp_path_factory.mktemp("bytes"), suffix, content)


@FUZZ
@given(st.sampled_from(SUFFIXES), st.floats(0, 1, exclude_max=True))
def test_files_that_are_cut_off(tmp_path_factory, whole, suffix, share):
    content = whole[suffix]
    read = outcome(tmp_path_factory.mktemp("cut"), suffix, content[: int(share * len(content))])
    assert not read or suffix in (".csv", ".txt", ".dat", ".tsv", ".mtx")  # only text may be whole without its end


@FUZZ
@given(
    st.sampled_from([suffix for suffix in SUFFIXES if suffix not in (".parquet", ".arrow", ".feather", ".h5ad")]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=3)), min_size=1, max_size=4),
    st.sampled_from(["refuse", "drop", "impute"]),
)
@example(suffix=".mtx", changes=[(0.125, b"\x80")], missing="refuse")  # scipy's message quotes bytes that are not text
def test_files_with_changed_bytes(tmp_path_factory, whole, suffix, changes, missing):
    content = bytearray(whole[suffix])
    for place, new in changes:
        begin = int(place * len(content))
        content[begin : begin + 2] = new
    outcome(tmp_path_factory.mktemp("changed"), suffix, bytes(content), missing=missing)


@FUZZ
@given(
    st.lists(
        st.lists(st.sampled_from(["1", "2.5", "x", "", '"', "NA"]), min_size=1, max_size=5), min_size=2, max_size=8
    )
)
def test_ragged_rows(tmp_path_factory, rows):
    content = "\n".join(map(",".join, rows)).encode()
    outcome(tmp_path_factory.mktemp("ragged"), ".csv", content)


def records(folder):
    path = folder / "data.npy"
    path.write_bytes(
        b"\x93NUMPY\x01\x00\x46\x00{'descr': open('x'), 'fortran_order': False, 'shape': (3,)}".ljust(80) + b"\n"
    )
    return path.read_bytes()


def unknown_encoding(folder, content):
    h5py = pytest.importorskip("h5py")
    path = folder / "data.h5ad"
    path.write_bytes(content)
    with h5py.File(path, "r+") as file:
        file["X"].attrs["encoding-type"] = "made up"
        file["obs"].attrs["encoding-version"] = "9.9.9"
    return path.read_bytes()


def test_libraries_do_not_speak_to_the_user(tmp_path, whole):
    made = {
        ".npy": records(tmp_path),
        ".h5ad": unknown_encoding(tmp_path, whole[".h5ad"]),
        ".parquet": b"PAR1" + bytes(range(200)) + b"PAR1",
        ".arrow": b"ARROW1\0\0" + bytes(range(200)) + b"ARROW1",
        ".npz": buffered(np.savez, X=np.array([{}], dtype=object)),
        ".csv.gz": gzip.compress(b"a,b\n1,2\n") + b"garbage",
        ".mtx": b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 x 1\n",
        ".mtx.gz": b"\x1f\x8b" + bytes(range(60)),
    }
    for entry in tmp_path.iterdir():
        entry.unlink()
    for suffix, content in made.items():
        assert not outcome(tmp_path, suffix, content)
        (tmp_path / f"data{suffix}").unlink()


@pytest.mark.parametrize("separator", [",", " ", "\n", '"', "\t"])
def test_huge_fields(tmp_path, separator):
    huge = b"7" * 3_000_000
    outcome(tmp_path, ".csv", b"a,b\n" + huge + separator.encode() + b"1\n2,3\n")
    outcome(tmp_path, ".csv", huge)


def test_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("manifoldry.data._tables.delimited.BLOCK_BYTES", (1000, 2000))
    (tmp_path / "data.csv").write_bytes(b"a,b\n1,2\n3," + b"x" * 5000)
    with pytest.raises(ValueError, match="has a line of more than"):
        read_table(tmp_path / "data.csv")


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1, exclude_max=True))
def test_images_that_are_cut_off(tmp_path_factory, share):
    image = pytest.importorskip("PIL.Image").fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    content = buffered(image.save, format="PNG")
    folder = tmp_path_factory.mktemp("images")
    (folder / "data.png").write_bytes(content[: int(share * (len(content) - 20))])
    with pytest.raises(ValueError, match=r"can(not)? be read: data.png"):
        read_table(folder)
