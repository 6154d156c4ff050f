"""The frame of an experiment: what a paper claims, what we find, and whether the claim holds.

An experiment is one file with one function of the same name:

    from harness import Lab, at_least, experiment, main

    @experiment("Wine type: purity of the clusters", source="khajehpour2013, Table 4.1")
    def wine_type(lab: Lab) -> None:
        ...
        lab.claim("purity of LDLC", purity, at_least(0.9045))

    if __name__ == "__main__":
        main(wine_type)
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from manifoldry import datasets

FIGURES = Path(__file__).resolve().parent / "figures"


class Verdict(enum.Enum):
    """What became of a claim."""

    PASS = "pass"
    DIFFERS = "differs"
    """It does not hold here, and the reason is known and stated."""
    FAIL = "fail"


class Rule(NamedTuple):
    """What a source says, in its own figures, and whether a value of ours agrees."""

    source: str
    holds: Callable[[Any], bool]


def at_least(source: float, within: float = 0.03, said: str = "") -> Rule:
    """Ask for the source's number or more; less by a share ``within`` is still as good.

    Where the source has words and no number, ``said`` has the words and the number is our reading of them.
    """
    words = f"{said} (at least {shown(source)})" if said else shown(source)
    return Rule(words, lambda ours: ours >= source - within * abs(source))


def at_most(source: float, within: float = 0.03, said: str = "") -> Rule:
    """Ask for the source's number or less, as `at_least` asks for more."""
    words = f"{said} (at most {shown(source)})" if said else shown(source)
    return Rule(words, lambda ours: ours <= source + within * abs(source))


def equals(source: Any) -> Rule:
    """Ask for exactly what the source has."""
    return Rule(shown(source), lambda ours: ours == source)


def in_order(source: Mapping[str, float], within: float = 0.01) -> Rule:
    """Ask that methods rank as in the source; ours maps the same names to numbers.

    Two numbers that differ by a share ``within`` or less rank level, in the source and here.
    """
    names = sorted(source, key=lambda name: source[name])

    def clearly_below(a: float, b: float) -> bool:
        return b - a > within * max(abs(a), abs(b))

    def holds(ours: Mapping[str, float]) -> bool:
        if set(ours) != set(source):
            raise ValueError(f"The source ranks {', '.join(source)}; got numbers of {', '.join(ours)}.")
        return not any(
            clearly_below(source[a], source[b]) and clearly_below(ours[b], ours[a]) for a, b in combinations(names, 2)
        )

    return Rule(shown(source), holds)


def falling(source: str = "falls") -> Rule:
    """Ask for a sequence that never rises."""
    return Rule(source, lambda ours: all(b <= a for a, b in pairwise(ours)))


def rising(source: str = "rises") -> Rule:
    """Ask for a sequence that never falls."""
    return Rule(source, lambda ours: all(a <= b for a, b in pairwise(ours)))


