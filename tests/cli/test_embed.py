"""`manifoldry embed` from a file to its four outputs; what is refused before any work, and what Ctrl-C leaves."""

import csv
import json
import signal

import numpy as np
import pytest

from manifoldry import load
from manifoldry.cli._commands import main
from manifoldry.cli._flow import embed as embedding_flow
from manifoldry.cli._flow import results
from manifoldry.cli._progress import ProgressReporter

OUTPUTS = ("flowers_embedding.csv", "flowers_model.mfy", "flowers_report.html", "flowers_run.json")


@pytest.fixture
def flowers(tmp_path, monkeypatch):
    """A file of 60 rows in three groups, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) + 6 * (np.arange(60) % 3)[:, None] * np.array([1, 0, 1, 0])
    lines = ["name,a,b,c,d,kind"]
    lines += [f"r{i}," + ",".join(f"{x:.4f}" for x in row) + f",k{i % 3}" for i, row in enumerate(X)]
    (tmp_path / "flowers.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def read_csv(path):
    with path.open(newline="") as file:
        head, *rows = csv.reader(file)
    return head, [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=float)


def test_without_a_single_option_all_four_outputs_come_of_the_best_method(flowers, capsys):
    assert main(["embed", "flowers.csv"]) == 0
    head, ids, Y = read_csv(flowers / OUTPUTS[0])
    assert head[0] == "name"
    assert ids == [f"r{i}" for i in range(60)]
    record = json.loads((flowers / OUTPUTS[3]).read_text())
    model = load(flowers / OUTPUTS[1])
    assert type(model).__name__ == record["method"] == record["choice"]["ranking"][0]["method"]
    np.testing.assert_array_equal(model.embedding_, Y)
    page = (flowers / OUTPUTS[2]).read_text(encoding="utf-8")
    for entry in record["choice"]["ranking"]:
        assert f'"{entry["method"]}"' in page  # a panel of each
    said = capsys.readouterr().out
    assert said.startswith(f"{record['method']} embedded flowers.csv (60 rows, 4 columns) in 2 dimensions")
    assert "trustworthiness" in said
    assert [line.split()[1] for line in said.splitlines()[-4:]] == list(OUTPUTS)


def test_the_record_says_what_was_done(flowers):
    arguments = ["embed", "flowers.csv", "--method", "isomap", "--n-neighbors", "8", "--label", "kind", "--seed", "3"]
    assert main([*arguments, "--scale", "standard", "--quiet"]) == 0
    record = json.loads((flowers / "flowers_run.json").read_text())
    assert record["command"] == ["manifoldry", *arguments, "--scale", "standard", "--quiet"]
    assert (record["source"]["rows"], record["source"]["columns"]) == (60, 4)
    assert record["reading"]["label"] == "kind"
    assert record["preparation"] == {"scale": "standard", "pca": None}
    assert (record["method"], record["seed"]) == ("Isomap", 3)
    assert (record["parameters"]["n_neighbors"], record["parameters"]["random_state"]) == (8, 3)
    assert {"manifoldry", "python", "numpy", "scipy", "scikit-learn", "numba"} == set(record["versions"])
    assert {"read", "prepare", "fit", "write", "save", "evaluate", "report"} == set(record["seconds"])
    figures = record["quality"]["figures"]
    assert set(figures) == {"trustworthiness", "continuity", "knn_kept", "distance_deviation"}
    assert 0 < figures["knn_kept"]["pca"] < 1
    assert set(record["outputs"]) == {"coordinates", "model", "report"}


def test_json_is_alone_on_standard_output(flowers, capsys):
    assert main(["embed", "flowers.csv", "--method", "pca", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["outputs"]["record"] == {"path": "flowers_run.json"}


def test_outputs_can_be_named_left_out_and_put_into_a_folder(flowers, capsys):
    (flowers / "out").mkdir()
    assert main(["embed", "flowers.csv", "--method", "PCA", "-o", "y.npy", "--no-report", "--folder", "out"]) == 0
    assert np.load("y.npy").shape == (60, 2)
    assert sorted(path.name for path in flowers.rglob("*.*")) == [
        "flowers.csv",
        "flowers_model.mfy",
        "flowers_run.json",
        "y.npy",
    ]
    assert main(["embed", "flowers.csv", "--method", "PCA", "--model", "m.mfy", "--no-model"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_coordinates_go_to_standard_output_and_the_summary_elsewhere(flowers, capsysbinary):
    rest = ["--no-model", "--no-report", "--no-record"]
    assert main(["embed", "flowers.csv", "--method", "pca", "--output", "-", *rest]) == 0
    out, err = capsysbinary.readouterr()
    assert len(out.splitlines()) == 61
    assert err.startswith(b"PCA embedded flowers.csv")


@pytest.mark.parametrize("existing", OUTPUTS)
def test_an_existing_output_is_refused_before_any_work(existing, flowers, monkeypatch, capsys):
    (flowers / existing).write_text("mine")
    monkeypatch.setattr(embedding_flow, "read_table", lambda *_: pytest.fail("the source was read"))
    assert main(["embed", "flowers.csv", "--method", "pca"]) == 2
    assert f"'{existing}' exists" in capsys.readouterr().err
    assert (flowers / existing).read_text() == "mine"
    assert len(list(flowers.iterdir())) == 2


def test_force_replaces_what_exists(flowers):
    for name in OUTPUTS:
        (flowers / name).write_text("old")
    assert main(["embed", "flowers.csv", "--method", "pca", "--force", "-q"]) == 0
    assert all((flowers / name).read_bytes() != b"old" for name in OUTPUTS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "isomp"], "did you mean Isomap?"),
        (["--method", "k-means"], "is a clustering"),
        (["--method", "isomap", "--n-neighors", "8"], "did you mean --n-neighbors?"),
        (["--method", "isomap", "--n-neighbors", "0"], "--n-neighbors must be"),
        (["--method", "pca", "--output", "y.xlsx"], "files that end with"),
        (["--method", "pca", "--output", "y.h5ad"], "copy of the .h5ad file"),
        (["--method", "pca", "--output", "no/y.csv"], "There is no folder 'no'"),
        (["--method", "pca", "--output", "flowers.csv", "--force"], "is the source"),
        (["--method", "pca", "--output", "a.csv", "--model", "a.csv"], "cannot both be written"),
        (["--method", "pca", "--output", "-", "--json"], "cannot both go to standard output"),
        (["--method", "pca", "--label", "knd"], "There is no column 'knd'"),
        (["--purpose", "features-for-a-classifier"], "name its column with --label"),
        (["--method", "lle", "--target-weight", "0.5"], "name their column with --label"),
        (["--method", "pca", "--purpose", "see clusters"], "--purpose needs --method auto"),
        (["--method", "pca", "--n-components", "9"], "--n-components"),
    ],
)
def test_what_is_asked_wrongly_gets_a_sentence_and_leaves_nothing(arguments, said, flowers, capsys):
    assert main(["embed", "flowers.csv", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err
    assert [path.name for path in flowers.iterdir()] == ["flowers.csv"]


def test_missing_values_are_refused_with_counts_or_imputed(flowers, capsys):
    text = (flowers / "flowers.csv").read_text().splitlines()
    text[5] = "r4,,1,2,3,k1"
    (flowers / "gaps.csv").write_text("\n".join(text))
    assert main(["embed", "gaps.csv", "--method", "pca"]) == 2
    assert "1 row of 60 has missing values, in column a (1)" in capsys.readouterr().err
    assert main(["embed", "gaps.csv", "--method", "pca", "--missing", "impute", "-q"]) == 0
    model = load(flowers / "gaps_model.mfy")
    assert [name for name, _ in model.steps] == ["impute", "embedding"]


def test_missing_values_are_kept_for_a_method_that_takes_them(flowers, capsys):
    text = (flowers / "flowers.csv").read_text().splitlines()
    text[5], text[9] = "r4,,1,2,3,k1", "r8,1,2,,NA,k2"
    (flowers / "gaps.csv").write_text("\n".join(text))
    arguments = ["embed", "gaps.csv", "--method", "probabilisticpca", "--scale", "standard", "--missing", "keep"]
    assert main(arguments) == 0
    said = " ".join(capsys.readouterr().out.split())  # lines break where the width of the terminal says
    assert "2 rows of 60 have missing values" in said
    assert "kept for the method" in said
    _, _, places = read_csv(flowers / "gaps_embedding.csv")
    assert np.isfinite(places).all()
    assert load(flowers / "gaps_model.mfy")[-1].diagnostics_["missing"] == 3 / 240
    assert main(["transform", "gaps_model.mfy", "gaps.csv", "-o", "again.csv", "-q"]) == 0
    np.testing.assert_allclose(read_csv(flowers / "again.csv")[2], places, atol=1e-12)
    assert main(["rerun", "gaps_run.json", "-q"]) == 0
    capsys.readouterr()
    for more, refused in (
        (["--method", "pca"], "PCA needs complete rows"),
        (["--method", "auto"], "a comparison needs complete rows"),
        (["--pca", "2"], "--pca needs complete rows"),
        (["--chunked"], "table in memory"),
    ):
        assert main([*arguments, "--force", *more]) == 2
        assert refused in capsys.readouterr().err


def test_the_same_seed_gives_the_same_bytes(flowers):
    for name in ("one", "two"):
        arguments = ["--method", "t-sne", "--seed", "5", "--no-report", "--no-record", "-q"]
        assert main(["embed", "flowers.csv", *arguments, "-o", f"{name}.csv", "--model", f"{name}.mfy"]) == 0
    assert (flowers / "one.csv").read_bytes() == (flowers / "two.csv").read_bytes()


@pytest.fixture
def _hears_ctrl_c():
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("_hears_ctrl_c")
def test_ctrl_c_in_a_fit_keeps_the_layout_reached(flowers, monkeypatch, capsys):
    pressed = []

    def press(_, progress):
        if progress.stage == "descent" and progress.done == 9 and not pressed:
            pressed.append(progress)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressReporter, "show", press)
    assert main(["embed", "flowers.csv", "--method", "symmetric-sne", "--no-report"]) == 0
    assert "Interrupted in the stage 'descent'" in capsys.readouterr().out
    record = json.loads((flowers / "flowers_run.json").read_text())
    assert record["stopped"] is True
    assert main(["rerun", "flowers_run.json"]) == 2
    assert "stopped by Ctrl-C" in capsys.readouterr().err


@pytest.mark.usefixtures("_hears_ctrl_c")
def test_ctrl_c_in_a_comparison_takes_the_best_of_those_done(flowers, monkeypatch):
    def press(_, progress):
        if progress.stage == "compare" and progress.done == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressReporter, "show", press)
    assert main(["embed", "flowers.csv", "--purpose", "keep distances", "--no-report", "-q"]) == 0
    choice = json.loads((flowers / "flowers_run.json").read_text())["choice"]
    assert {entry["method"] for entry in choice["ranking"]} == {"PCA", "IPA"}
    assert choice["skipped"]["LTSA"] == "the fit was asked to stop"


def test_ctrl_c_after_the_fit_keeps_what_is_written(flowers, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "evaluate", interrupt)
    assert main(["embed", "flowers.csv", "--method", "pca"]) == 130
    said = "Interrupted. Written: flowers_embedding.csv, flowers_model.mfy; not written: flowers_report.html, "
    assert capsys.readouterr().err == f"manifoldry: {said}flowers_run.json.\n"
    assert len(load(flowers / "flowers_model.mfy").embedding_) == 60


def test_an_order_along_a_path_has_one_coordinate(flowers):
    assert main(["embed", "flowers.csv", "--purpose", "order along a path", "--no-report", "-q"]) == 0
    assert read_csv(flowers / OUTPUTS[0])[2].shape == (60, 1)


def test_labels_steer_the_fit_only_where_a_weight_is_given(flowers):
    places = []
    for weight in ([], ["--target-weight", "0"], ["--target-weight", "0.9"]):
        arguments = ["embed", "flowers.csv", "--method", "isomap", "--label", "kind", "--no-report", "-q", "--force"]
        assert main([*arguments, *weight]) == 0
        places.append(read_csv(flowers / OUTPUTS[0])[2])
    assert np.array_equal(places[0], places[1])
    assert not np.allclose(places[0], places[2])


def test_a_method_of_targets_takes_the_labels_or_says_that_it_lacks_them(flowers, capsys):
    arguments = ["embed", "flowers.csv", "--method", "coloredmvu", "--n-neighbors", "5", "--no-report", "--force"]
    label = ["--label", "kind"]
    for more, known in ((label, 60), ([*label, "--target-weight", "0"], 0), ([], 0)):
        assert main([*arguments, *more]) == 0
        record = json.loads((flowers / "flowers_run.json").read_text())
        assert record["resolved"]["n_known"] == known
        said = " ".join(capsys.readouterr().out.split())
        assert ("No target is known, so the variance was maximized, as by MVU. -> name" in said) == (not more)
