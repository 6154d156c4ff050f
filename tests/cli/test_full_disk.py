"""A disk that is full: every writer says which file, why, and what is left."""

import os
import re
from contextlib import contextmanager

import numpy as np
import pytest

from manifoldry import PCA, datasets
from manifoldry._core.files import new_file
from manifoldry.cli._commands import main
from manifoldry.cli._explore.session import Session
from manifoldry.cli._flow.results import write_record
from manifoldry.data._chunked.local import ArrayChunks
from manifoldry.data._chunked.store import save_chunks
from manifoldry.data._tables import Table, write_coordinates
from manifoldry.viz._report import build_report

resource = pytest.importorskip("resource")

LIMIT = 2000
"""Bytes of the largest file: all of the files written here are larger."""

N = 600


@contextmanager
def full_disk():
    """Let no file become larger than the limit, as root too; Python gets an error as of a disk that is full."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


X = np.random.default_rng(0).normal(size=(N, 3))
TABLE = Table(X, ("a", "b", "c"), np.arange(N), source="x.csv")


def write_model(path):
    PCA(n_components=2).fit(X).save(path)


def write_page(path):
    build_report(X, {"PCA": X[:, :2]}, title="x").save(path)


def write_blocks(path):
    save_chunks(ArrayChunks(X[:, :2].copy()), path)


WRITERS = {
    **{f"y{suffix}": lambda path: write_coordinates(path, X[:, :2], TABLE) for suffix in (".csv", ".tsv", ".npy")},
    **{f"z{suffix}": lambda path: write_coordinates(path, X[:, :2], TABLE) for suffix in (".parquet", ".arrow")},
    "m.mfy": write_model,
    "r.html": write_page,
    "run.json": lambda path: write_record(path, {"long": "x" * N * 10}),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_names_file_and_cause_and_leaves_nothing(name, tmp_path):
    with full_disk(), pytest.raises(OSError, match="cannot be written") as caught:
        WRITERS[name](tmp_path / name)
    assert re.search(rf"{re.escape(name)}' cannot be written: .*bytes are free", str(caught.value))
    assert os.listdir(tmp_path) == []
    WRITERS[name](tmp_path / name)  # with more room it is written
    assert (tmp_path / name).stat().st_size > LIMIT


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".parquet", ".arrow"])
def test_rows_in_blocks_keep_what_was_done(suffix, tmp_path):
    path = tmp_path / f"y{suffix}"
    with full_disk(), pytest.raises(OSError, match=r"00000000\.npy' cannot be written: .*9,600 bytes are needed"):
        write_blocks(path)
    save_chunks(ArrayChunks(X[:, :2].copy()), path, resume=True)
    assert path.stat().st_size > LIMIT


def test_other_errors_stay_what_they_are(tmp_path):
    def fail():
        with new_file(tmp_path / "a"):
            raise OSError("another error")

    with pytest.raises(OSError, match=r"^another error$"):
        fail()


@pytest.fixture
def roll(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("roll.npy", datasets.swiss_roll(N).X)
    return tmp_path


def test_embed_says_what_was_written_and_what_not(roll, capsys):
    with full_disk():
        assert main(["embed", "roll.npy", "--method", "pca", "-q"]) == 1
    err = capsys.readouterr().err
    assert "'roll_embedding.csv' cannot be written: the system does not allow a file this large" in err
    assert "Written: nothing; not written: roll_embedding.csv, roll_model.mfy, roll_report.html, roll_run.json." in err
    assert [path.name for path in roll.iterdir()] == ["roll.npy"]


def test_embed_and_transform_in_blocks_go_on_with_more_room(roll, capsys):
    embed = ["embed", "roll.npy", "--method", "pca", "--chunked", "--no-report", "-q"]
    with full_disk():
        assert main(embed) == 1
    err = capsys.readouterr().err
    assert "model.mfy' cannot be written: the system does not allow a file this large" in err
    assert "The work so far is in 'roll_embedding.csv.parts'; the same command with --resume continues it." in err
    assert main([*embed, "--resume"]) == 0
    transform = ["transform", "roll_model.mfy", "roll.npy", "--chunked", "-o", "again.csv", "-q"]
    with full_disk():
        assert main(transform) == 1
    assert "The work so far is in 'again.csv.parts'; the same command with --resume" in capsys.readouterr().err
    assert main([*transform, "--resume"]) == 0
    assert (roll / "again.csv").stat().st_size > LIMIT


def test_transform_and_compare_name_the_file(roll, capsys):
    assert main(["embed", "roll.npy", "--method", "pca", "--no-report", "-q"]) == 0
    with full_disk():
        assert main(["transform", "roll_model.mfy", "roll.npy", "-o", "new.csv", "-q"]) == 1
        assert main(["compare", "roll.npy", "--methods", "pca", "--budget", "0", "-o", "best.csv", "--json"]) == 1
    err = capsys.readouterr().err
    assert "'new.csv' cannot be written" in err
    assert "'best.csv' cannot be written" in err


def test_the_live_page_names_the_file(tmp_path):
    session = Session(TABLE, folder=tmp_path)
    with full_disk(), pytest.raises(OSError, match=r"x_selection_1\.csv' cannot be written"):
        session.save({"rows": list(range(N))})
    assert os.listdir(tmp_path) == []
