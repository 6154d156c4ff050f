"""How fits use threads: serial share, parallel calls and their cost, the speedup predicted from these, and same bits.

    MANIFOLDRY_DATA=folder python benchmarks/scaling.py [--quick] [--only TSNE ...]

After a first fit, with one thread, the CPU seconds inside `Run.map`, `Run.team` and the searches of scipy and
scikit-learn that take ``n_jobs`` are those that more threads would share; the others are serial. A parallel call is
also made empty, with 1, 2 and 16 threads. On c cores a fit is predicted to take ``serial + parallel / c + calls *
cost(c)``. That all threads have equal work is assumed, and that memory is no limit; an empty call ends before all
threads are called, as one of short tasks does. Every fit is repeated on fewer rows with 1, 2, 3, 7 and 16 threads,
whose results must be identical. ``--quick`` takes a tenth of the rows. Stores both tables.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import manifoldry
from manifoldry._core import team
from manifoldry._core.kernel import kernel
from manifoldry._core.run import Run
from manifoldry.graph import _engines
from manifoldry.graph._search import NeighborRule, neighbor_graph
from neighbor_embeddings import load as load_mnist
from tables import Table

Call = Callable[[np.ndarray, int], np.ndarray]
THREADS, IDENTICAL_THREADS, N_CORES = (1, 2, 16), (1, 2, 3, 7, 16), 16
N_IDENTICAL_ROWS = 4_000
IDENTICAL_ROWS = {
    "IPA": 500_000,
    "IPA, more rows": 1_000_000,
    "LandmarkIsomap": 50_000,
}  # of fits that use compiled loops for many rows only
N_REPEATS, N_PHASES = 200, 200  # empty calls of which the median counts, and phases of an empty team
PARALLEL_SEARCHES = ("KDTree", "Brute")
N_NEIGHBORS = 15


def mnist(name: str) -> Callable[[int], np.ndarray]:
    return lambda n: load_mnist(name)[0][:n]


def roll(n: int) -> np.ndarray:
    return manifoldry.datasets.swiss_roll(n, random_state=0).X


def fit(name: str) -> Call:
    return lambda X, n_jobs: getattr(manifoldry, name)(random_state=0, n_jobs=n_jobs).fit(X).embedding_


def neighbors(X: np.ndarray, n_jobs: int) -> np.ndarray:
    return neighbor_graph(X, NeighborRule(N_NEIGHBORS).resolve(len(X)), Run(0, n_jobs))[0].indices


def score(X: np.ndarray, n_jobs: int) -> np.ndarray:
    return np.array(list(manifoldry.score(X, X[:, :2], n_jobs=n_jobs).values()))


def diagnosis(X: np.ndarray, n_jobs: int) -> np.ndarray:
    return np.array([finding.value for finding in manifoldry.diagnose(X, n_jobs=n_jobs)])


def clusters(X: np.ndarray, n_jobs: int) -> np.ndarray:
    return manifoldry.LDLC(random_state=0, n_jobs=n_jobs).fit(X).labels_


FITS: dict[str, tuple[Callable[[int], np.ndarray], int, Call]] = {
    "TSNE": (mnist("mnist50"), 70_000, fit("TSNE")),
    "UMAP": (mnist("mnist50"), 70_000, fit("UMAP")),
    "IPA": (roll, 1_000_000, fit("IPA")),
    "IPA, more rows": (roll, 10_000_000, fit("IPA")),
    "LTSA": (roll, 200_000, fit("LTSA")),
    "LLE": (roll, 70_000, fit("LLE")),
    "neighbor search": (mnist("mnist784"), 70_000, neighbors),
    "Isomap": (roll, 10_000, fit("Isomap")),
    "LandmarkIsomap": (roll, 1_000_000, fit("LandmarkIsomap")),
    "score": (mnist("mnist50"), 20_000, score),
    "diagnose": (mnist("mnist50"), 20_000, diagnosis),
    "LDLC": (mnist("mnist50"), 5_000, clusters),
}


@dataclass
class Counted:
    """What happened in parallel calls: CPU seconds inside, maps, teams, and blocks of teams."""

    seconds: float = 0.0
    maps: int = 0
    teams: int = 0
    tickets: list[np.ndarray] = field(default_factory=list)
    depth: int = 0

    @property
    def blocks(self) -> int:
        """Blocks of all teams."""
        return int(sum(tickets[team.DONE] for tickets in self.tickets))

    def inside(self, call: Callable[..., Any], what: str = "") -> Callable[..., Any]:
        """Return the call, counted; what another counted call contains is a part of that one."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            if what and self.depth == 0:
                setattr(self, what, getattr(self, what) + 1)
            self.depth += 1
            begin = time.process_time()
            try:
                return call(*args, **kwargs)
            finally:
                self.depth -= 1
                self.seconds += time.process_time() - begin if self.depth == 0 else 0.0

        return counted


