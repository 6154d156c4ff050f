"""Saving and checkpoints: a killed run goes on and gives the same bytes; what does not belong together is refused."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import manifoldry
from manifoldry._core.run import Run
from manifoldry.data._chunked import chunked_data
from manifoldry.data._chunked.checkpoint import Checkpoint
from manifoldry.data._chunked.store import parts_folder

N = 256 * 8 + 100


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("manifoldry._core.chunks.MAX_CHUNK_ROWS", 256)


@pytest.fixture(name="X", scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((N, 4)).astype(np.float32)


class HaltError(Exception):
    """Stands for the end of the program."""


class Moments:
    """The work of a pass, which ends the program at a row."""

    def __init__(self, kind, halt_at=None):
        self.kind, self.halt_at = kind, halt_at

    def __call__(self, rows, start, run):  # noqa: ARG002
        if self.halt_at is not None and start >= self.halt_at:
            raise HaltError
        return self.kind(rows.sum(axis=0), float(len(rows)))

    def __getstate__(self):
        return {"kind": self.kind}  # the same work, whenever it is ended


class NamedSums(NamedTuple):
    """A share as a tuple with names."""

    total: np.ndarray
    count: float


@dataclass(frozen=True)
class Sums:
    """A share as a dataclass."""

    total: np.ndarray
    count: float


class Strange:
    """A share that no file can hold."""

    def __init__(self, total, count):
        self.total, self.count = total, count


def merged(a, b):
    return type(a)(a.total + b.total, a.count + b.count)


@pytest.mark.parametrize(("kind", "resumed"), [(NamedSums, True), (Sums, True), (Strange, False)])
def test_a_pass_goes_on_where_it_ended_with_the_same_bits(X, tmp_path, kind, resumed):
    expected = chunked_data(X).reduce(Moments(kind), merged, Run(0))
    for halt_at in (256 * 3, 256 * 6):
        with pytest.raises(HaltError):
            chunked_data(X, checkpoint=tmp_path).reduce(Moments(kind, halt_at), merged, Run(0))
    done = []
    run = Run(0, callback=lambda progress: done.append(progress.done) and None)
    found = chunked_data(X, checkpoint=tmp_path).reduce(Moments(kind), merged, run)
    np.testing.assert_array_equal(found.total, expected.total)
    assert found.count == N
    assert done[0] == (256 * 6 if resumed else 256)  # the last block before the end is computed again, or all are
    again = chunked_data(X, checkpoint=tmp_path).reduce(Moments(kind), merged, Run(0))
    np.testing.assert_array_equal(again.total, expected.total)


def test_a_pass_of_other_rows_or_other_work_begins_anew(X, tmp_path):
    chunked_data(X, checkpoint=tmp_path).reduce(Moments(Sums), merged, Run(0))
    other = chunked_data(X + 1, checkpoint=tmp_path).reduce(Moments(Sums), merged, Run(0))
    np.testing.assert_array_equal(other.total, chunked_data(X + 1).reduce(Moments(Sums), merged, Run(0)).total)
    assert len(list(tmp_path.iterdir())) == 2
    chunked_data(X, checkpoint=tmp_path).reduce(Moments(NamedSums), merged, Run(0))
    assert len(list(tmp_path.iterdir())) == 3


def test_a_damaged_checkpoint_begins_anew(X, tmp_path):
    expected = chunked_data(X, checkpoint=tmp_path).reduce(Moments(Sums), merged, Run(0))
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:1000])
    found = chunked_data(X, checkpoint=tmp_path).reduce(Moments(Sums), merged, Run(0))
    np.testing.assert_array_equal(found.total, expected.total)


def test_a_sample_goes_on_where_it_ended(X, tmp_path):
    def parts(halt_after, read):
        for i, part in enumerate(np.array_split(X, 30)):
            if i == halt_after:
                raise HaltError
            read.append(i)
            yield part

    expected = chunked_data(X).sample(40, np.random.default_rng(5))
    halted = chunked_data(lambda: parts(20, []), checkpoint=tmp_path)
    halted.checkpoint = Checkpoint(tmp_path, seconds=0)
    with pytest.raises(HaltError):
        halted.sample(40, np.random.default_rng(5))
    assert len(list(tmp_path.iterdir())) == 1
    steps = []
    run = Run(0, callback=lambda progress: steps.append(progress.done) and None)
    for expected_steps in (4, 0):  # four blocks are left after the first five; then none
        found = chunked_data(lambda: parts(None, []), checkpoint=tmp_path).sample(40, np.random.default_rng(5), run)
        np.testing.assert_array_equal(found.numbers, expected.numbers)
        np.testing.assert_array_equal(found.rows, expected.rows)
        assert found.n_rows == N
        assert len(steps) == expected_steps
        steps.clear()


def test_a_checkpoint_needs_rows_that_can_be_read_again(X, tmp_path):
    with pytest.raises(ValueError, match="can read again"):
        chunked_data(iter([X]), checkpoint=tmp_path)


class Doubling:
    """A map of rows that ends the program at a block, and counts its calls."""

    def __init__(self, halt_after=None, factor=2.0):
        self.halt_after, self.factor, self.calls = halt_after, factor, 0

    def __call__(self, rows, run):  # noqa: ARG002
        self.calls += 1
        if self.calls == self.halt_after:
            raise HaltError
        return np.asarray(self.factor * rows[:, :2], dtype=np.float32)


def mapped(source, place):
    return source.mapped(place, 2, np.float32, ["u", "v"], Run(0))


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".arrow", ".csv"])
def test_an_interrupted_file_is_the_same_byte_for_byte(X, tmp_path, suffix):
    whole, path = tmp_path / f"whole{suffix}", tmp_path / f"out{suffix}"
    mapped(chunked_data(X), Doubling()).save(whole)
    with pytest.raises(HaltError):
        mapped(chunked_data(X), Doubling(halt_after=6)).save(path)
    assert not path.exists()
    assert len(list(parts_folder(path).glob("0*.npy"))) == 5
    with pytest.raises(FileExistsError, match="go on with them"):
        mapped(chunked_data(X), Doubling()).save(path)
    place = Doubling()
    mapped(chunked_data(lambda: iter(np.array_split(X, 7))), place).save(path, resume=True)
    assert place.calls == 1 + 4  # the first to compare, and those that were left
    assert path.read_bytes() == whole.read_bytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([whole.name, path.name])


def test_saved_files_hold_the_rows(X, tmp_path):
    from pyarrow import csv, parquet

    expected = 2 * X[:, :2]
    blocks = mapped(chunked_data(X), Doubling())
    for suffix in (".npy", ".parquet", ".csv"):
        blocks.save(tmp_path / f"x{suffix}")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), expected)
    for table in (parquet.read_table(tmp_path / "x.parquet"), csv.read_csv(tmp_path / "x.csv")):
        assert table.column_names == ["u", "v"]
        np.testing.assert_array_equal(table["v"].to_numpy().astype(np.float32), expected[:, 1])
    X_small = np.random.default_rng(1).standard_normal((300, 3))
    labels = manifoldry.LDLC(n_clusters=2).fit(X_small).predict(chunked_data(X_small))
    labels.save(tmp_path / "labels.npy")
    assert np.load(tmp_path / "labels.npy").shape == (300,)


def test_parts_of_another_model_or_source_are_refused(X, tmp_path):
    path, source = tmp_path / "out.npy", tmp_path / "x.npy"
    np.save(source, X)
    with pytest.raises(HaltError):
        mapped(chunked_data(source), Doubling(halt_after=4)).save(path)
    with pytest.raises(ValueError, match="another model or source"):
        mapped(chunked_data(source), Doubling(factor=3.0)).save(path, resume=True)
    os.utime(source, ns=(1, 1))
    with pytest.raises(ValueError, match="The source is not that of the parts"):
        mapped(chunked_data(source), Doubling()).save(path, resume=True)
    mapped(chunked_data(source), Doubling(factor=3.0)).save(path, overwrite=True)
    np.testing.assert_array_equal(np.load(path), 3 * X[:, :2])
    with pytest.raises(FileExistsError, match="not overwritten"):
        mapped(chunked_data(source), Doubling()).save(path)
    with pytest.raises(ValueError, match=r"end with .npy, .parquet"):
        mapped(chunked_data(source), Doubling()).save(tmp_path / "out.xlsx")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        mapped(chunked_data(source), Doubling()).save(tmp_path / "none" / "out.npy")


PROGRAM = """
import sys, time
import manifoldry
import manifoldry._core.chunks
manifoldry._core.chunks.MAX_CHUNK_ROWS = 256
model = manifoldry.load(sys.argv[1])
blocks = manifoldry.chunked_data(sys.argv[2])
placed = model.transform(blocks)
usual = placed.place

