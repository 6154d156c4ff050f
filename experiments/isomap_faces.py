"""698 rendered faces: a linear map learned from 35 of them orders all the others by pose."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_least, experiment, main
from manifoldry import EAT, PCA

TRAIN, N_NEIGHBORS = 35, 4
LIGHT, PAN, TILT = range(3)
WHY_TILT_IS_WEAK = (
    "of the three degrees of freedom the second axis follows the light more than the tilt, for any of 3 to 5 neighbors"
)


@experiment("Faces from 35 training images", source="khajehpour2013, Fig. 2.4", needs=("isomap_faces32",))
def isomap_faces(lab: Lab) -> None:
    data = lab.load("isomap_faces32")
    pose = np.asarray(data.parameters)
    train = np.random.default_rng(0).choice(len(data.X), TRAIN, replace=False)
    test = np.setdiff1d(np.arange(len(data.X)), train)
    model = EAT(n_components=2, kernel="linear", n_neighbors=N_NEIGHBORS).fit(data.X[train])
    placed = model.transform(data.X[test])
    linear = PCA(n_components=2).fit(data.X[train]).transform(data.X[test])
    pan = explained(placed, pose[test, PAN])
    lab.claim("share of the pan explained, new images", pan, at_least(0.5, within=0, said="an axis"))
    lab.claim("the same over that of PCA", pan / explained(linear, pose[test, PAN]), at_least(1.0))
    tilt = explained(placed, pose[test, TILT])
    lab.claim(
        "share of the tilt explained, new images",
        tilt,
        at_least(0.3, within=0, said="an axis"),
        reason=WHY_TILT_IS_WEAK,
    )
    light = explained(placed, pose[test, LIGHT])
    lab.note(f"light explained {light:.2f}; gap of the certificate {model.certificate_.gap:.1e}; images of 32 x 32")
    with lab.figure(size=(5, 5)) as figure:
        axes = figure.subplots()
        axes.scatter(*placed.T, c=pose[test, PAN], s=8, linewidths=0)
        axes.scatter(*model.embedding_.T, c=pose[train, PAN], s=30, edgecolors="tab:blue")


def explained(Y: np.ndarray, values: np.ndarray) -> float:
    """Return the share of the variance of ``values`` that a linear function of Y explains."""
    design = np.column_stack([np.ones(len(Y)), Y])
    left = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(1 - np.square(left).sum() / np.square(values - values.mean()).sum())


if __name__ == "__main__":
    main(isomap_faces)
