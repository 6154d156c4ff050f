"""Findings, each with a text, a number and advice, and the diagnosis that lists them in order of severity."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, overload

import numpy as np

from manifoldry._core import markup
from manifoldry._core.arrays import as_frame
from manifoldry._core.values import IntArray

Severity = Literal["problem", "note", "fine"]

SEVERITIES: tuple[Severity, ...] = ("problem", "note", "fine")  # spoils a picture, is good to know, is in order
SEVERITY_SIGNS = {"problem": "▲", "note": "●", "fine": "✓"}  # shapes that are seen at once without color
DIAGNOSIS_WIDTH = 110  # characters of a line of the printed report


@dataclass(frozen=True)
class Finding:
    """One finding: topic, sentence, the number behind it, what to do (may be empty), and severity.

    A "problem" spoils a picture, a "note" is good to know, what is "fine" is in order.
    """

    topic: str
    sentence: str
    value: float
    advice: str = ""
    severity: Severity = "fine"

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"severity must be one of {', '.join(SEVERITIES)}; got {self.severity!r}.")
        if self.severity == "problem" and not self.advice:
            raise ValueError(f"A problem needs advice; {self.topic!r} has none: pass advice.")


def problem(topic: str, sentence: str, value: float, advice: str) -> Finding:
    """Return a finding that spoils a picture."""
    return Finding(topic, sentence, value, advice, "problem")


def note(topic: str, sentence: str, value: float, advice: str = "") -> Finding:
    """Return a finding that is good to know; without advice it is in order."""
    return Finding(topic, sentence, value, advice, "note" if advice else "fine")


@dataclass(frozen=True, repr=False)
class Diagnosis(Sequence[Finding]):
    """Findings in order of severity, each topic once; by position or by topic. Printed, a short report.

    ``subject`` is what was diagnosed, as in "178 rows of 13 columns".

    Examples
    --------
    >>> diagnosis = Diagnosis([Finding("duplicates", "No row occurs twice.", 0.0)], "9 rows of 2 columns")
    >>> diagnosis["duplicates"].severity, len(diagnosis.problems)
    ('fine', 0)
    """

    findings: Sequence[Finding]
    subject: str

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.findings, key=lambda finding: SEVERITIES.index(finding.severity)))
        object.__setattr__(self, "findings", ordered)
        if len(set(self.topics)) < len(self.topics):
            raise ValueError(f"A diagnosis has each topic once; got {', '.join(sorted(self.topics))}.")

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics in order of severity."""
        return tuple(finding.topic for finding in self)

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that spoil a picture."""
        return self.of("problem")

    @property
    def notes(self) -> tuple[Finding, ...]:
        """The findings that are good to know."""
        return self.of("note")

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of one severity."""
        return tuple(finding for finding in self if finding.severity == severity)

    def __len__(self) -> int:
        return len(self.findings)

    @overload
    def __getitem__(self, key: int | str) -> Finding: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, key: int | str | slice) -> Finding | tuple[Finding, ...]:
        if isinstance(key, slice):
            return tuple(self.findings[key])
        if isinstance(key, int):
            return self.findings[key]
        for finding in self:
            if finding.topic == key:
                return finding
        raise KeyError(f"{key!r} was not checked; the topics are {', '.join(self.topics)}.")

    def __contains__(self, key: object) -> bool:
        return key in self.topics if isinstance(key, str) else key in self.findings

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the findings by topic, each a dict of sentence, value, advice and severity."""
        return {finding.topic: {k: v for k, v in asdict(finding).items() if k != "topic"} for finding in self}

    def to_frame(self) -> Any:
        """Return a data frame, a row per finding with its topic as index; needs pandas."""
        columns = ("topic", "severity", "value", "sentence", "advice")
        return as_frame([{name: getattr(finding, name) for name in columns} for finding in self], "topic")

    def __repr__(self) -> str:
        return f"Diagnosis of {self.subject}: {self._counts}"

    @property
    def _counts(self) -> str:
        return ", ".join(_count(len(self.of(severity)), severity) for severity in SEVERITIES[:2])

    def __str__(self) -> str:
        """Return a report: problems and notes with their advice, and what is fine in one line."""
        lines = [repr(self)]
        for finding in (*self.problems, *self.notes):
            mark = "!" if finding.severity == "problem" else "-"
            lines += _wrapped(f"{mark} {finding.topic}: {finding.sentence}", "  ")
            lines += _wrapped(f"  -> {finding.advice}", "     ") if finding.advice else []
        fine = [finding.topic for finding in self.of("fine")]
        lines += _wrapped(f"  fine: {', '.join(fine)}", "  ") if fine else []
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the findings as a table, for notebooks."""
        rows = [
            [f"{SEVERITY_SIGNS[finding.severity]} {finding.severity}", finding.topic, finding.sentence, finding.advice]
            for finding in self
        ]
        table = markup.table(["", "topic", "finding", "what to do"], rows, (1, 2, 3))
        return markup.page_part(markup.heading(f"Diagnosis of {self.subject}", self._counts), table)


def lift(codes: IntArray, neighbors: IntArray) -> tuple[float, float, float]:
    """Return how often neighbors share a point's code: from chance (0) to always (1), the share, and that of chance."""
    chance = float(np.sum((np.bincount(codes) / len(codes)) ** 2))
    shared = float((codes[neighbors] == codes[:, None]).mean())
    return (shared - chance) / (1.0 - chance), shared, chance


def capital(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count or 'no'} {noun}s"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, DIAGNOSIS_WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
