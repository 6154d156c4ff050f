"""The frame of an experiment: what a paper claims, what we find, and whether the claim holds.

An experiment is one file with one function of the same name:

    from harness import Lab, experiment, main
    from rules import at_least

    @experiment("Wine type: purity of the clusters", source="khajehpour2013, Table 4.1")
    def wine_type(lab: Lab) -> None:
        ...
        lab.claim("purity of LDLC", purity, at_least(0.9045))

    if __name__ == "__main__":
        main(wine_type)
"""

from __future__ import annotations

import enum
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from manifoldry import datasets
from rules import Rule, shown

FIGURES = Path(__file__).resolve().parent / "figures"


class Verdict(enum.Enum):
    """What became of a claim."""

    PASS = "pass"
    FITTED = "fitted"
    """It holds, with settings that were chosen after results were seen."""
    DIFFERS = "differs"
    """It does not hold here, and a test made in the same run shows the reason to be true."""
    FAIL = "fail"


class Reason(NamedTuple):
    """Why a claim may not hold here, and the test of it: what is measured if the claim misses, and what it must be."""

    why: str
    measure: Callable[[], Any]
    rule: Rule


@dataclass(frozen=True)
class Claim:
    """A claim, judged: the source's figure or words, what we ask of our value, the value, the verdict and its reason.

    ``source`` is None where the source says nothing: then it is a target of our own.
    """

    what: str
    source: str | None
    target: str
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
    seed : int
        Of the data and the starts; other than 0 only where fitted claims are tried again.
    """

    name: str
    quick: bool = False
    folder: Path = FIGURES
    seed: int = 0
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    core_seconds: dict[str, float] = field(default_factory=dict)
    chosen: bool = False
    """Whether settings of the claims made now were chosen after results were seen; set by `fitted`."""
    no_evidence: str = ""
    """Why claims that hold now do not count all the same; set by `fitted`."""

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

    def claim(self, what: str, ours: Any, rule: Rule, *, reason: Reason | None = None) -> None:
        """Judge a claim of the source.

        One that does not hold fails, unless its ``reason`` is measured now and found true: then it differs.
        """
        if rule.holds(ours) and self.no_evidence:
            verdict, why = Verdict.FAIL, self.no_evidence
        elif rule.holds(ours):
            verdict, why = Verdict.FITTED if self.chosen else Verdict.PASS, ""
        elif reason is None:
            verdict, why = Verdict.FAIL, ""
        else:
            verdict, why = _tested(reason)
        self.claims.append(Claim(what, rule.source, rule.target, shown(ours), verdict, why))

    def target(self, what: str, ours: Any, rule: Rule) -> None:
        """Judge something that we want and no source states."""
        verdict = Verdict.PASS if rule.holds(ours) else Verdict.FAIL
        self.claims.append(Claim(what, None, rule.target, shown(ours), verdict))

    @contextmanager
    def fitted(self, chosen: str, no_evidence: str = "") -> Iterator[None]:
        """Say in a note what was chosen after results were seen, and judge the claims within by that.

        With ``no_evidence``, a reason why so much was chosen that claims could not but hold, those that hold fail.
        """
        self.note(f"Fitted: {chosen}.")
        self.chosen, self.no_evidence = True, no_evidence
        yield
        self.chosen, self.no_evidence = False, ""

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


def _tested(reason: Reason) -> tuple[Verdict, str]:
    measured = reason.measure()
    words = f"{reason.why}: {shown(measured)}, needed {reason.rule.target}"
    if reason.rule.holds(measured):
        return Verdict.DIFFERS, words
    return Verdict.FAIL, f"not because {words}"


@dataclass(frozen=True)
class Outcome:
    """What one run of an experiment gave; ``left_out`` says why it gave nothing, ``error`` why it did not end."""

    name: str
    title: str
    source: str
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    left_out: str = ""
    error: str = ""

    def lines(self) -> Iterator[str]:
        """Say it in lines for a terminal."""
        yield f"{self.name}: {self.title} ({self.source})"
        if self.left_out:
            yield f"  left out: {self.left_out}"
            return
        for claim in self.claims:
            because = f" ({claim.reason})" if claim.reason else ""
            said = "our own target" if claim.source is None else f"source {claim.source}"
            yield f"  {claim.verdict.value:8}{claim.what}: {said}; asked {claim.target}; ours {claim.ours}{because}"
        yield from (f"  {note}" for note in self.notes)
        if self.error:
            yield f"  stopped by {self.error}"
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
    alone: bool = False
    seeds: int = 1

    def run(self, *, quick: bool = False, folder: Path = FIGURES) -> Outcome:
        """Run it; without its data it is left out, and an error on the way is a failed target."""
        told = (self.name, self.title, self.source)
        absent = sorted(set(self.needs) - set(datasets.available()))
        if absent:
            files = ", ".join(f"{name}.npz" for name in absent)
            return Outcome(*told, left_out=f"needs {files} in the folder named by MANIFOLDRY_DATA")
        lab = Lab(self.name, quick, folder)
        start, error = time.perf_counter(), ""
        try:
            self.body(lab)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
            lab.claims.append(Claim("runs to its end", None, "no error", error, Verdict.FAIL))
        claims = tuple(lab.claims) if quick or error else self._with_seeds(lab.claims)
        return Outcome(*told, claims, tuple(lab.notes), time.perf_counter() - start, error=error)

    def _with_seeds(self, claims: list[Claim]) -> tuple[Claim, ...]:
        """Return the claims, the fitted ones with the number of seeds that they hold with."""
        if self.seeds == 1:
            return tuple(claims)
        held = Counter(claim.what for claim in claims if claim.verdict is Verdict.FITTED)
        with tempfile.TemporaryDirectory() as passing:
            for seed in range(1, self.seeds):
                lab = Lab(self.name, folder=Path(passing), seed=seed)
                self.body(lab)
                held.update(claim.what for claim in lab.claims if claim.verdict is Verdict.FITTED)
        return tuple(
            replace(claim, reason=f"holds with {held[claim.what]} of {self.seeds} seeds")
            if claim.verdict is Verdict.FITTED
            else claim
            for claim in claims
        )


def experiment(
    title: str,
    *,
    source: str,
    needs: tuple[str, ...] = (),
    quick: bool = False,
    alone: bool = False,
    seeds: int = 1,
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
        Whether its quick form, with few starts and done in seconds, belongs to the tests.
    alone : bool
        Whether it measures wall-clock seconds, so that nothing may run beside it.
    seeds : int
        With how many seeds (`Lab.seed`) fitted claims are tried; a full run states with how many each holds.
    """
    return lambda body: Experiment(body.__name__, body, title, source, needs, quick, alone, seeds)


def main(one: Experiment) -> None:
    """Run one experiment and tell its claims: what a script does when started alone."""
    outcome = one.run()
    print("\n".join(outcome.lines()))
    raise SystemExit(outcome.error != "")
