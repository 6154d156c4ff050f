"""Draw the plots of the benchmarks from the tables that they store: ``python docs/benchmark_plots.py``.

A plot holds the digest of its table, and a test compares it with the stored table, so that no plot is older.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS.parent / "benchmarks" / "results"
OURS, OTHERS = "#0a7d91", ("#d9480f", "#e8a33d", "#868e96", "#5f3dc4")
"""Colors of manifoldry and of the other libraries, which color-blind readers distinguish too."""
DEVICES = {"cuda": "on a GPU", "torchdr InfoTSNE": "TorchDR's InfoTSNE", "cores": "on 16 cores", "core": "on one core"}
Rows = list[dict[str, Any]]


def digest(name: str) -> str:
    """Return what a plot must hold: a digest of its table."""
    return hashlib.sha256((RESULTS / f"{name}.json").read_bytes()).hexdigest()


def bars(
    ax: Any, groups: dict[str, dict[str, float]], unit: str, *, ours: str = "manifoldry", log: bool = False
) -> None:
    """Draw each entry of each group with its number: as a bar from 0, or as a dot on a logarithmic scale."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    others = dict(zip([name for name in names if name not in (ours, "")], OTHERS * 3, strict=False))
    position, ticks = 0.0, []
    for group in groups.values():
        began = position
        for name, value in group.items():
            color = others.get(name, OURS)
            if log:
                ax.plot(value, position, "o", color=color)
            else:
                ax.barh(position, value, 0.85, color=color)
            ax.annotate(f"{value:.3g}  {name}", (value, position), (6, 0), textcoords="offset points", va="center")
            position += 1
        ticks.append((began + position - 1) / 2)
        position += 0.7
    ax.set_yticks(ticks, list(groups))
    ax.invert_yaxis()
    values = [value for group in groups.values() for value in group.values()]
    if log:
        ax.set_xscale("log")
        ax.grid(axis="x", alpha=0.3)
    ax.set_xlim(min(values) / 2 if log else 0, max(values) * (20 if log else 1.35))  # room for the names
    ax.set_xlabel(unit)


def large_fits(ax: Any, rows: Rows) -> None:
    """Seconds of large fits, by library; of methods that another library has."""
    groups: dict[str, dict[str, float]] = {}
    for row in rows:
        groups.setdefault(f"{row['fit']}\n{row['rows']:,} rows", {})[row["library"]] = row["seconds"]
    bars(ax, {name: group for name, group in groups.items() if len(group) > 1}, "seconds with two threads")


def small_fits(ax: Any, rows: Rows) -> None:
    """CPU milliseconds of small fits, compared with scikit-learn."""
    groups = {
        f"{row['method']}\n{row['data']}": {"manifoldry": row["all"], "scikit-learn": row["scikit-learn"]}
        for row in rows
        if "scikit-learn" in row
    }
    bars(ax, groups, "CPU milliseconds with one thread", log=True)


def growth(ax: Any, rows: Rows) -> None:
    """CPU seconds over the number of rows: a color and a marker for each method, a style for each data set."""
    lines = [row for row in rows if row["version"] == "now"]
    methods, data = (list(dict.fromkeys(row[key] for row in lines)) for key in ("method", "data"))
    for row in lines:
        number = methods.index(row["method"])
        points = {int(key.replace(",", "")): value for key, value in row.items() if key.replace(",", "").isdigit()}
        points = dict(sorted((count, value) for count, value in points.items() if value is not None))
        label = f"{row['method']}, {row['data']}"
        label += f" (exponent {row['exponent']:.2f})" if "exponent" in row else ""
        style = f"C{number}{'osD^vP'[number % 6]}{('-', '--')[data.index(row['data']) % 2]}"
        ax.plot(list(points), list(points.values()), style, label=label)
    ax.set_xscale("log")
    ax.set_yscale("log")
    counts = sorted({int(count) for line in ax.get_lines() for count in line.get_xdata()})
    ax.set_xticks(counts, [f"{count:,}" for count in counts], minor=False, rotation=30, ha="right")
    ax.minorticks_off()
    ax.set_xlabel("rows")
    ax.set_ylabel("CPU seconds with one thread")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def scaling(ax: Any, rows: Rows) -> None:
    """Speedup on 16 cores that the measured serial part and the cost of calls predict."""
    groups = {f"{row['fit']}\n{row['rows']:,} rows": {"": row["speedup"]} for row in rows}
    bars(ax, groups, "speedup on 16 cores, predicted from the measured serial part")


def gpu(ax: Any, rows: Rows) -> None:
    """Seconds on a GPU; on 16 cores, on one, and of TorchDR where these were measured."""
    groups: dict[str, dict[str, float]] = {}
    for row in rows:
        label = re.sub(r" (MNIST|[0-9]+M)$", "", row["call"])
        label = f"{label}\n{row['data']}, {row['rows']:,} rows"
        if "seconds" in row:
            groups.setdefault(label, {})[DEVICES[row["device"]]] = row["seconds"]
    bars(
        ax,
        {name: group for name, group in groups.items() if DEVICES["cuda"] in group},
        "seconds",
        ours=DEVICES["cuda"],
        log=True,
    )


PLOTS: dict[str, tuple[Callable[[Any, Rows], None], tuple[float, float]]] = {
    "large_fits": (large_fits, (7.5, 4.2)),
    "small_fits": (small_fits, (7.5, 7.0)),
    "growth": (growth, (8.5, 4.6)),
    "scaling": (scaling, (7.5, 4.2)),
    "gpu": (gpu, (7.5, 8.0)),
}
"""What draws the plot of a table, and its size in inches."""


def main() -> None:
    """Draw every plot."""
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9})
    for name, (draw, size) in PLOTS.items():
        figure, ax = plt.subplots(figsize=size, layout="constrained")
        draw(ax, json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"])
        metadata = {"Software": None, "Description": digest(name)}
        figure.savefig(DOCS / "figures" / f"benchmark_{name}.png", dpi=110, metadata=metadata)
        plt.close(figure)


if __name__ == "__main__":
    main()
