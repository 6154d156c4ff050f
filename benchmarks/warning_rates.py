"""How often default fits warn on real data, and of what: all methods and clusterings on all real sets.

    python benchmarks/warning_rates.py [--rows 200] [--few 80] [--sets NAME ...] [--out FILE] [--read FILE ...]

Every set is embedded by ``cls()``, with labels for methods that use them; slow methods get fewer rows. Tables whose
columns have different units are embedded as they come, where every fit is to warn of the units, and standardized.
``--out`` writes every message, to be read. Stores the tables. A fit that raises an error does not count as a fit.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from manifoldry import datasets, list_clusterings, list_methods
from manifoldry._numerics.geometry.scales import dominating_columns
from tables import Table

SLOW = ("MVU", "MVE", "SPE", "EAT", "ColoredMVU", "LandmarkMVU", "FastMVU", "TesseraMap")
"""Methods that get few rows."""

MAX_COLUMNS = 64
"""Columns of images that are embedded, evenly taken: the time of a fit grows with them, its warnings do not."""

KINDS = {
    "squared distances between rows": "columns in different units",
    "carried by less than": "localized eigenvectors",
    "that of PCA": "is PCA",
    "does not keep the distances": "distances along the data not kept",
    "changes the distances along": "distances along the data not kept",
    "need not be the true one": "outside the recovery regime",
    "closer together than in the data": "not unfolded",
    "patch graph": "disconnected graph",
    "a Gaussian's": "Gaussian sources",
    "connected components": "disconnected graph",
    "vanishes": "no vanishing polynomial",
    "less well than by PCA": "worse than PCA",
    "than at random": "chance level",
    "cannot be seen": "crowded",
    "of the variance of ax": "outliers dominate an axis",
    "constant": "constant axis",
    "short circuit": "short circuits",
    "not flat": "patches not flat",
    "torn": "torn",
    "principal components": "is PCA",
    "is PCA": "is PCA",
    "PCA does": "is PCA",
    "onverge": "not converged",
    "before the tolerance": "not converged",
    "cannot preserve distances": "more dimensions than asked for",
    "no surface": "not a surface",
    "not a surface": "not a surface",
    "eigenvalue": "eigenvalues",
    "localized": "localized eigenvectors",
    "variance": "variance left out",
    "dimension": "dimension",
    "absolute numbers": "unit of X",
}
"""Words of a message, and what it is about; the first that occur decide."""

STANDARDIZED = ", standardized"
"""End of the name of a set whose columns have different units, once they are standardized."""

Row = dict[str, Any]


def kind_of(message: str) -> str:
    """Return what a warning is about."""
    return next((kind for words, kind in KINDS.items() if words in message), message.split(": ")[-1][:60])


def real_sets(names: Iterable[str], n: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return rows of every real set, drawn at random, the same at every run, and their labels or numbers."""
    found = {}
    for name in names:
        data = datasets.load(name) if name != "diabetes" else datasets.Dataset(load_diabetes().data, name)
        X = np.asarray(data.X, dtype=float)
        rows = np.sort(np.random.default_rng(0).permutation(len(X))[:n])
        columns = np.arange(X.shape[1])
        if X.shape[1] > MAX_COLUMNS:
            columns = np.linspace(0, X.shape[1] - 1, MAX_COLUMNS).astype(int)
        y = np.arange(len(X)) % 3 if data.labels is None else np.asarray(data.labels)
        X = X[np.ix_(rows, columns)]
        X = X[:, np.ptp(X, axis=0) > 0]
        found[name] = X, y[rows]
        if dominating_columns(X) is not None:
            found[name + STANDARDIZED] = StandardScaler().fit_transform(X), y[rows]
    return found


def warned(cls: type, X: np.ndarray, y: np.ndarray) -> Row:
    """Return the warnings of a default fit, or its error."""
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = cls().fit(X, y)
        except (ValueError, ArithmeticError, RuntimeError) as error:
            return {"error": str(error)[:200], "seconds": time.process_time() - began}
    messages = [str(each.message) for each in caught if issubclass(each.category, (UserWarning, RuntimeWarning))]
    advice = [str(sentence) for sentence in getattr(model, "diagnostics_", {}).get("advice", ())]
    return {"messages": messages, "advice": advice, "seconds": time.process_time() - began}


def summary(name: str, rows: list[Row]) -> Row:
    """Return the numbers of some fits: how many warn, with and without those about columns in different units."""
    fits = [row for row in rows if "error" not in row]
    kinds = [{kind_of(message) for message in row["messages"]} for row in fits]
    own = [found - {"columns in different units"} for found in kinds]
    unscaled = sum("columns in different units" in found for found in kinds)
    return {
        "name": name,
        "fits": len(fits),
        "errors": len(rows) - len(fits),
        "warn": sum(map(bool, kinds)) / max(len(fits), 1),
        "units": unscaled / max(len(fits), 1),
        "other": sum(map(bool, own)) / max(len(fits), 1),
        "most": max((len(row["messages"]) for row in fits), default=0),
    }


COLUMNS = {"name": "", "fits": "d", "errors": "d", "warn": ".0%", "units": ".0%", "other": ".0%", "most": "d"}


def main() -> None:
    """Fit everything, and store what was warned of."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--few", type=int, default=80)
    parser.add_argument("--sets", nargs="*", default=[*datasets.available(), "diabetes"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--read", type=Path, nargs="*", help="what earlier runs wrote, in place of new fits")
    given = parser.parse_args()
    done = [row for path in given.read for row in json.loads(path.read_text())] if given.read else measured(given)
    store(done, given)


def measured(given: argparse.Namespace) -> list[Row]:
    """Fit everything, and return what was warned of."""
    cards = (*list_methods(), *list_clusterings())
    done: list[Row] = []
    for name, (X, y) in real_sets(given.sets, given.rows).items():
        for card in cards:
            step = max(1, len(X) // given.few) if card.name in SLOW else 1
            done.append({"method": card.name, "set": name, **warned(card.cls, X[::step], y[::step])})
        print(summary(name, [row for row in done if row["set"] == name]), flush=True)
        if given.out:
            given.out.write_text(json.dumps(done, indent=1), encoding="utf-8")
    return done


def store(done: list[Row], given: argparse.Namespace) -> None:
    """Print and store the tables."""
    seconds = sum(row["seconds"] for row in done)
    caption = (
        f"Default fits on {len({row['set'] for row in done})} real sets of {given.rows} rows ({given.few} for slow "
        "methods): share that warns, of columns in different units and of anything else, and the most warnings of one "
        f"fit; {seconds / 60:.0f} CPU minutes."
    )
    table = Table("warning_rates", caption, COLUMNS)
    raw = {row["set"].removesuffix(STANDARDIZED) for row in done if row["set"].endswith(STANDARDIZED)}
    table.add(**summary("all, tables of different units standardized", [row for row in done if row["set"] not in raw]))
    table.add(**summary("tables of different units as they come", [row for row in done if row["set"] in raw]))
    for key in ("set", "method"):
        for name in dict.fromkeys(row[key] for row in done):
            table.add(**summary(name, [row for row in done if row[key] == name]))
    counts = Counter(kind_of(message) for row in done for message in row.get("messages", ()))
    kinds = Table("warning_rates_kinds", "What the warnings of those fits are about.", {"kind": "", "warnings": "d"})
    for kind, count in counts.most_common():
        kinds.add(kind=kind, warnings=count)


if __name__ == "__main__":
    main()
