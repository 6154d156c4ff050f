"""Damaged files at the command line: a sentence and code 2, and nothing written."""

import io
import os

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from pyarrow import parquet

from manifoldry.cli._commands import main

ROWS = 12
AS_OFTEN = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def contents(folder):
    """Return the bytes of a sound file of several formats, by suffix."""
    X = np.random.default_rng(0).normal(size=(ROWS, 3))
    archive, table = io.BytesIO(), io.BytesIO()
    np.savez_compressed(archive, X=X)
    parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}), table)
    text = "a,b,c\n" + "\n".join(",".join(map(repr, row)) for row in X.tolist())
    files = {".csv": text.encode(), ".npz": archive.getvalue(), ".parquet": table.getvalue()}
    try:
        import anndata
    except ImportError:
        return files
    anndata.AnnData(X).write_h5ad(folder / "whole.h5ad")
    return files | {".h5ad": (folder / "whole.h5ad").read_bytes()}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return contents(tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def model(tmp_path_factory, sound):
    folder = tmp_path_factory.mktemp("model")
    (folder / "rows.csv").write_bytes(sound[".csv"])
    asked = ["embed", str(folder / "rows.csv"), "--method", "pca", "--quiet", "--no-report", "--no-record"]
    assert main([*asked, "--output", str(folder / "y.csv"), "--model", str(folder / "m.mfy")]) == 0
    return (folder / "m.mfy").read_bytes()


def outcome(folder, arguments, capsys):
    """Return the exit code after checks of what was said and written."""
    before = sorted(os.listdir(folder))
    code = main([*arguments, "--quiet"])
    err = capsys.readouterr().err
    assert code in (0, 2), err
    assert "Traceback" not in err
    if code == 2:
        assert err.startswith("manifoldry: ")
        assert err.rstrip().splitlines()[-1].endswith((".", "?", ")"))
        assert sorted(os.listdir(folder)) == before
    return code


def embed(folder, suffix, content, capsys):
    source = folder / f"rows{suffix}"
    source.write_bytes(content)
    asked = ["embed", str(source), "--method", "pca", "--folder", str(folder), "--force", "--no-report"]
    return outcome(folder, asked, capsys)


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet", ".h5ad"])
def test_sound_files_are_embedded(suffix, sound, tmp_path, capsys):
    assert suffix not in sound or embed(tmp_path, suffix, sound[suffix], capsys) == 0


@AS_OFTEN
@given(suffix=st.sampled_from([".npz", ".parquet", ".h5ad"]), share=st.floats(0, 0.99))
@example(suffix=".npz", share=0.0)
def test_files_that_are_cut_off_are_refused(suffix, share, sound, tmp_path_factory, capsys):
    whole = sound.get(suffix, sound[".npz"])
    kept = whole[: int(share * len(whole))]
    assert embed(tmp_path_factory.mktemp("cut"), suffix if suffix in sound else ".npz", kept, capsys) == 2


@AS_OFTEN
@given(
    lines=st.lists(
        st.lists(st.sampled_from(["1", "2.5", "x", "", '"', "nan", "\0", "é", "9" * 400]), max_size=5), max_size=8
    )
)
def test_any_text_is_embedded_or_refused(lines, tmp_path_factory, capsys):
    text = "\n".join(",".join(line) for line in lines)
    embed(tmp_path_factory.mktemp("text"), ".csv", text.encode("latin-1"), capsys)


@AS_OFTEN
@given(data=st.data())
def test_a_model_with_a_changed_byte_is_refused(data, model, sound, tmp_path_factory, capsys):
    place = data.draw(st.integers(0, len(model) - 1))
    changed = model[place] ^ data.draw(st.integers(1, 255))
    folder = tmp_path_factory.mktemp("changed")
    (folder / "rows.csv").write_bytes(sound[".csv"])
    (folder / "m.mfy").write_bytes(model[:place] + bytes([changed]) + model[place + 1 :])
    asked = ["transform", str(folder / "m.mfy"), str(folder / "rows.csv"), "--output", str(folder / "new.csv")]
    assert outcome(folder, asked, capsys) == 2
