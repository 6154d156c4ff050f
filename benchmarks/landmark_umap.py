"""UMAP of more rows than fit in memory: fitted to landmarks, and every row placed among them, block by block.

    MANIFOLDRY_DATA=folder python benchmarks/landmark_umap.py [--quick] [--part sweep large real pictures]
        [--rows 1000000] [--folder out]

Rows are those of `interpolated_digits`, 50 columns in single precision, made when they are read. ``sweep``: 1,000,000
rows by 20,000 to 500,000 landmarks, against a fit to all of them and principal components. ``large``: 10,000,000 rows
by the number of landmarks that `UMAP` takes by itself. ``real``: real sets by all of their rows, a third and a tenth.
``pictures`` draws what is in the folder. Every fit and every placement runs in a process of its own, with two threads;
its peak of memory is that of the process. All layouts are judged on the same 1,000,000 rows, because the figures depend
on how many rows there are: trustworthiness and continuity of 1,000 of them (k = 15), and the share of 10,000 rows whose
label the 15 nearest of the other rows in the picture vote for. ``--quick`` takes 20,000 rows (and 60,000 for
10,000,000) and stores no table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from interpolated_digits import BLOCK_ROWS, InterpolatedDigits, leading_columns
from peers import peak_memory
from tables import ROOT, Table

N_THREADS = 2
N_VOTERS, N_HELD_OUT, N_JUDGED = 15, 10_000, 1_000
RARE_SHARE = 0.01
FIGURE = ROOT / "docs" / "figures" / "landmarks.png"
FIGURES = ("trustworthiness", "continuity")
REAL_SETS = ("mnist", "fashion_mnist", "flow_cytometry", "citeseq_cbmc")
SIZES = {"sweep": 1_000_000, "large": 10_000_000, "landmarks": (20_000, 50_000, 100_000, 200_000, 500_000)}
QUICK_SIZES = {"sweep": 20_000, "large": 60_000, "landmarks": (2_000, 5_000)}
COLUMNS = {"layout": "", "rows": ",", "landmarks": ",", "fit s": ".0f", "fit CPU s": ".0f", "fit peak GB": ".2f"}
COLUMNS |= {"place rows/s": ",.0f", "place us/row of CPU": ".0f", "place peak GB": ".2f"}
COLUMNS |= {"trustworthiness": ".4f", "continuity": ".4f", "labels": ".4f"}


class Stages:
    """What runs in a process of its own; the folder holds the data, the models and the layouts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.digits = InterpolatedDigits.cached(folder / "digits.npz")

    def fit(self, n: int, m: int) -> None:
        """Fit UMAP to m landmarks of n rows; 0 is what it takes by itself."""
        from manifoldry import UMAP

        blocks, model = self.digits.rows(n), UMAP(n_jobs=N_THREADS)
        model.fit(blocks.sample(m, np.random.default_rng(0)).rows if m else blocks)
        model.save(self.folder / f"umap-{n}-{m}.mfy")

    def place(self, n: int, m: int) -> None:
        """Place n rows by the model of `fit`."""
        from manifoldry import load

        placed = load(self.folder / f"umap-{n}-{m}.mfy").transform(self.digits.rows(n))
        self._write(f"{n}-{m}.npy", n, placed)

    def full(self, n: int, m: int) -> None:  # noqa: ARG002
        """Fit UMAP to all of n rows in memory."""
        from manifoldry import UMAP

        X = np.concatenate(list(self.digits.rows(n)))
        np.save(self.folder / f"{n}-full.npy", UMAP(n_jobs=N_THREADS).fit_transform(X))

    def pca(self, n: int, m: int) -> None:
        """Place n rows by principal components of m."""
        from manifoldry import PCA

        blocks = self.digits.rows(n)
        model = PCA(n_components=2).fit(blocks.sample(m, np.random.default_rng(0)).rows)
        self._write(f"{n}-pca.npy", n, model.transform(blocks))

    def _write(self, name: str, n: int, placed) -> None:
        out = np.lib.format.open_memmap(self.folder / name, "w+", dtype=np.float32, shape=(n, 2))
        lo = 0
        for rows in placed:
            out[lo : lo + len(rows)] = rows
            lo += len(rows)
        out.flush()

    def judge(self, layouts: list[str], n: int) -> list[dict[str, float]]:
        """Return the figures of layouts on the first n rows."""
        from manifoldry.evaluation.score._score import score_layouts
        from manifoldry.evaluation.score._table import ScoreOptions

        X = np.concatenate(list(self.digits.rows(n)))
        Ys = [np.load(self.folder / name, mmap_mode="r")[:n] for name in layouts]
        asked = ScoreOptions(n_neighbors=N_VOTERS, sample=N_JUDGED, figures=FIGURES)
        scores = score_layouts(X, Ys, asked, n_jobs=N_THREADS)
        return [
            {**{figure: score[figure] for figure in FIGURES}, "labels": self.votes(name, n)}
            for name, score in zip(layouts, scores, strict=True)
        ]

    def votes(self, layout: str, n: int) -> float:
        """Return the share of labels that the first n rows of a layout vote for."""
        labels = np.concatenate([labels for _, labels in self.digits.blocks(n)])
        return votes(np.load(self.folder / layout, mmap_mode="r")[:n], labels)


