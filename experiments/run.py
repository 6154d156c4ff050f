"""Run the experiments and keep the summary.

    python experiments/run.py [names ...] [--jobs 2] [--resume] [--quick] [--list]

Without names all are run. Each writes its rows into summary.md when it ends, and rows of experiments that were not run
stay as they are, so that an interrupted run loses what was under way only; --resume then leaves out what ended with the
same source. A quick run writes no summary.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path

from harness import FIGURES, Experiment, Outcome
from summary import FOLDER, page, seconds_of

SUMMARY = FOLDER / "summary.md"
FINISHED = FOLDER / ".finished.json"
LIBRARY = FOLDER.parent / "src"


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name: those files that define one of their own name."""
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    found = {name: getattr(import_module(name), name, None) for name in names if name != "run"}
    return {name: one for name, one in found.items() if isinstance(one, Experiment)}


def chosen(names: Sequence[str], *, quick: bool) -> list[Experiment]:
    """Return the named experiments, or all; only those with a quick form if ``quick``."""
    every = experiments()
    unknown = sorted(set(names) - set(every))
    if unknown:
        raise SystemExit(f"There is no experiment {', '.join(unknown)}; there are {', '.join(every)}.")
    wanted = [every[name] for name in names] or list(every.values())
    return [one for one in wanted if one.quick or not quick]


def source_states(names: Iterable[str]) -> dict[str, str]:
    """Return for each experiment a word that changes with the library, what experiments share, and its own file."""
    every = set(experiments())
    shared = [*sorted(LIBRARY.rglob("*.py")), *(path for path in sorted(FOLDER.glob("*.py")) if path.stem not in every)]
    common = hashlib.sha256(b"".join(path.read_bytes() for path in shared))
    states = {}
    for name in names:
        state = common.copy()
        state.update((FOLDER / f"{name}.py").read_bytes())
        states[name] = state.hexdigest()[:12]
    return states


def ended(record: Path = FINISHED) -> dict[str, str]:
    """Return the state of the sources with which each experiment last came to its end."""
    return json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}


def keep(outcome: Outcome, state: str, page_path: Path = SUMMARY, record: Path = FINISHED) -> None:
    """Write the rows of one experiment into the summary, and that it ended."""
    before = page_path.read_text(encoding="utf-8") if page_path.exists() else ""
    page_path.write_text(page([outcome], before), encoding="utf-8")
    if not outcome.error:
        record.write_text(json.dumps(ended(record) | {outcome.name: state}), encoding="utf-8")


def outcomes(wanted: Sequence[Experiment], *, jobs: int, quick: bool, folder: Path) -> Iterator[Outcome]:
    """Run experiments, ``jobs`` at a time, the longest first; then those that measure wall-clock seconds, alone."""
    taken = seconds_of(SUMMARY.read_text(encoding="utf-8")) if SUMMARY.exists() else {}
    ordered = sorted(wanted, key=lambda one: -taken.get(one.name, 0.0))
    beside = [one for one in ordered if not one.alone and jobs > 1]
    if beside:
        # Processes of their own, each for one experiment: clocks of the core and memory are then its own too.
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
            started = [pool.submit(_run_named, one.name, quick, folder) for one in beside]
            for done in as_completed(started):
                yield done.result()
    for one in ordered:
        if one not in beside:
            yield one.run(quick=quick, folder=folder)


def _run_named(name: str, quick: bool, folder: Path) -> Outcome:
    found: Experiment = getattr(import_module(name), name)
    return found.run(quick=quick, folder=folder)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Re-run what papers show and judge it by number.")
    parser.add_argument("names", nargs="*", help="experiments to run (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="how many to run at a time (default: 1)")
    parser.add_argument("--resume", action="store_true", help="leave out those that ended with the same source")
    parser.add_argument("--quick", action="store_true", help="few starts, no summary, only experiments quick to run")
    parser.add_argument("--list", action="store_true", help="list the experiments and stop")
    asked = parser.parse_args()
    wanted = chosen(asked.names, quick=asked.quick)
    states = source_states(one.name for one in wanted)
    if asked.resume:
        before = ended()
        wanted = [one for one in wanted if before.get(one.name) != states[one.name]]
    if asked.list:
        print("\n".join(f"{one.name:18} {one.title} ({one.source})" for one in wanted))
        return
    broken = False
    with tempfile.TemporaryDirectory() as passing:
        folder = Path(passing) if asked.quick else FIGURES
        for outcome in outcomes(wanted, jobs=asked.jobs, quick=asked.quick, folder=folder):
            print("\n".join(outcome.lines()), flush=True)
            if not asked.quick:
                keep(outcome, states[outcome.name])
            broken |= outcome.error != ""
    raise SystemExit(broken)


if __name__ == "__main__":
    main()
