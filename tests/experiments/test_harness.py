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
def rules(harness):
    return importlib.import_module("rules")


@pytest.fixture
def summary(harness):
    return importlib.import_module("summary")


@pytest.fixture
def run(harness):
    return importlib.import_module("run")


def rows(text):
    """Return the cells of every row of the tables in a text, without heads and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| [")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_numbers_may_miss_the_source_by_the_stated_share(rules):
    # 3 % of 2 is 0.06, whatever the sign of the source.
    for source, enough, short in ((2.0, 1.941, 1.939), (-2.0, -2.059, -2.061)):
        assert rules.at_least(source).holds(enough)
        assert not rules.at_least(source).holds(short)
        assert rules.at_most(-source).holds(-enough)
        assert not rules.at_most(-source).holds(-short)
    assert not rules.at_least(1, within=0).holds(0.999)
    assert [rules.about(2.0).holds(ours) for ours in (1.93, 1.95, 2.05, 2.07)] == [False, True, True, False]


def test_limits_of_our_own_allow_no_miss(rules):
    for rule in (rules.no_less(2.0), rules.at_least(2.0, "many")):
        assert rule.holds(2.0)
        assert not rule.holds(1.999)
    for rule in (rules.no_more(2.0), rules.at_most(2.0, "few")):
        assert rule.holds(2.0)
        assert not rule.holds(2.001)


def test_the_source_and_what_we_ask_are_told_apart(rules):
    assert rules.at_least(0.5, "the majority")[:2] == ("the majority", "at least 0.5")
    assert rules.at_most(1 / 3, "less than a third")[:2] == ("less than a third", "at most 0.3333")
    assert rules.at_most(0.9045)[:2] == ("0.9045", "at most 0.9316")
    assert rules.about(2.0)[:2] == ("2", "1.94 to 2.06")
    assert rules.equals(4)[:2] == ("4", "exactly 4")


def test_order_is_that_of_the_source(rules):
    rule = rules.in_order({"b": 2.0, "a": 1.0, "c": 3.0})
    assert rule.source == "a 1, b 2, c 3"
    assert rule.holds({"a": 10, "b": 10, "c": 11})
    assert not rule.holds({"a": 10, "b": 9, "c": 11})
    assert not rule.holds({"a": 10, "b": 10.05, "c": 9.8})
    # Up to 1 % apart is level, in our numbers and in those of the source.
    assert rule.holds({"a": 10.05, "b": 10, "c": 11})
    assert rules.in_order({"a": 51.2, "b": 51.4, "c": 60}).holds({"a": 3, "b": 2, "c": 3})
    with pytest.raises(ValueError, match="ranks b, a, c; got numbers of a"):
        rule.holds({"a": 1})
    with pytest.raises(ValueError, match=r"a 51\.2, b 51\.4 rank level: no order of ours could fail"):
        rules.in_order({"a": 51.2, "b": 51.4})


def test_the_best_of_all_is_the_named_one(rules):
    assert rules.least("a", "a is lowest").holds({"a": 1, "b": 1})
    assert not rules.least("a", "a is lowest").holds({"a": 1.001, "b": 1})
    assert rules.greatest("a", "a is highest").holds({"a": 1, "b": 1})
    assert not rules.greatest("a", "a is highest").holds({"a": 0.999, "b": 1})


def test_sequences_rise_and_fall(rules):
    assert rules.rising().holds([1, 1, 2])
    assert not rules.rising().holds([1, 2, 1])
    assert rules.falling().holds([2, 1, 1])
    assert not rules.falling().holds([2, 1, 2])
    assert rules.equals(0).holds(0)
    assert not rules.equals(0).holds(1)


def test_values_are_shown_with_four_figures(rules):
    assert rules.shown(0.0123456) == "0.01235"
    assert rules.shown(20_000) == "20000"
    assert rules.shown([1, 0.5]) == "1 0.5"
    assert rules.shown("yes") == "yes"
    assert rules.shown({"x": 2, "y": 1.5}) == "y 1.5, x 2"


def judged(harness, body):
    """Return the claims that a body makes, by what they are of."""
    outcome = harness.experiment("One", source="x")(body).run()
    assert not outcome.error
    return {claim.what: claim for claim in outcome.claims}


def test_an_unmet_claim_differs_only_if_its_reason_is_found_true(harness, rules):
    tested = []

    def reason(value):
        def measure():
            tested.append(value)
            return value

        return harness.Reason("other data", measure, rules.no_more(1.0))

    def body(lab):
        lab.claim("met", 1.0, rules.at_least(1.0), reason=reason(0.1))
        lab.claim("explained", 0.5, rules.at_least(1.0), reason=reason(0.2))
        lab.claim("wrongly explained", 0.5, rules.at_least(1.0), reason=reason(1.5))
        lab.claim("not explained", 0.5, rules.at_least(1.0))

    found = judged(harness, body)
    V = harness.Verdict
    assert [claim.verdict for claim in found.values()] == [V.PASS, V.DIFFERS, V.FAIL, V.FAIL]
    assert [claim.reason for claim in found.values()] == [
        "",
        "other data: 0.2, needed at most 1",
        "not because other data: 1.5, needed at most 1",
        "",
    ]
    # What is met needs no reason, and pays for no test of it.
    assert tested == [0.2, 1.5]


def test_a_reason_is_not_words_alone(harness, rules):
    def body(lab):
        lab.claim("explained", 0.5, rules.at_least(1.0), reason="other data")

    assert harness.experiment("One", source="x")(body).run().error


def test_a_fitted_claim_says_with_how_many_seeds_it_holds(harness, rules):
    def body(lab):
        lab.claim("stated", lab.seed, rules.at_most(0.0, "none"))
        with lab.fitted("of ten seeds this one"):
            lab.claim("often", lab.seed, rules.at_most(2.0, "few"))
            lab.claim("never", 5, rules.at_most(2.0, "few"))

    outcome = harness.experiment("One", source="x", seeds=5)(body).run()
    assert [(claim.verdict.value, claim.reason) for claim in outcome.claims] == [
        ("pass", ""),
        ("fitted", "holds with 3 of 5 seeds"),
        ("fail", ""),
    ]
    quick = harness.experiment("One", source="x", seeds=5)(body).run(quick=True)
    assert [claim.reason for claim in quick.claims] == ["", "", ""]


def test_what_could_not_but_hold_fails(harness, rules):
    def body(lab):
        with lab.fitted("of twenty scalings this one", no_evidence="one of twenty scalings"):
            lab.claim("met", 1.0, rules.at_least(1.0))
        lab.claim("after", 1.0, rules.at_least(1.0))

    claims = harness.experiment("One", source="x")(body).run().claims
    assert [(claim.verdict.value, claim.reason) for claim in claims] == [
        ("fail", "one of twenty scalings"),
        ("pass", ""),
    ]


def test_what_holds_with_chosen_settings_is_fitted(harness, rules):
    def body(lab):
        lab.claim("before", 1.0, rules.at_least(1.0))
        with lab.fitted("of ten scalings this one"):
            lab.claim("met", 1.0, rules.at_least(1.0))
            lab.claim("missed", 0.5, rules.at_least(1.0))
            lab.target("ours", 1.0, rules.no_less(1.0))
        lab.claim("after", 1.0, rules.at_least(1.0))

    outcome = harness.experiment("One", source="x")(body).run()
    verdicts = {claim.what: claim.verdict.value for claim in outcome.claims}
    assert verdicts == {"before": "pass", "met": "fitted", "missed": "fail", "ours": "pass", "after": "pass"}
    assert outcome.notes == ("Fitted: of ten scalings this one.",)


def test_targets_of_our_own_have_no_source(harness, rules):
    def body(lab):
        lab.target("quick", 3.0, rules.no_more(2.0))
        lab.claim("said", 0.5, rules.at_least(0.4, "some"))

    quick, said = judged(harness, body).values()
    assert (quick.source, quick.target, quick.verdict.value) == (None, "at most 2", "fail")
    assert (said.source, said.target, said.verdict.value) == ("some", "at least 0.4", "pass")


def test_an_experiment_without_its_data_is_left_out(harness, monkeypatch, tmp_path):
    monkeypatch.setenv("MANIFOLDRY_DATA", str(tmp_path))

    def body(lab):
        pytest.fail("it ran")

    outcome = harness.experiment("Absent", source="x", needs=("no_such_set", "iris"))(body).run()
    assert outcome.left_out == "needs no_such_set.npz in the folder named by MANIFOLDRY_DATA"
    assert not outcome.error
    assert outcome.claims == ()


def test_an_error_fails_the_experiment_and_keeps_what_it_had_claimed(harness, rules):
    def body(lab):
        lab.claim("first", 1, rules.equals(1))
        raise KeyError("lost")

    outcome = harness.experiment("Broken", source="x")(body).run()
    assert [claim.verdict.value for claim in outcome.claims] == ["pass", "fail"]
    assert "lost" in outcome.claims[1].ours
    assert "lost" in outcome.error


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


def test_the_summary_has_a_row_per_experiment_and_per_claim(harness, rules, summary):
    def wine_type(lab):
        lab.claim("a | b", 0.5, rules.at_least(1.0), reason=harness.Reason("two\nlines", lambda: 1, rules.equals(1)))
        lab.claim("c", 1.0, rules.at_least(1.0))
        lab.target("d", 1.0, rules.no_less(1.0))
        lab.note("A note.")

    one = harness.experiment("Wine", source="x, Table 1")(wine_type)
    text = summary.page([one.run()])
    of_experiment, *of_claims = rows(text)
    assert of_experiment[:3] == ["[wine_type](wine_type.py)", "Wine", "x, Table 1"]
    assert of_experiment[4:] == ["1", "0", "1", "0", "1 of 1", "A note."]
    assert of_claims == [
        [
            "[wine_type](wine_type.py)",
            "a / b",
            "1",
            "at least 0.97",
            "0.5",
            "differs",
            "two lines: 1, needed exactly 1",
        ],
        ["[wine_type](wine_type.py)", "c", "1", "at least 0.97", "1", "pass", ""],
        ["[wine_type](wine_type.py)", "d", "(our own target)", "at least 1", "1", "pass", ""],
    ]
    head = "**Claims stated by the source: 2: pass 1, fitted 0, differs 1, fail 0.** Targets of our own: 1, met 1."
    assert head in text.splitlines()
    assert summary.claims_of(text)["wine_type", "c"]["verdict"] == "pass"
    assert summary.seconds_of(text)["wine_type"] < 1


def test_the_summary_keeps_rows_of_experiments_not_run_again(harness, rules, summary):
    def twin_peaks(lab):
        lab.claim("old", 1, rules.equals(1))

    def wine_type(lab):
        lab.claim("z", 1, rules.equals(1))
        lab.claim("a", 1, rules.equals(1))

    def no_such_file(lab):
        lab.claim("gone", 1, rules.equals(1))

    made = [harness.experiment("T", source="x")(body) for body in (wine_type, twin_peaks, no_such_file)]
    before = summary.page([one.run() for one in made])
    wine = made[0].run()
    text = summary.page([wine], before)
    assert summary.page([wine], text) == text
    # Experiments in the order of their names, claims in the order they were made, nothing of a file that is gone.
    assert [row[1] for row in rows(text)] == ["T", "T", "old", "z", "a"]
    assert "stated by the source: 3: pass 3" in text


def test_what_ended_is_written_at_once_and_what_broke_is_not_recorded(harness, rules, run, tmp_path):
    def wine_type(lab):
        lab.claim("z", 1, rules.equals(1))

    def twin_peaks(lab):
        raise KeyError("lost")

    page, record = tmp_path / "summary.md", tmp_path / "finished.json"
    assert run.ended(record) == {}
    for body in (wine_type, twin_peaks):
        run.keep(harness.experiment("T", source="x")(body).run(), "now", page, record)
    assert {row[0].partition("]")[0] for row in rows(page.read_text(encoding="utf-8"))} == {"[wine_type", "[twin_peaks"}
    assert run.ended(record) == {"wine_type": "now"}


def test_the_state_of_an_experiment_changes_with_its_own_file_and_not_with_others(run, monkeypatch, tmp_path):
    for path in FOLDER.glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    before = run.source_states(["wine_type", "twin_peaks"])
    with (tmp_path / "wine_type.py").open("a", encoding="utf-8") as file:
        file.write("# changed")
    after = run.source_states(["wine_type", "twin_peaks"])
    assert before["wine_type"] != after["wine_type"]
    assert before["twin_peaks"] == after["twin_peaks"]
    with (tmp_path / "layouts.py").open("a", encoding="utf-8") as file:
        file.write("# changed")
    assert run.source_states(["twin_peaks"])["twin_peaks"] != after["twin_peaks"]


def test_experiments_are_found_by_the_names_of_their_files(harness, run):
    found = run.experiments()
    assert {"wine_type", "wave_and_spiral", "three_digits"} <= set(found)
    assert not {"harness", "run", "rules", "summary", "layouts", "clusterings"} & set(found)
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


def test_the_committed_summary_covers_every_experiment_and_all_of_them_ended(run, summary):
    text = (FOLDER / "summary.md").read_text(encoding="utf-8")
    assert set(summary.seconds_of(text)) == set(run.experiments())
    assert {name for name, _ in summary.claims_of(text)} == set(run.experiments())
    assert "runs to its end" not in {what for _, what in summary.claims_of(text)}


def test_two_at_a_time_run_in_processes_of_their_own():
    command = [sys.executable, str(FOLDER / "run.py"), "wave_and_spiral", "four_steps", "--quick", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    names = [line.partition(":")[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert sorted(names) == ["four_steps", "wave_and_spiral"]
    assert "  pass    patches: source 25; asked exactly 25; ours 25" in done.stdout
