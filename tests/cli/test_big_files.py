"""Files read in blocks at the command line: as in memory, killed and resumed, refused in words."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from helpers import DEADLINE
from manifoldry import datasets, load
from manifoldry.cli._commands import main
from manifoldry.cli._flow.chunked_tables import chunking_reason
from manifoldry.data._tables import ReadOptions

pa = pytest.importorskip("pyarrow")
from pyarrow import csv, parquet  # noqa: E402

N = 1200

PROGRAM = """
import pathlib, sys, time
import manifoldry.data._chunked.checkpoint, manifoldry._core.chunks, manifoldry.methods.unfolding._ipa
from manifoldry.cli._commands import main
from manifoldry.cli._progress import ProgressReporter
manifoldry.data._chunked.checkpoint.CHECKPOINT_SECONDS = 0.0
manifoldry._core.chunks.MAX_CHUNK_ROWS = 256
manifoldry.methods.unfolding._ipa.MAX_SAMPLE = 500

def show(self, progress):
    if progress.stage == "{stage}" and progress.done > 700:
        pathlib.Path(".reached").touch()
        time.sleep(600)

ProgressReporter.show = show
sys.exit(main({arguments}))
"""
"""The program with small blocks, which waits to be killed in the middle of a stage."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table with names and classes in two formats; blocks of 256 rows, and IPA samples 500."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("manifoldry._core.chunks.MAX_CHUNK_ROWS", 256)
    monkeypatch.setattr("manifoldry.methods.unfolding._ipa.MAX_SAMPLE", 500)
    # scores and findings have their own tests, and take seconds
    nothing = {"quality": {}, "findings": [], "evaluation_remarks": []}
    monkeypatch.setattr(
        "manifoldry.cli._flow.results.evaluate", lambda *_: (nothing | {"evaluation_remarks": []}, None)
    )
    X = datasets.swiss_roll(N, random_state=1).X
    columns = {
        "name": [f"r{i}" for i in range(N)],
        "a": X[:, 0],
        "b": X[:, 1],
        "kind": ["u", "v"] * (N // 2),
        "c": X[:, 2],
    }
    table = pa.table(columns)
    parquet.write_table(table, "rows.parquet", row_group_size=400)
    csv.write_csv(table, "rows.csv")
    return tmp_path


def killed(arguments, stage):
    """Run the program until it is in the middle of a stage, and kill it."""
    running = subprocess.Popen([sys.executable, "-c", PROGRAM.format(stage=stage, arguments=arguments)])
    until = time.monotonic() + DEADLINE
    while not os.path.exists(".reached"):
        assert running.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    os.remove(".reached")


def names():
    return {entry for entry in os.listdir() if not entry.startswith("rows.")}


IPA = ["embed", "rows.parquet", "--method", "ipa", "--label", "kind", "--no-report", "-q"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals to processes")
def test_a_run_killed_while_fitting_and_while_placing_goes_on_to_the_same_bytes(folder, capsys):
    assert main([*IPA, "--no-model", "--no-record", "--no-chunked", "--output", "memory.csv"]) == 0
    assert main([*IPA, "--chunked", "--output", "whole.csv", "--model", "whole.mfy", "--record", "whole.json"]) == 0
    assert names() == {"memory.csv", "whole.csv", "whole.mfy", "whole.json"}
    assert (folder / "whole.csv").read_bytes() == (folder / "memory.csv").read_bytes()
    arguments = [*IPA, "--chunked", "--output", "out.csv"]
    killed(arguments, "charts")
    kept = folder / "out.csv.parts" / "passes"
    assert names() >= {"out.csv.parts"}
    assert not (folder / "out.csv").exists()
    begun = {path.name for path in kept.glob("*.npz")}
    assert len(begun) >= 2  # the sample, and overlaps of some blocks
    assert main([*arguments, "--method", "pca", "--resume"]) == 2
    assert "had another method" in capsys.readouterr().err
    assert main(arguments) == 2
    assert "--resume continues it" in capsys.readouterr().err
    killed([*arguments, "--resume"], "rows")
    assert {path.name for path in kept.glob("*.npz")} == begun  # another process knows the passes by the same names
    model = folder / "out.csv.parts" / "model.mfy"
    assert len(list(model.parent.glob("0*.npy"))) >= 3
    fitted_at = model.stat().st_mtime_ns
    assert load(model).embedding_.shape == (500, 2)
    os.link(model, "kept.mfy")
    assert main([*arguments, "--resume"]) == 0
    assert os.stat("kept.mfy").st_mtime_ns == fitted_at  # not fitted again
    assert (folder / "out.csv").read_bytes() == (folder / "whole.csv").read_bytes()
    assert not (folder / "out.csv.parts").exists()
    records = [json.loads((folder / name).read_text()) for name in ("whole.json", "rows_run.json")]
    assert records[0]["remarks"][-1].startswith("All rows were transformed, at ")
    assert f"transformed, {3 * 256:,} of them by the interrupted run, the others at " in records[1]["remarks"][-1]
    assert records[0]["coordinates"] == records[1]["coordinates"]
    assert records[0]["parameters"] == records[1]["parameters"]


def test_a_changed_file_is_not_resumed(folder, capsys):
    arguments = ["embed", "rows.csv", "--method", "pca", "--chunked", "--no-report", "-q"]
    assert main([*arguments, "--resume"]) == 0  # there is nothing to go on with: it begins
    (folder / "rows_embedding.csv.parts").mkdir()
    (folder / "rows_embedding.csv.parts" / "task.json").write_text('{"source": "rows.csv 1 1"}')
    assert main([*arguments, "--resume"]) == 2
    assert "had another source, " in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--scale", "standard"], ["--scale", "robust", "--pca", "2"]])
def test_small_files_in_blocks_give_what_memory_gives(folder, options):
    same = ["--method", "laplacianeigenmaps", "--no-report", *options, "-q"]
    for blocks, name in (("--no-chunked", "memory"), ("--chunked", "blocks")):
        files = ["--output", f"{name}.npy", "--model", f"{name}.mfy", "--record", f"{name}.json"]
        assert main(["embed", "rows.csv", "--label", "kind", blocks, *same, *files]) == 0
    expected, found = np.load("memory.npy"), np.load("blocks.npy")
    if "standard" in options:  # means of blocks are merged in another order, and the method makes more of it
        X = parquet.read_table("rows.parquet").select(["a", "b", "c"]).to_pandas().to_numpy()
        steps = [load(f"{name}.mfy")[:-1] for name in ("memory", "blocks")]
        np.testing.assert_allclose(steps[0].transform(X), steps[1].transform(X), rtol=0, atol=1e-12)
    else:
        np.testing.assert_array_equal(found, expected)
    record = json.loads((folder / "blocks.json").read_text())
    assert record["blocks"] is True
    assert record["resolved"]["fitted_to"] == "all 1,200 rows"
    assert main(["rerun", "blocks.json", "-q"]) == 0


def test_scaling_and_axes_of_more_rows_than_a_sample_are_those_of_all(folder, monkeypatch):
    monkeypatch.setattr("manifoldry.cli._flow.chunked_tables.PREPARED_SAMPLE", 300)
    options = ["--method", "ipa", "--scale", "standard", "--pca", "2", "--no-report", "--no-record", "-q"]
    for blocks, name in (("--no-chunked", "memory"), ("--chunked", "blocks")):
        assert (
            main(["embed", "rows.csv", "--label", "kind", blocks, *options, "--output", f"{name}.npy", "--model", name])
            == 0
        )
    X = parquet.read_table("rows.parquet").select(["a", "b", "c"]).to_pandas().to_numpy()
    expected, found = (load(name)[:-1].transform(X) for name in ("memory", "blocks"))
    # Rounding of sums over 1,200 rows in another order; the gap of the eigenvalues does not magnify it much.
    np.testing.assert_allclose(found * np.sign((found * expected).sum(axis=0)), expected, atol=1e-10)


def test_auto_chooses_by_a_sample_and_says_so(folder, monkeypatch, capsys):
    monkeypatch.setattr("manifoldry.cli._flow.fitting.methods_for", lambda purpose, n: (["IPA"], ("MVU",)))  # noqa: ARG005
    arguments = ["embed", "rows.parquet", "--chunked", "--no-model", "--label", "kind", "--purpose", "keep-distances"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert 'Chosen to "keep distances"' in said.replace("\n", " ")
    assert "Read in chunks, and fitted to" in said
    assert "rows per second" in said
    assert (folder / "rows_report.html").stat().st_size > 10_000


def test_rows_with_missing_values_are_refused_left_out_or_filled_in(folder, capsys):
    text = (folder / "rows.csv").read_text().splitlines()
    text[701] = text[701].rsplit(",", 1)[0] + ","
    (folder / "rows.csv").write_text("\n".join(text) + "\n")
    arguments = ["embed", "rows.csv", "--method", "pca", "--no-report", "--no-record", "--force", "-q"]
    assert main([*arguments, "--chunked"]) == 2
    assert "Row 700 (counted from 0) of rows.csv has a missing value in column 'c'" in capsys.readouterr().err
    assert "rows_embedding.csv.parts" not in names()
    for missing in ("drop", "impute"):
        found = []
        for blocks in ("--chunked", "--no-chunked"):
            assert main([*arguments, blocks, "--missing", missing]) == 0
            found.append((folder / "rows_embedding.csv").read_text().splitlines())
        assert [line.split(",")[0] for line in found[0]] == [line.split(",")[0] for line in found[1]]
        Y, expected = (np.array([line.split(",")[1:] for line in lines[1:]], dtype=float) for lines in found)
        np.testing.assert_allclose(Y, expected, atol=1e-10)


def test_transform_places_a_large_file_as_a_small_one(folder, capsys):
    assert main(["embed", "rows.csv", "--method", "isomap", "--scale", "standard", "--no-report", "-q"]) == 0
    arguments = ["transform", "rows_model.mfy", "rows.parquet", "--output"]
    assert main([*arguments, "memory.csv", "--no-chunked"]) == 0
    assert main([*arguments, "blocks.csv", "--chunked"]) == 0
    assert "rows per second" in capsys.readouterr().out
    found, expected = (csv.read_csv(name).to_pandas() for name in ("blocks.csv", "memory.csv"))
    assert found["name"].tolist() == expected["name"].tolist()
    np.testing.assert_allclose(found[["y0", "y1"]], expected[["y0", "y1"]], atol=1e-9)
    parquet.write_table(parquet.read_table("rows.parquet").drop_columns(["b"]), "less.parquet")
    assert main(["transform", "rows_model.mfy", "less.parquet", "--chunked"]) == 2
    assert "There is no column 'b'" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals to processes")
def test_a_killed_transform_goes_on_and_refuses_another_model(folder, capsys):
    fit = ["embed", "rows.csv", "--no-report", "--no-record", "--force", "-q"]
    assert main([*fit, "--method", "pca"]) == 0
    arguments = ["transform", "rows_model.mfy", "rows.parquet", "--chunked", "-q", "--output", "out.parquet"]
    killed(arguments, "rows")
    assert main([*fit, "--method", "pca", "--n-components", "1", "--model", "other.mfy"]) == 0
    assert main(["transform", "other.mfy", *arguments[2:], "--resume"]) == 2
    assert "another model or source" in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0
    assert main([*arguments[:-1], "whole.parquet"]) == 0
    assert (folder / "out.parquet").read_bytes() == (folder / "whole.parquet").read_bytes()


@pytest.mark.parametrize("command", [["embed", "rows.csv", "--no-report"], ["transform", "rows_model.mfy", "rows.csv"]])
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(folder, monkeypatch, capsys, command):
    def interrupted(_, progress):
        if progress.stage == "rows" and progress.done > 700:
            raise KeyboardInterrupt

    assert main(["embed", "rows.csv", "--method", "lpp", "--no-report", "--output", "whole.csv", "-q"]) == 0
    method = ["--method", "lpp", "--force", "--label", "kind"] if command[0] == "embed" else []
    arguments = [*command, *method, "--chunked", "--output", "out.csv"]
    with monkeypatch.context() as patched:
        patched.setattr("manifoldry.cli._progress.ProgressReporter.show", interrupted)
        assert main(arguments) == 130
    assert (
        "The work so far is in 'out.csv.parts'; the same command with --resume continues it." in capsys.readouterr().err
    )
    assert len(list((folder / "out.csv.parts").glob("0*.npy"))) == 3
    assert main([*arguments, "--resume"]) == 0
    assert not (folder / "out.csv.parts").exists()
    assert len((folder / "out.csv").read_text().splitlines()) == N + 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rows.csv", "--resume"], "is read into memory"),
        (["rows.csv", "--chunked", "--output", "-"], "cannot go to standard output"),
        (["rows.csv", "--chunked", "--output", "x.h5ad"], "end with .npy"),
        (["-", "--chunked"], "Standard input cannot be read in chunks"),
        (["rows.npy", "--chunked", "--label", "3"], "--label needs a file with named columns"),
        (["rows.csv", "--chunked", "--method", "mds"], "cannot be fitted to"),
        (["rows.npz", "--chunked"], "a NumPy archive, which cannot be read in chunks"),
        (["rows.csv", "--chunked", "--features", "kind"], "cannot be a feature: it holds text"),
    ],
)
def test_what_cannot_be_done_in_blocks_is_refused_in_words(folder, capsys, arguments, words):
    np.save("rows.npy", np.ones((3, 2)))
    np.savez("rows.npz", X=np.ones((3, 2)))
    assert main(["embed", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert names() == set()


def test_a_method_that_cannot_is_refused_before_the_rows_are_read(folder, monkeypatch, capsys):
    def read(*_):
        raise AssertionError

    monkeypatch.setattr("manifoldry.cli._flow.embed.open_chunked", read)
    assert main(["embed", "rows.parquet", "--chunked", "--method", "mvu"]) == 2
    assert "MVU cannot be fitted to" in capsys.readouterr().err


def test_a_full_disk_is_told_with_how_to_go_on(folder, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    arguments = ["embed", "rows.parquet", "--chunked", "--method", "pca", "--no-report", "-q", "--output", "out.csv"]
    with monkeypatch.context() as patched:
        patched.setattr("manifoldry.cli._flow.embed.save_chunks", full)
        assert main(arguments) == 1
    assert "'out.csv.parts'; the same command with --resume continues it." in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0


def test_the_heading_of_the_page_says_that_rows_are_sampled(folder):
    assert main(["embed", "rows.parquet", "--chunked", "--method", "ipa", "-q", "--no-model"]) == 0
    page = (folder / "rows_report.html").read_text(encoding="utf-8")
    assert "<h1>rows.parquet: IPA (a sample of 500 of 1,200 rows)</h1>" in page


def test_the_size_in_memory_decides(folder, monkeypatch):
    np.save("rows.npy", np.ones((N, 3), dtype=np.float32))
    sources = ("rows.csv", "rows.parquet", "rows.npy")
    assert not any(chunking_reason(name, ReadOptions(), None) for name in sources)
    monkeypatch.setattr("manifoldry.cli._flow.chunked_tables.MAX_TABLE_BYTES", 20_000)
    for name in sources:
        assert "more than 0 MB, so it is read in chunks" in chunking_reason(name, ReadOptions(), None)
        assert chunking_reason(name, ReadOptions(), False) is None
    (folder / "several").mkdir()
    (folder / "several" / "1.parquet").write_bytes((folder / "rows.parquet").read_bytes())
    assert "folder of files" in chunking_reason("several", ReadOptions(), None)
    assert chunking_reason("swiss-roll", ReadOptions(), None) is None
