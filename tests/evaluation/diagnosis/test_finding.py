"""Findings and the report they make."""

import pytest

from manifoldry.evaluation.diagnosis import Diagnosis, Finding
from manifoldry.evaluation.diagnosis._fitted import split_advice

FOUND = [
    Finding("one", "One is fine.", 1.0),
    Finding("two", "Two is to know.", 2.0, "look", "note"),
    Finding("three", "Three is wrong.", 3.0, "do this", "problem"),
    Finding("four", "Four is to know.", 4.0, "look", "note"),
]


def test_findings_are_in_order_of_severity_and_found_by_topic():
    found = Diagnosis(FOUND, "some rows")
    assert found.topics == ("three", "two", "four", "one")
    assert found[0] is found["three"] is found.problems[0]
    assert found[1:3] == found.notes
    assert "two" in found
    assert FOUND[0] in found
    assert "five" not in found
    with pytest.raises(KeyError, match=r"'five' was not checked; the topics are three"):
        _ = found["five"]


def test_a_diagnosis_cannot_be_changed():
    found = Diagnosis(FOUND, "some rows")
    with pytest.raises(TypeError):
        found[0] = FOUND[1]
    with pytest.raises(AttributeError):
        found[0].topic = "five"
    assert found == Diagnosis([FOUND[2], FOUND[1], FOUND[3], FOUND[0]], "some rows")
    assert hash(found) == hash(Diagnosis(FOUND, "some rows"))
    assert found != Diagnosis(FOUND, "other rows")


def test_the_report_reads_problems_first_and_what_is_fine_in_a_line():
    assert str(Diagnosis(FOUND, "some rows")) == (
        "Diagnosis of some rows: 1 problem, 2 notes\n"
        "! three: Three is wrong.\n"
        "  -> do this\n"
        "- two: Two is to know.\n"
        "  -> look\n"
        "- four: Four is to know.\n"
        "  -> look\n"
        "  fine: one"
    )
    assert repr(Diagnosis([], "nothing")) == "Diagnosis of nothing: no problems, no notes"


def test_as_a_dict_and_as_a_frame():
    found = Diagnosis(FOUND, "some rows")
    assert found.to_dict()["two"] == {"sentence": "Two is to know.", "value": 2.0, "advice": "look", "severity": "note"}
    frame = found.to_frame()
    assert list(frame.index) == list(found.topics)
    assert frame.loc["three", "value"] == 3.0


def test_bad_findings_are_refused():
    with pytest.raises(ValueError, match="severity must be one of"):
        Finding("a", "b", 1.0, "c", "terrible")
    with pytest.raises(ValueError, match="needs advice"):
        Finding("a", "b", 1.0, "", "problem")
    with pytest.raises(ValueError, match="each topic once"):
        Diagnosis([FOUND[0], FOUND[0]], "rows")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("It is so: do that.", ("It is so.", "do that")),
        ("It is so, for once; try that: now.", ("It is so, for once; try that.", "now")),
        ("It is so: why. Leave it out, or raise k.", ("It is so: why.", "leave it out, or raise k")),
        ("It is so.", ("It is so.", "compare with another method before you believe the picture")),
    ],
)
def test_advice_is_split_from_what_was_found(text, parts):
    assert split_advice(text) == parts
