"""698 rendered faces: a linear map learned from 35 of them orders all the others by pose."""

from __future__ import annotations

import numpy as np

from harness import Lab, Reason, experiment, main
from manifoldry import EAT
from rules import at_least, no_less

TRAIN, N_NEIGHBORS = 35, 4
LIGHT, PAN, TILT = range(3)
DARK_SHARE = 0.25
"""Images among this share of least brightness count as dark; the source has none of them among the 35."""


@experiment("Faces from 35 training images", source="khajehpour2013, Fig. 2.4", needs=("isomap_faces32",))
def isomap_faces(lab: Lab) -> None:
    data = lab.load("isomap_faces32")
    pose, brightness = np.asarray(data.parameters), data.X.mean(axis=1)
    dark = brightness < np.quantile(brightness, DARK_SHARE)
    train = np.random.default_rng(0).choice(np.flatnonzero(~dark), TRAIN, replace=False)
    test = np.setdiff1d(np.arange(len(data.X)), train)
    model = EAT(n_components=2, kernel="linear", n_neighbors=N_NEIGHBORS).fit(data.X[train])
    placed, dark = model.transform(data.X[test]), dark[test]
    pan, tilt, light = (explained(placed, pose[test, what]) for what in (PAN, TILT, LIGHT))
    lab.claim("share of the pan explained, new images", pan, at_least(0.5, "the horizontal axis"))
    follows_light = Reason(
        "the second axis follows the light instead: share of the light explained over that of the tilt",
        lambda: light / tilt,
        no_less(1.0),
    )
    lab.claim("share of the tilt explained, new images", tilt, at_least(0.5, "the vertical axis"), reason=follows_light)
    together = _same(placed, dark)
    lab.claim("dark images among the ten nearest of a dark one", together, at_least(0.5, "organized together"))
    for words, what, reason in (("pan", PAN, None), ("tilt", TILT, follows_light)):
        share = explained(placed[dark], pose[test, what][dark])
        lab.claim(f"share of the {words} explained, dark images", share, at_least(0.5, "correct trends"), reason=reason)
    lab.note(
        f"Light explained {light:.2f}; a quarter of the images is dark and none of them among the {TRAIN}; "
        f"{N_NEIGHBORS} neighbors; images of 32 x 32; gap of the certificate {model.certificate_.gap:.1e}."
    )
    with lab.figure(size=(10, 5)) as figure:
        for axes, colors in zip(figure.subplots(1, 2), (pose[:, PAN], brightness), strict=True):
            axes.scatter(*placed.T, c=colors[test], s=8, linewidths=0)
            axes.scatter(*model.embedding_.T, c=colors[train], s=30, edgecolors="tab:blue")


def explained(Y: np.ndarray, values: np.ndarray) -> float:
    """Return the share of the variance of ``values`` that a linear function of Y explains."""
    design = np.column_stack([np.ones(len(Y)), Y])
    left = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(1 - np.square(left).sum() / np.square(values - values.mean()).sum())


def _same(Y: np.ndarray, marked: np.ndarray) -> float:
    """Return the share of marked points among the ten nearest of a marked point."""
    distances = np.linalg.norm(Y[marked][:, None] - Y, axis=2)
    return float(marked[np.argsort(distances, axis=1)[:, 1:11]].mean())


if __name__ == "__main__":
    main(isomap_faces)
