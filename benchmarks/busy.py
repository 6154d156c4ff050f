"""How much slower every method is beside other processes: one that computes without end for each core.

    python benchmarks/busy.py [--methods NAME ...]

Digits of scikit-learn, few enough for seconds. A fit with n threads beside as many other processes gets half of the
machine, so that twice the time is what can be had; threads that wait for each other take many times that. Stores the
table, unless methods are named. Says so where a method takes more than `MAX_RATIO` times its time alone.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sklearn.datasets import load_digits

from manifoldry._core.registry import Card, list_clusterings, list_methods
from manifoldry._core.run import resolve_jobs
from tables import Table

N_POINTS = 600
"""Digits that a method gets unless it is listed below."""

FEWER_POINTS: Mapping[str, int] = {"EAT": 200, "MVU": 120, "NonmetricMDS": 300}
"""Methods for fewer points."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {"MVU": {"constraints": "at most"}, "NMF": {"max_iter": 500}}

MIN_SECONDS, MAX_REPEATS = 2.0, 20
"""A fit is repeated until it has taken so long in all, and at most so many times: others' time slices average out."""

MAX_RATIO = 2.5
"""How many times its time alone a method may take: twice, and something for threads that end at different times."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=[], metavar="NAME", help="only these, and nothing is stored")
    options = parser.parse_args()
    every = (*list_methods(), *list_clusterings())
    cards = [card for card in every if card.name in options.methods or not options.methods]
    rows = []
    table = None
    if not options.methods:
        caption = (
            f"Seconds of a fit of digits alone on the machine, and beside one process per core that computes without "
            f"end; the mean of {MIN_SECONDS:g} seconds of fits."
        )
        columns = {"method": "", "points": ",", "alone": ".3f", "beside others": ".3f", "ratio": ".1f"}
        table = Table("busy", caption, columns)
    for card in cards:
        row = measure(card)
        rows.append(row)
        if table is None:
            print(row, flush=True)
        else:
            table.add(**row)
    slow = [row["method"] for row in rows if row["ratio"] > MAX_RATIO]
    print(f"\nMore than {MAX_RATIO:g} times as long beside others: {', '.join(slow) or 'none'}.")


def measure(card: Card) -> dict[str, Any]:
    """Return the row of one method; a first fit loads what is compiled."""
    n = FEWER_POINTS.get(card.name, N_POINTS)
    X = load_digits().data[:n]
    given = card.cls().get_params()
    settings = {"n_components": 2} if given.get("n_components", 2) != 1 else {}
    settings = {**settings, **SETTINGS.get(card.name, {})}
    mean_seconds(card, X, settings, repeats=1)
    alone = mean_seconds(card, X, settings)
    with spinning(resolve_jobs(None)):
        beside = mean_seconds(card, X, settings)
    return {"method": card.name, "points": n, "alone": alone, "beside_others": beside, "ratio": beside / alone}


def mean_seconds(card: Card, X: Any, settings: Mapping[str, Any], repeats: int | None = None) -> float:
    """Return the mean seconds of so many fits, or of as many as take `MIN_SECONDS`."""
    began, done = time.perf_counter(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while done < (repeats or MAX_REPEATS):
            card.cls(**settings).fit(X)
            done += 1
            if repeats is None and time.perf_counter() - began >= MIN_SECONDS:
                break
    return (time.perf_counter() - began) / done


@contextmanager
def spinning(count: int) -> Iterator[None]:
    """Run so many processes that compute without end."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    time.sleep(math.log2(count + 1))  # until they have started
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    main()