def shown(value: Any) -> str:
    """Return a fraction with four figures, a mapping by name in rising order, a sequence item by item."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown(value[name])}" for name in sorted(value, key=lambda name: value[name]))
    if isinstance(value, (str, Integral)):
        return str(value)
    if isinstance(value, (Sequence, np.ndarray)):
        return " ".join(map(shown, value))
    return f"{value:.4g}"


@dataclass(frozen=True)
class Claim:
    """One sentence of a source, judged: its number, ours, the verdict and the reason of a difference."""

    what: str
    source: str
    ours: str
    verdict: Verdict
    reason: str = ""


@dataclass
class Lab:
    """What an experiment works with: data, clocks, figures, and the record of its claims.

    Parameters
    ----------
    name : str
        The experiment; its figures are called after it.
    quick : bool
        Whether to do with few starts.
    folder : Path
        Where figures go.
    """

    name: str
    quick: bool = False
    folder: Path = FIGURES
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    core_seconds: dict[str, float] = field(default_factory=dict)

    def pick(self, full: Any, quick: Any) -> Any:
        """Return the first of two settings, or the second in a quick run."""
        return quick if self.quick else full

    @property
    def starts(self) -> int:
        """Random starts of every iterative method: a hundred, as in the thesis."""
        return self.pick(100, 10)

    def load(self, name: str) -> datasets.Dataset:
        """Return a real data set, one of those the experiment says it needs."""
        return datasets.load(name)

    def claim(self, what: str, ours: Any, rule: Rule, *, reason: str = "") -> None:
        """Judge a claim; one that does not hold differs if its ``reason`` is known, else it fails."""
        holds = bool(rule.holds(ours))
        unmet = Verdict.DIFFERS if reason else Verdict.FAIL
        self.claims.append(
            Claim(what, rule.source, shown(ours), Verdict.PASS if holds else unmet, "" if holds else reason)
        )

    def note(self, text: str) -> None:
        """Say something that is no claim."""
        self.notes.append(text)

    @contextmanager
    def time(self, what: str) -> Iterator[None]:
        """Put the seconds spent into ``seconds[what]``, and those of all threads on a core into ``core_seconds``."""
        start, on_core = time.perf_counter(), time.process_time()
        yield
        self.seconds[what] = time.perf_counter() - start
        self.core_seconds[what] = time.process_time() - on_core

    @contextmanager
    def figure(self, part: str = "", size: tuple[float, float] = (7.2, 4.0)) -> Iterator[Any]:
        """Give a matplotlib figure to draw on and save it under the experiment's name."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        yield figure
        self.folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.folder / f"{'-'.join(filter(None, (self.name, part)))}.png", dpi=110)


@dataclass(frozen=True)
class Outcome:
    """What one run of an experiment gave; ``left_out`` says why it gave nothing."""

    experiment: Experiment
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    left_out: str = ""

    @property
    def failed(self) -> bool:
        """Whether any claim failed."""
        return any(claim.verdict is Verdict.FAIL for claim in self.claims)

    def lines(self) -> Iterator[str]:
        """Say it in lines for a terminal."""
        yield f"{self.experiment.name}: {self.experiment.title} ({self.experiment.source})"
        if self.left_out:
            yield f"  left out: {self.left_out}"
            return
        for claim in self.claims:
            because = f" because {claim.reason}" if claim.reason else ""
            yield f"  {claim.verdict.value:8}{claim.what}: source {claim.source}; ours {claim.ours}{because}"
        yield from (f"  {note}" for note in self.notes)
        yield f"  {self.seconds:.1f} s"


@dataclass(frozen=True)
class Experiment:
    """A function of a `Lab`, with what it re-runs and what it needs."""

    name: str
    body: Callable[[Lab], None]
    title: str
    source: str
    needs: tuple[str, ...] = ()
    quick: bool = False

    def run(self, *, quick: bool = False, folder: Path = FIGURES) -> Outcome:
        """Run it; without its data it is left out, and an error on the way is a failed claim."""
        absent = sorted(set(self.needs) - set(datasets.available()))
        if absent:
            files = ", ".join(f"{name}.npz" for name in absent)
            return Outcome(self, left_out=f"needs {files} in the folder named by MANIFOLDRY_DATA")
        lab = Lab(self.name, quick, folder)
        start = time.perf_counter()
        try:
            self.body(lab)
        except Exception as error:
            lab.claims.append(Claim("runs to its end", "yes", f"{type(error).__name__}: {error}", Verdict.FAIL))
        return Outcome(self, tuple(lab.claims), tuple(lab.notes), time.perf_counter() - start)


def experiment(
    title: str, *, source: str, needs: tuple[str, ...] = (), quick: bool = False
) -> Callable[[Callable[[Lab], None]], Experiment]:
    """Make an `Experiment` of a function.

    Parameters
    ----------
    title : str
        What it shows.
    source : str
        Key of references.bib and the table or figure.
    needs : tuple of str
        Real data sets that it loads.
    quick : bool
        Whether its quick form, with few starts, belongs to the tests: seconds, and every claim holds.
    """
    return lambda body: Experiment(body.__name__, body, title, source, needs, quick)


def main(one: Experiment) -> None:
    """Run one experiment and tell its claims: what a script does when started alone."""
    outcome = one.run()
    print("\n".join(outcome.lines()))
    raise SystemExit(outcome.failed)
