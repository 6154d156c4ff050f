"""The real program on real files: standard input and output, a closed pipe, Ctrl-C from outside, and death."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import table as arrow_table

from helpers import DEADLINE
from manifoldry import load

PROGRAM = """
import pathlib, signal, sys
from manifoldry.cli._commands import main
from manifoldry.cli._progress import ProgressReporter
signal.signal(signal.SIGINT, signal.default_int_handler)
ProgressReporter.show = lambda _, progress: pathlib.Path(".layout").touch() if progress.stage == "layout" else None
sys.exit(main({arguments}))
"""
"""The program as the test needs it: it hears Ctrl-C also in the background of a shell, and tells when it iterates."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals to processes")


def start(arguments, folder, **streams):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(arguments=arguments)],
        cwd=folder,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )


def write_rows(path, n):
    X = np.random.default_rng(0).normal(size=(n, 5))
    arrow_csv.write_csv(arrow_table(dict(zip("abcde", X.T, strict=True))), path)


def wait_for(condition, process):
    """Wait until something is so; fail if the process ends before, or the deadline comes."""
    until = time.monotonic() + DEADLINE
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.002)


def check_outputs(folder, n):
    """Read every output that is there: each is whole. Return their names."""
    seen = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if "rows_embedding.csv" in seen:
        lines = (folder / "rows_embedding.csv").read_text().splitlines()
        assert len(lines) == n + 1
        assert all(line.count(",") == 2 for line in lines)
    if "rows_model.mfy" in seen:
        assert len(load(folder / "rows_model.mfy").embedding_) == n
    if "rows_report.html" in seen:
        assert (folder / "rows_report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    if "rows_run.json" in seen:
        assert json.loads((folder / "rows_run.json").read_text())["coordinates"]["rows"] == n
    return seen


@pytest.mark.parametrize(("n", "count"), [(200_000, 2), (400, 3), (400, 5)])
def test_a_killed_program_leaves_no_broken_output(n, count, tmp_path):
    """Killed as soon as the folder has so many entries: a file that is being written is one of them."""
    write_rows(tmp_path / "rows.csv", n)
    process = start(["embed", "rows.csv", "--method", "pca"], tmp_path)
    wait_for(lambda: len(list(tmp_path.iterdir())) >= count, process)
    process.kill()
    process.communicate()
    seen = check_outputs(tmp_path, n)
    assert count - 1 <= len(seen) <= 5


def test_ctrl_c_from_outside_ends_a_fit_with_what_it_has(tmp_path):
    write_rows(tmp_path / "rows.csv", 300)
    arguments = ["embed", "rows.csv", "--method", "umap", "--n-epochs", "10000000", "--no-report", "--json"]
    process = start(arguments, tmp_path)
    wait_for((tmp_path / ".layout").exists, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out)["stopped"] is True
    assert check_outputs(tmp_path, 300) == ["rows.csv", "rows_embedding.csv", "rows_model.mfy", "rows_run.json"]


def test_rows_come_from_standard_input_and_places_go_to_standard_output(tmp_path):
    write_rows(tmp_path / "rows.csv", 40)
    with (tmp_path / "rows.csv").open("rb") as rows:
        arguments = ["embed", "-", "--method", "pca", "--output", "-", "--no-model", "--no-report", "--quiet"]
        process = start(arguments, tmp_path, stdin=rows)
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (0, b"")
    assert len(out.splitlines()) == 41
    assert json.loads((tmp_path / "stdin_run.json").read_text())["source"]["kind"] == "standard input"


def test_a_closed_pipe_ends_the_program_in_silence(tmp_path):
    write_rows(tmp_path / "rows.csv", 40)
    reader, writer = os.pipe()
    os.close(reader)
    process = start(["embed", "rows.csv", "--method", "pca", "--output", "-"], tmp_path, stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (128 + signal.SIGPIPE, b"")
    assert check_outputs(tmp_path, 40) == ["rows.csv"]