@contextmanager
def counting() -> Iterator[Counted]:
    """Count all parallel calls of this thread."""
    counted = Counted()
    new_tickets = team.new_tickets

    def kept_tickets() -> np.ndarray:
        counted.tickets.append(new_tickets())
        return counted.tickets[-1]

    patches = [(Run, "map", counted.inside(Run.map, "maps")), (Run, "team", counted.inside(Run.team, "teams"))]
    patches += [(team, "new_tickets", kept_tickets)]
    patches += [
        (getattr(_engines, name), "nearest", counted.inside(getattr(_engines, name).nearest))
        for name in PARALLEL_SEARCHES
    ]
    former = [getattr(owner, name) for owner, name, _ in patches]
    for owner, name, patch in patches:
        setattr(owner, name, patch)
    try:
        yield counted
    finally:
        for (owner, name, _), original in zip(patches, former, strict=True):
            setattr(owner, name, original)


@kernel(f"void({team.TICKETS}, int64, int64)")
def empty_phases(tickets, n_phases, n_blocks):  # type: ignore[no-untyped-def]
    """Do nothing in all blocks of all phases."""
    while True:
        phase = team.draw(tickets) // n_blocks
        if phase >= n_phases or not team.ready(tickets, phase * n_blocks):
            return
        team.finish(tickets)


def empty_costs(table: Table) -> dict[str, float]:
    """Add a row of the seconds of empty calls for each number of threads, and return those of `N_CORES`."""
    costs: dict[str, float] = {}
    for threads in THREADS:
        run = Run(0, threads)
        calls: dict[str, Callable[[], Any]] = {
            "map": lambda run=run: run.map(lambda _: None, [(i,) for i in range(N_CORES)]),
            "team": lambda run=run: run.team(empty_phases, 1, N_CORES),
            "phases": lambda run=run: run.team(empty_phases, N_PHASES, N_CORES),
        }
        costs = {name: statistics.median(_seconds(call) for _ in range(N_REPEATS)) for name, call in calls.items()}
        costs["block"] = max(0.0, costs.pop("phases") - costs["team"]) / (N_PHASES * N_CORES)
        micro = {name: 1e6 * seconds for name, seconds in costs.items()}
        table.add(threads=threads, map=micro["map"], team=micro["team"], phase_of_a_team=N_CORES * micro["block"])
    return costs


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def measure(name: str, n_rows: int, costs: dict[str, float]) -> dict[str, Any]:
    """Return the row of one fit, warm and with one thread."""
    load, _, call = FITS[name]
    X = load(n_rows)
    call(X, 1)  # few rows would not load the compiled loops of many
    with counting() as counted:
        begin = time.process_time()
        call(X, 1)
        total = time.process_time() - begin
    serial = total - counted.seconds
    waiting = counted.maps * costs["map"] + counted.teams * costs["team"] + counted.blocks * costs["block"]
    predicted = serial + counted.seconds / N_CORES + waiting
    return {
        "fit": name,
        "rows": len(X),
        "CPU s": total,
        "serial share": serial / total,
        "maps": counted.maps,
        "teams": counted.teams,
        "blocks": counted.blocks,
        "s of calls": waiting,
        "speedup": total / predicted,
        "same bits": same_bits(call, X[:: max(1, len(X) // IDENTICAL_ROWS.get(name, N_IDENTICAL_ROWS))]),
    }


def same_bits(call: Call, X: np.ndarray) -> str:
    """Return whether the results of all numbers of threads are identical, or which of them differ."""
    results = [np.asarray(call(np.ascontiguousarray(X), threads)).tobytes() for threads in IDENTICAL_THREADS]
    differing = [
        str(threads) for threads, result in zip(IDENTICAL_THREADS, results, strict=True) if result != results[0]
    ]
    return f"not with {', '.join(differing)}" if differing else "yes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--only", nargs="+", choices=FITS, default=list(FITS), metavar="FIT")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    caption = (
        f"Microseconds of an empty parallel call of {N_CORES} tasks, of an empty team of threads, and of one more "
        f"phase of {N_CORES} blocks in it: medians of {N_REPEATS}."
    )
    costs = empty_costs(
        Table("scaling_calls", caption, {"threads": "", "map": ".0f", "team": ".0f", "phase of a team": ".1f"})
    )
    columns = {"fit": "", "rows": ",", "CPU s": ".2f", "serial share": ".1%", "maps": ",", "teams": ",", "blocks": ","}
    columns |= {"s of calls": ".2f", "speedup": ".1f", "same bits": ""}
    caption = (
        "CPU seconds with one thread, and the share outside of parallel calls; the seconds that all parallel calls "
        f"would cost with {N_CORES} threads, the speedup on {N_CORES} cores predicted from both, and whether "
        f"{', '.join(map(str, IDENTICAL_THREADS))} threads give the same bits."
    )
    table = Table("scaling", caption, columns)
    for name in options.only:
        row = measure(name, FITS[name][1] // (10 if options.quick else 1), costs)
        table.add(**{heading.replace(" ", "_"): cell for heading, cell in row.items()})
    if any(row["same bits"] != "yes" for row in table.rows):
        sys.exit("Results depend on the number of threads.")


if __name__ == "__main__":
    main()
