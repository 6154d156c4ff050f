"""Claims are judged as their rules say, and a summary keeps what was not run again."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "experiments"


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("harness")


@pytest.fixture
def run(harness):
    return importlib.import_module("run")


def rows(text):
    """Return the cells of every row of the tables in a text, without heads and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| [")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_numbers_may_miss_the_source_by_the_stated_share(harness):
    # 3 % of 2 is 0.06, whatever the sign of the source.
    for source, enough, short in ((2.0, 1.941, 1.939), (-2.0, -2.059, -2.061)):
        assert harness.at_least(source).holds(enough)
        assert not harness.at_least(source).holds(short)
        assert harness.at_most(-source).holds(-enough)
        assert not harness.at_most(-source).holds(-short)
    assert not harness.at_least(1, within=0).holds(0.999)


def test_words_of_the_source_are_shown_with_our_reading_of_them(harness):
    assert harness.at_least(0.5, said="the majority").source == "the majority (at least 0.5)"
    assert harness.at_most(1 / 3, said="less than a third").source == "less than a third (at most 0.3333)"
    assert harness.at_most(0.9045).source == "0.9045"


def test_order_is_that_of_the_source(harness):
    rule = harness.in_order({"b": 2.0, "a": 1.0, "c": 3.0})
    assert rule.source == "a 1, b 2, c 3"
    assert rule.holds({"a": 10, "b": 10, "c": 11})
    assert not rule.holds({"a": 10, "b": 9, "c": 11})
    assert not rule.holds({"a": 10, "b": 10.05, "c": 9.8})
    # Up to 1 % apart is level, in our numbers and in those of the source.
    assert rule.holds({"a": 10.05, "b": 10, "c": 11})
    assert harness.in_order({"a": 51.2, "b": 51.4}).holds({"a": 3, "b": 2})
    with pytest.raises(ValueError, match="ranks b, a, c; got numbers of a"):
        rule.holds({"a": 1})


def test_sequences_rise_and_fall(harness):
    assert harness.rising().holds([1, 1, 2])
    assert not harness.rising().holds([1, 2, 1])
    assert harness.falling().holds([2, 1, 1])
    assert not harness.falling().holds([2, 1, 2])
    assert harness.equals(0).holds(0)
    assert not harness.equals(0).holds(1)


def test_values_are_shown_with_four_figures(harness):
    assert harness.shown(0.0123456) == "0.01235"
    assert harness.shown(20_000) == "20000"
    assert harness.shown([1, 0.5]) == "1 0.5"
    assert harness.shown("yes") == "yes"
    assert harness.shown({"x": 2, "y": 1.5}) == "y 1.5, x 2"


def test_an_unmet_claim_differs_with_a_reason_and_fails_without(harness):
    def body(lab):
        lab.claim("met", 1.0, harness.at_least(1.0), reason="never shown")
        lab.claim("explained", 0.5, harness.at_least(1.0), reason="other data")
        lab.claim("not explained", 0.5, harness.at_least(1.0))

    outcome = harness.experiment("Three", source="x")(body).run()
    V = harness.Verdict
    assert [claim.verdict for claim in outcome.claims] == [V.PASS, V.DIFFERS, V.FAIL]
    assert [claim.reason for claim in outcome.claims] == ["", "other data", ""]
    assert outcome.failed
    assert "  differs explained: source 1; ours 0.5 because other data" in list(outcome.lines())


def test_an_experiment_without_its_data_is_left_out(harness, monkeypatch, tmp_path):
    monkeypatch.setenv("MANIFOLDRY_DATA", str(tmp_path))

    def body(lab):
        pytest.fail("it ran")

    outcome = harness.experiment("Absent", source="x", needs=("no_such_set", "iris"))(body).run()
    assert outcome.left_out == "needs no_such_set.npz in the folder named by MANIFOLDRY_DATA"
    assert not outcome.failed
    assert outcome.claims == ()


def test_an_error_fails_the_experiment_and_keeps_what_it_had_claimed(harness):
    def body(lab):
        lab.claim("first", 1, harness.equals(1))
        raise KeyError("lost")

    outcome = harness.experiment("Broken", source="x")(body).run()
    assert [claim.verdict.value for claim in outcome.claims] == ["pass", "fail"]
    assert "lost" in outcome.claims[1].ours
    assert outcome.failed


def test_a_quick_lab_takes_few_starts(harness):
    assert harness.Lab("x").starts == 100
    assert harness.Lab("x", quick=True).starts < 100
    assert harness.Lab("x", quick=True).pick("full", "quick") == "quick"


def test_figures_are_saved_under_the_name_of_the_experiment(harness, tmp_path):
    lab = harness.Lab("shape", folder=tmp_path / "new")
    with lab.figure("part") as figure, lab.time("drawing"):
        figure.subplots().plot([0, 1])
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["shape-part.png"]
    assert lab.seconds["drawing"] > 0
    assert lab.core_seconds["drawing"] > 0


def test_the_summary_has_a_row_per_experiment_and_per_claim(harness, run):
    def wine_type(lab):
        lab.claim("a | b", 0.5, harness.at_least(1.0), reason="two\nlines")
        lab.note("A note.")

    one = harness.experiment("Wine", source="x, Table 1")(wine_type)
    text = run.summary([one.run()])
    of_experiment, of_claim = rows(text)
    assert of_experiment[:3] == ["[wine_type](wine_type.py)", "Wine", "x, Table 1"]
    assert of_experiment[4:] == ["0", "1", "0", "A note."]
    assert of_claim == ["[wine_type](wine_type.py)", "a / b", "1", "0.5", "differs", "two lines"]


def test_the_summary_keeps_rows_of_experiments_not_run_again(harness, run):
    def twin_peaks(lab):
        lab.claim("old", 1, harness.equals(1))

    def wine_type(lab):
        lab.claim("z", 1, harness.equals(1))
        lab.claim("a", 1, harness.equals(1))

    def no_such_file(lab):
        lab.claim("gone", 1, harness.equals(1))

    made = [harness.experiment("T", source="x")(body) for body in (wine_type, twin_peaks, no_such_file)]
    before = run.summary([one.run() for one in made])
    wine = made[0].run()
    text = run.summary([wine], before)
    assert run.summary([wine], text) == text
    # Experiments in the order of their names, claims in the order they were made, nothing of a file that is gone.
    assert [row[1] for row in rows(text)] == ["T", "T", "old", "z", "a"]


def test_experiments_are_found_by_the_names_of_their_files(harness, run):
    found = run.experiments()
    assert {"wine_type", "wave_and_spiral", "three_digits"} <= set(found)
    assert not {"harness", "run", "clusterings"} & set(found)
    keys = re.findall(r"^@\w+\{(.+),$", (ROOT / "references.bib").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for name, one in found.items():
        assert one.name == name
        assert one.source.split(",")[0] in keys


def test_names_choose_experiments_and_unknown_ones_are_refused(harness, run):
    assert [one.name for one in run.chosen(["wine_type"], quick=False)] == ["wine_type"]
    assert all(one.quick for one in run.chosen([], quick=True))
    with pytest.raises(SystemExit, match="no experiment wine_typo; there are"):
        run.chosen(["wine_typo"], quick=False)


def test_the_command_line_lists_experiments():
    command = [sys.executable, str(FOLDER / "run.py"), "wine_type", "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert re.fullmatch(r"wine_type +Wine type .*\(khajehpour2013, Table 4\.1\)\n", done.stdout)


def test_the_committed_summary_covers_every_experiment_and_nothing_failed(run):
    text = (FOLDER / "summary.md").read_text(encoding="utf-8")
    assert {run._name(line) for line in text.splitlines() if line.startswith("| [")} == set(run.experiments())
    assert "| fail |" not in text.partition("## Claims")[2].partition("\n|---")[2]
