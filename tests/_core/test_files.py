import os
import subprocess
import sys
from pathlib import Path

import pytest

from manifoldry._core.files import check_not_existing, new_file


def test_a_file_appears_when_the_block_has_ended(tmp_path):
    path = tmp_path / "a.txt"
    with new_file(path) as part:
        part.write_text("all")
        assert not path.exists()
    assert path.read_text() == "all"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_error_leaves_things_as_they_were(tmp_path, overwrite):
    path = tmp_path / "a.txt"
    if overwrite:
        path.write_text("old")

    def write_half():
        with new_file(path, overwrite=overwrite) as part:
            part.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == ({"a.txt": "old"} if overwrite else {})


def test_nothing_is_overwritten_unless_asked_for(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(FileExistsError, match="is not overwritten unless asked for"), new_file(path):
        pytest.fail("the block must not run")
    with new_file(path, overwrite=True) as part:
        part.write_text("new")
    assert path.read_text() == "new"


def test_a_file_that_another_program_makes_meanwhile_is_kept(tmp_path):
    path = tmp_path / "a.txt"

    def write_meanwhile():
        with new_file(path) as part:
            part.write_text("mine")
            path.write_text("theirs")

    with pytest.raises(FileExistsError):
        write_meanwhile()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a.txt": "theirs"}


def test_folders_are_no_files_and_must_exist(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_not_existing(tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match="no folder"), new_file(tmp_path / "missing" / "a.txt"):
        pytest.fail("the block must not run")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_killed_program_leaves_no_file_of_that_name(tmp_path):
    script = f"""
import os, signal
from manifoldry._core.files import new_file
with new_file({str(tmp_path / "a.txt")!r}) as part:
    part.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    left = [Path(name).name for name in os.listdir(tmp_path)]
    assert len(left) == 1
    assert left[0].startswith(".a.txt.")
    assert left[0].endswith(".part")
