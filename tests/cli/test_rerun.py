"""`manifoldry rerun`: the same bits again, or what has changed; and what no record is."""

import json

import numpy as np
import pytest

from manifoldry.cli._commands import main
from manifoldry.cli._flow import results as records


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run on 60 rows with its record."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(60, 4))
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b,c,d", comments="")
    arguments = ["--method", "umap", "--n-epochs", "30", "--drop", "b", "--scale", "robust", "--seed", "7"]
    assert main(["embed", "rows.csv", *arguments, "--no-report", "-q"]) == 0
    return tmp_path


def change(path, **fields):
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, **fields}))


def test_the_same_bits_come_again(folder, capsys):
    assert main(["rerun", "rows_run.json"]) == 0
    assert (
        capsys.readouterr().out
        == "rows_embedding_rerun.csv: the coordinates are bit-identical to those of the record.\n"
    )
    assert (folder / "rows_embedding_rerun.csv").read_bytes() == (folder / "rows_embedding.csv").read_bytes()
    assert main(["rerun", "rows_run.json"]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["rerun", "rows_run.json", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is True


@pytest.mark.parametrize(
    ("arguments", "targets"),
    [
        (["umap", "--n-epochs", "20", "--label", "b"], False),
        (["umap", "--n-epochs", "20", "--label", "b", "--target-weight", "0.7"], True),
        (["lpp", "--target-weight", "0.5", "--label", "b"], True),
        (["coloredmvu", "--label", "b"], True),
        (["coloredmvu"], False),
    ],
)
def test_labels_are_targets_again_where_they_were(folder, arguments, targets):
    rows = np.random.default_rng(1).normal(size=(60, 4))
    rows[:, 1] = np.arange(60) % 2
    np.savetxt("rows.csv", rows, delimiter=",", header="a,b,c,d", comments="", fmt="%.6f")
    options = ["--n-neighbors", "6", "--no-report", "-q", "--force"]
    assert main(["embed", "rows.csv", "--method", *arguments, *options]) == 0
    assert json.loads((folder / "rows_run.json").read_text())["targets"] is targets
    assert main(["rerun", "rows_run.json"]) == 0


def test_a_choice_is_repeated_as_the_method_that_was_chosen(folder, capsys):
    purpose = "order along a path"
    assert main(["embed", "rows.csv", "--purpose", purpose, "--no-report", "-q", "--force"]) == 0
    assert json.loads((folder / "rows_run.json").read_text())["choice"]["purpose"] == purpose
    assert main(["rerun", "rows_run.json"]) == 0


def test_other_bits_give_code_1_and_what_has_changed(folder, capsys):
    found = json.loads((folder / "rows_run.json").read_text())
    change(
        folder / "rows_run.json",
        parameters={**found["parameters"], "n_epochs": 31},
        versions={**found["versions"], "numpy": "1.0"},
    )
    assert main(["rerun", "rows_run.json"]) == 1
    said = capsys.readouterr().out
    assert f"differ from those of the record; changed since: numpy 1.0, now {np.__version__}" in said


def test_a_changed_source_is_refused_unless_asked_for(folder, capsys):
    rows = (folder / "rows.csv").read_text().splitlines()
    (folder / "rows.csv").write_text("\n".join(rows[:-1]))
    assert main(["rerun", "rows_run.json"]) == 2
    assert "SHA-256" in capsys.readouterr().err
    assert not (folder / "rows_embedding_rerun.csv").exists()
    assert main(["rerun", "rows_run.json", "--any-source"]) == 1
    assert "changed since: the source" in capsys.readouterr().out


def test_a_source_beside_the_record_is_found_and_one_that_is_gone_is_told(folder, monkeypatch, capsys):
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert main(["rerun", "../rows_run.json"]) == 0
    (folder / "rows.csv").unlink()
    assert main(["rerun", "../rows_run.json", "--force"]) == 2
    assert "neither at this path nor in the folder of the record" in capsys.readouterr().err


def test_standard_output_is_no_place_to_compare(folder, capsys):
    assert main(["rerun", "rows_run.json", "--output", "-"]) == 2
    assert "name a file with --output" in capsys.readouterr().err


def test_standard_input_cannot_be_read_again(folder, capsys):
    found = json.loads((folder / "rows_run.json").read_text())
    change(folder / "rows_run.json", source={**found["source"], "name": "-", "kind": "standard input"})
    assert main(["rerun", "rows_run.json"]) == 2
    assert "standard input, which was not saved" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "it is not JSON"),
        ("[1, 2]", "is not a run record"),
        ('{"format": "manifoldry run record", "version": 99}', "has version 99"),
        ('{"format": "manifoldry run record", "version": 1}', "its field 'source' is missing or damaged"),
        ("[" * 100_000, "it is not JSON"),
    ],
    ids=["csv", "list", "newer", "empty", "deep"],
)
def test_what_is_no_record_gets_a_sentence(text, said, tmp_path, capsys):
    (tmp_path / "r.json").write_text(text)
    assert main(["rerun", str(tmp_path / "r.json")]) == 2
    assert said in capsys.readouterr().err


def test_a_damaged_field_is_named(folder, capsys):
    found = json.loads((folder / "rows_run.json").read_text())
    for field in (name for names in records.NEEDED_FIELDS.values() for name in names):
        outer, _, inner = field.partition(".")
        damaged = {**found[outer], inner: None} if inner else None
        (folder / "damaged.json").write_text(json.dumps({**found, outer: damaged}))
        assert main(["rerun", "damaged.json"]) == 2
        assert f"its field {field!r} is missing or damaged" in capsys.readouterr().err


def test_the_digest_of_a_folder_follows_names_and_contents(tmp_path):
    (tmp_path / "a.png").write_bytes(b"1")
    first = records.file_digest(tmp_path)
    assert records.file_digest(tmp_path) == first
    (tmp_path / "a.png").rename(tmp_path / "b.png")
    second = records.file_digest(tmp_path)
    (tmp_path / "b.png").write_bytes(b"2")
    assert len({first, second, records.file_digest(tmp_path)}) == 3
