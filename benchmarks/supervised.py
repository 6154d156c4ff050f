"""What targets do to held-out rows: fits with ``y`` at several weights, and rows placed without labels.

    MANIFOLDRY_DATA=folder python benchmarks/supervised.py [--rows 600] [--part classes semi shuffled numbers pictures]

``classes``: error of five nearest neighbors in the embedding, on the rows of three folds that the fit has not seen and
that ``transform`` placed without their labels: ``make_pipeline(method, KNeighborsClassifier())`` at every
``target_weight``; 0 is the fit without labels. ``semi``: one label in ten is known, the others are -1; error of the
nearest labeled point, on the unlabeled rows of the same fit. ``shuffled``: as ``classes`` with labels that mean
nothing, and the error on the rows of the fit itself. ``numbers``: R2 of held-out numbers, by five neighbors.
``pictures`` draws the digits: dots are rows of the fit, crosses held-out rows in their true colors.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from manifoldry import IPA, LLE, LPP, MVU, Isomap, LaplacianEigenmaps
from real_sets import SETS, RealSet
from tables import ROOT, Table

WEIGHTS = (0.0, 0.3, 0.5, 0.7, 0.9, 1.0)
N_ROWS, N_MVU_ROWS = 600, 200
"""Rows of a set at the most; the semidefinite program of MVU takes fewer."""
N_FOLDS, N_VOTERS, KNOWN_SHARE = 3, 5, 0.1
MVU_SETS = ("wine", "olive_oil", "digits")
"""Sets that MVU is fitted to; one label in ten only in the first two."""
CLASS_SETS = ("wine", "olive_oil", "digits", "pbmc3k", "flow")
SHOWN_WEIGHT = 0.7
FIGURE = ROOT / "docs" / "figures" / "supervised.png"
ERRORS = {f"w = {weight:g}": ".1f" for weight in WEIGHTS}


def methods(n_components: int, mvu: bool = False) -> list:
    """Return the methods that take targets, with MVU where its time is wanted."""
    found = [method(n_components=n_components) for method in (Isomap, LLE, LaplacianEigenmaps, LPP, IPA)]
    return [*found, MVU(n_components=n_components, constraints="at most")] if mvu else found


def rows_for(model, data: RealSet, n_rows: int) -> RealSet:
    """Return the rows that a method is given."""
    return data.sample(min(n_rows, N_MVU_ROWS) if isinstance(model, MVU) else n_rows)


def held_out(model, data: RealSet, y: np.ndarray, vote) -> tuple[float, float]:
    """Return the mean score of a vote in the embedding on held-out rows, and on those of the fit."""
    folds = (KFold if data.labels is None else StratifiedKFold)(N_FOLDS, shuffle=True, random_state=0)
    scores = []
    for fit, left in folds.split(data.X, y):
        known, new = data.X[fit], data.X[left]
        if model is not None:
            fitted = clone(model).fit(data.X[fit], y[fit])
            known, new = fitted.embedding_, fitted.transform(data.X[left])
        voted = vote.fit(known, y[fit])
        scores.append((voted.score(new, y[left]), voted.score(known, y[fit])))
    left, fit = np.mean(scores, axis=0)
    return float(left), float(fit)


def by_weight(model, score, weights=WEIGHTS) -> dict[str, float]:
    """Return a score at every weight of the targets, in percent."""
    return {f"w = {w:g}": 100 * score(clone(model).set_params(target_weight=w)) for w in weights}


def classes(n_rows: int) -> None:
    """Measure the error of held-out rows."""
    caption = f"error of {N_VOTERS} nearest neighbors, percent of the rows held out, which were placed without labels"
    columns = {"data": "", "rows": ",", "dimensions": "", "method": "", **ERRORS}
    table = Table("supervised", caption, columns)
    for name in CLASS_SETS:
        data = SETS[name]()
        raw = data.sample(n_rows)
        vote = KNeighborsClassifier(N_VOTERS)
        error = 100 * (1 - held_out(None, raw, raw.labels, vote)[0])
        table.add(data=name, rows=len(raw.X), dimensions=str(raw.X.shape[1]), method="none", **{"w = 0": error})
        for n_components in (2, 8):
            mvu = name in MVU_SETS and n_components == 2
            for model in methods(min(n_components, raw.X.shape[1] - 1), mvu):
                part = rows_for(model, data, n_rows)

                def missed(told, part=part, vote=vote) -> float:
                    return 1 - held_out(told, part, part.labels, vote)[0]

                facts = {"data": name, "rows": len(part.X), "dimensions": str(model.n_components)}
                table.add(**facts, method=type(model).__name__, **by_weight(model, missed))


def semi(n_rows: int) -> None:
    """Measure the error of unlabeled rows of the fit."""
    caption = "error of the nearest labeled point in 2 dimensions, percent of the nine in ten rows without a label"
    table = Table("supervised_semi", caption, {"data": "", "rows": ",", "method": "", **ERRORS})
    for name in CLASS_SETS:
        data = SETS[name]()
        for model in [None, *methods(2, name in MVU_SETS[:2])]:
            part = rows_for(model, data, n_rows)
            known = np.random.default_rng(0).random(len(part.X)) < KNOWN_SHARE
            y = np.where(known, np.unique(part.labels, return_inverse=True)[1], -1)
            truth = np.unique(part.labels, return_inverse=True)[1]

            def missed(told, part=part, known=known, y=y, truth=truth) -> float:
                Y = part.X if told is None else told.fit(part.X, y).embedding_
                vote = KNeighborsClassifier(1).fit(Y[known], truth[known])
                return 1 - float(vote.score(Y[~known], truth[~known]))

            errors = {"w = 0": 100 * missed(None)} if model is None else by_weight(model, missed)
            table.add(data=name, rows=len(part.X), method="none" if model is None else type(model).__name__, **errors)


def shuffled(n_rows: int) -> None:
    """Measure what is seen in labels that mean nothing."""
    caption = "shuffled labels of the digits in 2 dimensions: error on the rows of the fit itself, and on held-out rows"
    table = Table("supervised_shuffled", caption, {"method": "", "rows": ",", "of": "", **ERRORS})
    data = SETS["digits"]()
    for model in methods(2):
        part = rows_for(model, data, n_rows)
        y = np.random.default_rng(1).permutation(part.labels)
        found = {}
        for weight in WEIGHTS:
            told = clone(model).set_params(target_weight=weight)
            found[weight] = held_out(told, part, y, KNeighborsClassifier(N_VOTERS))
        for place, of in ((1, "the fit"), (0, "held-out rows")):
            errors = {f"w = {weight:g}": 100 * (1 - scores[place]) for weight, scores in found.items()}
            table.add(method=type(model).__name__, rows=len(part.X), of=of, **errors)


def numbers(n_rows: int) -> None:
    """Measure the share of the variance of held-out numbers that neighbors explain."""
    caption = "quality of wine as a number in 2 dimensions: R2 of held-out rows by five neighbors, in percent"
    columns = {"method": "", "rows": ",", **{name: form for name, form in ERRORS.items() if name != "w = 1"}}
    table = Table("supervised_numbers", caption, columns)
    data = SETS["wine_quality"]()
    for model in [None, *methods(2)]:
        part = rows_for(model, data, n_rows)

        def explained(told, part=part) -> float:
            return held_out(told, part, part.targets[:, 0], KNeighborsRegressor(N_VOTERS))[0]

        if model is None:
            table.add(method="none", rows=len(part.X), **{"w = 0": 100 * explained(None)})
        else:
            told = clone(model).set_params(target_metric="numeric")
            table.add(method=type(model).__name__, rows=len(part.X), **by_weight(told, explained, WEIGHTS[:-1]))


def pictures(n_rows: int) -> None:
    """Draw digits: without labels, with all, with one in ten, and with labels that mean nothing."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    data = SETS["digits"]().sample(n_rows)
    rng = np.random.default_rng(0)
    left = rng.random(len(data.X)) < 1 / N_FOLDS
    X, y = data.X[~left], data.labels[~left]
    told = {
        "without labels": (0.0, y),
        f"all labels, w = {SHOWN_WEIGHT:g}": (SHOWN_WEIGHT, y),
        f"one in ten, w = {SHOWN_WEIGHT:g}": (SHOWN_WEIGHT, np.where(rng.random(len(y)) < KNOWN_SHARE, y, -1)),
        f"shuffled labels, w = {SHOWN_WEIGHT:g}": (SHOWN_WEIGHT, rng.permutation(y)),
    }
    shown = (Isomap, LaplacianEigenmaps, IPA)
    figure, axes = plt.subplots(len(shown), len(told), figsize=(12, 9), constrained_layout=True)
    for row, method in zip(axes, shown, strict=True):
        for axis, (title, (weight, targets)) in zip(row, told.items(), strict=True):
            model = method(target_weight=weight).fit(X, targets)
            shuffled_ones = title.startswith("shuffled")
            axis.scatter(*model.embedding_.T, c=targets if shuffled_ones else y, cmap="tab10", s=5, lw=0)
            axis.scatter(*model.transform(data.X[left]).T, c=data.labels[left], cmap="tab10", s=22, marker="x", lw=0.8)
            axis.set(title=f"{method.__name__}, {title}", xticks=[], yticks=[])
            axis.title.set_size(9)
    figure.savefig(FIGURE, dpi=80)


PARTS = {"classes": classes, "semi": semi, "shuffled": shuffled, "numbers": numbers, "pictures": pictures}


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=N_ROWS, help="Rows of a set at the most.")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in options.part:
        PARTS[part](options.rows)


if __name__ == "__main__":
    main()
