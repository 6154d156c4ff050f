"""What the relatives of PCA gain over it on real data, and where they do not: one table and one picture.

    python benchmarks/linear.py

Every row compares a method with PCA in a figure of its own, on data that ask for the method or do not. Takes two
minutes of one core. The sets of faces and cities need ``MANIFOLDRY_DATA``; rows of sets that are absent are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from manifoldry import (
    L1PCA,
    PCA,
    FastICA,
    InfomaxICA,
    MultilinearPCA,
    PolynomialPCA,
    ProbabilisticPCA,
    RobustPCA,
    datasets,
)
from manifoldry.data.datasets import available
from tables import Table

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "salted_digits.png"
Row = dict[str, Any]


def standardized(name: str) -> np.ndarray:
    X = np.asarray(datasets.load(name).X, dtype=float)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def error(found: np.ndarray, clean: np.ndarray, where: Any = slice(None)) -> float:
    """Return the root mean square error relative to the columns' standard deviation."""
    spread = (clean - clean.mean(axis=0))[where]
    return float(np.sqrt(((found - clean)[where] ** 2).sum() / (spread**2).sum()))


def label_error(places: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of points whose nearest other point has another label."""
    near = KNeighborsClassifier(1).fit(places, labels)
    return float((labels[near.kneighbors(n_neighbors=1)[1][:, 0]] != labels).mean())


def salted(X: np.ndarray, share: float) -> np.ndarray:
    return np.where(np.random.default_rng(0).random(X.shape) < share, X.max(), X)


def occluded(X: np.ndarray, shape: tuple[int, int], side: int) -> np.ndarray:
    rng, images = np.random.default_rng(0), X.reshape(-1, *shape).copy()
    for image in images:
        row, column = rng.integers(0, shape[0] - side), rng.integers(0, shape[1] - side)
        image[row : row + side, column : column + side] = X.max() * rng.integers(0, 2)
    return images.reshape(X.shape)


def subspace_angle(model: Any, clean: Any) -> float:
    """Return the largest angle in degrees between two subspaces of components."""
    cosines = np.linalg.svd(model.components_ @ clean.components_.T, compute_uv=False)
    return float(np.degrees(np.arccos(min(1.0, cosines.min()))))


def robust_rows() -> Iterator[Row]:
    digits = datasets.load("digits")
    X, y = digits.X.astype(float)[:900], np.asarray(digits.labels)[:900]
    corrupted = [("digits, 10% salt", X, salted(X, 0.1), 10)]
    if "frey_faces" in available():
        faces = datasets.load("frey_faces").X.astype(float)[::8]
        corrupted.append(("246 Frey faces, 6 x 6 block hidden", faces, occluded(faces, (28, 20), 6), 20))
    for name, clean, dirty, d in corrupted:
        model, pca = RobustPCA(n_components=d).fit(dirty), PCA(n_components=d).fit(dirty)
        plain = pca.inverse_transform(pca.embedding_)
        yield row(RobustPCA, name, "error of the restored table", error(plain, clean), error(model.low_rank_, clean))
        if clean is X:
            draw(clean, dirty, model, plain)
            places = [label_error(each.embedding_, y) for each in (pca, model)]
            yield row(RobustPCA, name, "nearest-neighbor label error", *places)
    places = [label_error(cls(n_components=10).fit_transform(X), y) for cls in (PCA, RobustPCA)]
    yield row(RobustPCA, "digits as they are", "nearest-neighbor label error", *places)


def l1_rows() -> Iterator[Row]:
    for name in ("wine", "olive_oil"):
        if name not in available():
            continue
        X = standardized(name)
        clean = PCA(n_components=2).fit(X)
        for share in (0.01, 0.05):
            dirty, far = X.copy(), np.random.default_rng(0).standard_normal(X.shape[1])
            dirty[: int(np.ceil(share * len(X)))] += 20 * far / np.linalg.norm(far)
            angles = [subspace_angle(cls(n_components=2).fit(dirty), clean) for cls in (PCA, L1PCA)]
            yield row(L1PCA, f"{name}, {share:.0%} of rows far away", "angle to the clean plane, degrees", *angles)
        kept = [cls(n_components=2).fit_transform(X).var(axis=0).sum() / X.var(axis=0).sum() for cls in (PCA, L1PCA)]
        yield row(L1PCA, f"{name} as it is", "share of variance lost", *(1 - share for share in kept))


def missing_rows() -> Iterator[Row]:
    tables = {"wine": (standardized("wine"), 4), "digits": (datasets.load("digits").X.astype(float)[:900], 15)}
    for name, (X, d) in tables.items():
        for share in (0.1, 0.4):
            gaps = np.random.default_rng(0).random(X.shape) < share
            holes = np.where(gaps, np.nan, X)
            filled = np.where(gaps, np.nanmean(holes, axis=0), X)
            pca, model = PCA(n_components=d).fit(filled), ProbabilisticPCA(n_components=d).fit(holes)
            plain = pca.inverse_transform(pca.embedding_)
            errors = error(plain, X, gaps), error(model.impute(holes), X, gaps)
            yield row(ProbabilisticPCA, f"{name}, {share:.0%} missing", "error of the filled entries", *errors)


def source_rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for name, n in (("8 mixed sources", 4000), ("8 mixed sources", 400)):
        S = np.column_stack([*rng.laplace(size=(4, n)), *rng.uniform(-1, 1, size=(4, n))])
        X = S @ rng.standard_normal((8, 8))
        found = {}
        for cls in (PCA, InfomaxICA, FastICA):
            match = np.abs(np.corrcoef(S.T, cls(n_components=8).fit_transform(X).T)[:8, 8:])
            found[cls] = 1 - float(match.max(axis=1).mean())
        figure = f"1 - correlation with the sources (FastICA: {found[FastICA]:.4f})"
        yield row(InfomaxICA, f"{name}, {n:,} rows", figure, found[PCA], found[InfomaxICA])
    digits = datasets.load("digits")
    places = [
        label_error(cls(n_components=10).fit_transform(digits.X), np.asarray(digits.labels))
        for cls in (PCA, InfomaxICA)
    ]
    yield row(InfomaxICA, "digits as they are", "nearest-neighbor label error", *places)


def tensor_rows() -> Iterator[Row]:
    for name, shape in (("frey_faces", (28, 20)), ("isomap_faces32", (32, 32)), ("olivetti_faces", (64, 64))):
        if name not in available():
            continue
        X = datasets.load(name).X.astype(float)
        train, test = X[::2][:400], X[1::2][:400]
        k, p = 20, X.shape[1]
        pca = PCA(n_components=k).fit(train)
        plain = error(pca.inverse_transform(pca.transform(test)), test)
        ranks = tuple(int(0.6 * size) for size in shape)
        stored = k * p + len(test) * k
        d = (stored - sum(size * rank for size, rank in zip(shape, ranks, strict=True))) // len(test)
        most = min(d, len(train) - 1, int(np.prod(ranks)))
        for count, figure in ((k, "20 coordinates"), (most, f"{stored:,} numbers stored, {most} coordinates")):
            model = MultilinearPCA(n_components=count, shape=shape, ranks=ranks).fit(train)
            found = error(model.inverse_transform(model.transform(test)), test)
            yield row(
                MultilinearPCA, f"{name}, {len(test)} new rows", f"error of restored rows: {figure}", plain, found
            )


def equation_rows() -> Iterator[Row]:
    if "cities" in available():
        X = datasets.load("cities").X[::100]
        model, pca = PolynomialPCA(degree=2).fit(X), PCA(n_components=3).fit(X)
        plain = np.sqrt(pca.explained_variance_[-1] / pca.explained_variance_.mean())
        found = model.diagnostics_["equation_deviation"]
        yield row(PolynomialPCA, "cities on the globe", "deviation along the last component", float(plain), found)
    for name, d in (("wine", 5), ("digits", 10)):
        data = datasets.load(name)
        X = standardized(name) if name == "wine" else data.X[:900].astype(float)
        labels = np.asarray(data.labels)[: len(X)]
        places = [label_error(cls(n_components=d).fit_transform(X), labels) for cls in (PCA, PolynomialPCA)]
        yield row(PolynomialPCA, f"{name} as they are", "nearest-neighbor label error", *places)


def row(cls: type, data: str, figure: str, of_pca: float, of_method: float) -> Row:
    return {"method": cls.__name__, "data": data, "figure": figure, "PCA": of_pca, "this": of_method}


def draw(clean: np.ndarray, dirty: np.ndarray, model: RobustPCA, plain: np.ndarray) -> None:
    """Write the picture of some digits: clean, salted, restored, what was taken for errors, and by PCA."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = {"clean": clean, "salted": dirty, "RobustPCA": model.low_rank_, "its errors": model.sparse_, "PCA": plain}
    figure, axes = plt.subplots(len(lines), 12, figsize=(7.2, 3.2))
    for panels, (name, images) in zip(axes, lines.items(), strict=True):
        for i, panel in enumerate(panels):
            panel.imshow(images[i].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
            panel.set_xticks([])
            panel.set_yticks([])
        panels[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    figure.tight_layout(pad=0.3)
    figure.savefig(PICTURE, dpi=80, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    """Measure all rows, and store them one by one."""
    warnings.simplefilter("ignore")
    caption = "Relatives of PCA beside PCA with as many components. Every figure is an error: smaller is better."
    columns = {"method": "", "data": "", "figure": "", "PCA": ".3g", "this": ".3g"}
    table = Table("linear", caption, columns)
    parts: tuple[Callable[[], Iterator[Row]], ...] = (
        robust_rows,
        l1_rows,
        missing_rows,
        source_rows,
        tensor_rows,
        equation_rows,
    )
    for part in parts:
        for cells in part():
            table.add(**cells)


if __name__ == "__main__":
    main()