def votes(Y: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of the last rows whose label most of the nearest others in the picture have."""
    from scipy.spatial import cKDTree

    held = min(N_HELD_OUT, len(Y) // 5)
    near = cKDTree(Y[:-held]).query(Y[-held:], N_VOTERS, workers=N_THREADS)[1]
    return float((most_frequent(labels[near]) == labels[-held:]).mean())


def rare_votes(Y: np.ndarray, labels: np.ndarray) -> float | None:
    """Return the same of all rows of rare classes; None if there are none."""
    from scipy.spatial import cKDTree

    (rows,) = np.nonzero(np.bincount(labels)[labels] < RARE_SHARE * len(labels))
    if not len(rows):
        return None
    near = cKDTree(Y).query(Y[rows], N_VOTERS + 1)[1]
    others = np.take_along_axis(near, np.argsort(near == rows[:, None], axis=1, kind="stable")[:, :N_VOTERS], 1)
    return float((most_frequent(labels[others]) == labels[rows]).mean())


def most_frequent(votes_of_rows: np.ndarray) -> np.ndarray:
    """Return the most frequent number of every row."""
    return np.array([np.bincount(row).argmax() for row in votes_of_rows])


def own_process(stage: str, n: int, m: int, folder: Path) -> dict[str, float]:
    """Run a stage in a process of its own: seconds, seconds of the processor and the peak of memory, as it says."""
    command = [sys.executable, "-W", "ignore", __file__, "--stage", stage, str(n), str(m), "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{stage} of {n:,} rows by {m:,} landmarks failed: {done.stderr[-500:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def run_stage(stage: str, n: int, m: int, folder: Path) -> None:
    """Run a stage here, after a warm-up that loads what is compiled, and print what it took."""
    from manifoldry import UMAP

    stages = Stages(folder)
    some = stages.digits.block(0, 1500)[0]
    UMAP(n_epochs=10).fit(some).transform(some[:5] + 1)
    began, cpu = time.perf_counter(), time.process_time()
    getattr(stages, stage)(n, m)
    took = {"s": time.perf_counter() - began, "CPU s": time.process_time() - cpu, "peak GB": peak_memory() / 1e9}
    print(json.dumps(took))


def measured(n: int, m: int, folder: Path) -> dict[str, float]:
    """Fit to m landmarks and place n rows; return the cells of a row of a table."""
    fit, place = own_process("fit", n, m, folder), own_process("place", n, m, folder)
    return {
        **{f"fit {name}": value for name, value in fit.items()},
        "place rows/s": n / place["s"],
        "place us/row of CPU": 1e6 * place["CPU s"] / n,
        "place peak GB": place["peak GB"],
    }


def sweep(sizes, folder: Path, stages: Stages, stored: bool) -> None:
    n = sizes["sweep"]
    rows = [{"rows": n, "landmarks": m, **measured(n, m, folder)} for m in sizes["landmarks"]]
    full = own_process("full", n, 0, folder)
    rows.append({"layout": "fit to all", "rows": n, **{f"fit {name}": value for name, value in full.items()}})
    own_process("pca", n, min(n, 100_000), folder)
    rows.append({"layout": "principal components", "rows": n})
    names = [f"{n}-{m}.npy" for m in sizes["landmarks"]] + [f"{n}-full.npy", f"{n}-pca.npy"]
    figures = stages.judge(names, n)
    caption = f"UMAP of {n:,} rows by landmarks, with {N_THREADS} threads."
    report(Table("landmark_umap_sweep", caption, COLUMNS) if stored else None, rows, figures)


def large(sizes, folder: Path, stages: Stages, stored: bool) -> None:
    n, judged = sizes["large"], sizes["sweep"]
    from manifoldry import UMAP

    rows = [{"rows": n, "landmarks": UMAP._chunk_support.n_rows, **measured(n, 0, folder)}]
    names = [f"{n}-0.npy"]
    if not (folder / f"{judged}-full.npy").exists():
        full = own_process("full", judged, 0, folder)
        rows.append({"layout": "fit to all", "rows": judged, **{f"fit {name}": value for name, value in full.items()}})
    else:
        rows.append({"layout": "fit to all", "rows": judged})
    names.append(f"{judged}-full.npy")
    figures = stages.judge(names, judged)
    rows.append({"layout": f"landmarks, votes of all {n:,}", "rows": n})
    figures.append({"labels": stages.votes(names[0], n)})
    caption = f"UMAP of {n:,} rows by landmarks, with {N_THREADS} threads, judged on {judged:,} of them."
    report(Table("landmark_umap", caption, COLUMNS) if stored else None, rows, figures)


def report(table: Table | None, rows, figures) -> None:
    """Fill a table, or print its rows where none is stored."""
    for row, found in zip(rows, figures, strict=True):
        cells = {"layout": "landmarks", **row, **found}
        print(cells) if table is None else table.add(**cells)


def real(sizes, folder: Path, stages: Stages, stored: bool) -> None:  # noqa: ARG001
    """Compare a fit to all rows with fits to some, on real sets; their pictures go to the folder."""
    from manifoldry import UMAP, datasets
    from manifoldry.evaluation.score._score import score_layouts
    from manifoldry.evaluation.score._table import ScoreOptions

    rows, figures = [], []
    for name in REAL_SETS if stored else REAL_SETS[-1:]:
        held = datasets.load(name)
        order = np.random.default_rng(0).permutation(len(held.X))
        X, labels = leading_columns(held.X)[order], np.unique(held.labels[order], return_inverse=True)[1]
        whole = UMAP(n_jobs=N_THREADS).fit_transform(X)
        layouts = {len(X): whole}
        for m in (len(X) // 3, len(X) // 10):  # rows are in random order, so the first are a sample
            layouts[m] = UMAP(n_jobs=N_THREADS).fit(X[:m]).transform(X)
        asked = ScoreOptions(n_neighbors=N_VOTERS, sample=N_JUDGED, figures=FIGURES)
        scores = score_layouts(X, list(layouts.values()), asked, n_jobs=N_THREADS)
        for (m, Y), score in zip(layouts.items(), scores, strict=True):
            rows.append({"layout": name, "rows": len(X), "landmarks": m})
            kept = {"labels": votes(Y, labels), "labels, rare": rare_votes(Y, labels)}
            figures.append({**{figure: score[figure] for figure in FIGURES}, **kept})
        path = FIGURE if stored and name == REAL_SETS[0] else folder / f"{name}.png"
        draw([(f"{name}: {m:,} of {len(X):,}", Y, labels) for m, Y in layouts.items()], path)
    columns = {"layout": "", **{name: COLUMNS[name] for name in ("rows", "landmarks", *FIGURES, "labels")}}
    columns |= {"labels, rare": ".4f"}
    caption = (
        "UMAP of real sets (up to 50 principal components) by all of their rows, a third, and a tenth. Rare labels are "
        "those of less than a hundredth of the rows."
    )
    report(Table("landmark_umap_real", caption, columns) if stored else None, rows, figures)


def pictures(sizes, folder: Path, stages: Stages, stored: bool) -> None:  # noqa: ARG001
    """Draw every layout of the folder: 131,072 of its rows, by label."""
    paths = sorted(folder.glob("*.npy"), key=lambda path: (len(path.stem), path.stem))
    labels = np.concatenate([labels for _, labels in stages.digits.blocks(2 * BLOCK_ROWS)])
    draw([(path.stem, np.load(path, mmap_mode="r")[: len(labels)], labels) for path in paths], folder / "layouts.png")


def draw(panels, path: Path) -> None:
    """Draw layouts side by side, colored by label."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    width = min(4, len(panels))
    height = -(-len(panels) // width)
    figure, axes = plt.subplots(height, width, figsize=(5 * width, 5 * height), squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for ax, (title, Y, labels) in zip(axes.flat, panels, strict=False):
        ax.scatter(*np.asarray(Y).T, c=labels[: len(Y)], s=0.3, cmap="tab20", linewidths=0)
        ax.set_title(title)
        ax.set_aspect("equal")
    figure.tight_layout()
    figure.savefig(path, dpi=60)
    plt.close(figure)
    print(path)


PARTS = {"sweep": sweep, "large": large, "real": real, "pictures": pictures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rows", type=int, help="rows of the sweep, and of the fit to all")
    parser.add_argument("--stage", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stage:
        run_stage(asked.stage[0], int(asked.stage[1]), int(asked.stage[2]), asked.folder)
        return
    with tempfile.TemporaryDirectory() as own:
        folder = Path(own) if asked.folder is None else asked.folder
        folder.mkdir(exist_ok=True, parents=True)
        stages = Stages(folder)
        sizes = dict(QUICK_SIZES if asked.quick else SIZES)
        if asked.rows:
            sizes["sweep"] = asked.rows
            sizes["landmarks"] = [m for m in sizes["landmarks"] if 2 * m <= asked.rows]
        for part in asked.part:
            PARTS[part](sizes, folder, stages, not asked.quick)


if __name__ == "__main__":
    main()