def slowly(rows, run):
    time.sleep(0.05)
    return usual(rows, run)

placed.place = slowly if "slowly" in sys.argv else usual
placed.save(sys.argv[3], resume=True)
"""


def test_a_killed_process_goes_on(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    manifoldry.PCA(n_components=2).fit(X[:300]).save(tmp_path / "model.mfy")
    arguments = [sys.executable, "-c", PROGRAM, tmp_path / "model.mfy", tmp_path / "x.npy", tmp_path / "out.csv"]
    running = subprocess.Popen([*arguments, "slowly"])
    parts = parts_folder(tmp_path / "out.csv")
    while len(list(parts.glob("0*.npy"))) < 3:
        assert running.poll() is None
        time.sleep(0.005)
    running.kill()
    running.wait()
    assert not (tmp_path / "out.csv").exists()
    subprocess.run(arguments, check=True)
    whole = manifoldry.load(tmp_path / "model.mfy").transform(chunked_data(tmp_path / "x.npy"))
    whole.save(tmp_path / "whole.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not parts.exists()


def test_the_callback_of_the_estimator_hears_how_far_a_file_is(X, tmp_path):
    heard = []
    model = manifoldry.LPP(n_components=2, callback=lambda progress: heard.append(progress)).fit(X[:200])
    heard.clear()
    model.transform(chunked_data(X)).save(tmp_path / "y.npy")
    assert [(step.stage, step.done, step.total) for step in heard] == [
        ("save", min(N, done), N) for done in range(256, N + 256, 256)
    ]
