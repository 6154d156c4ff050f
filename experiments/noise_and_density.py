"""Noise and uneven sampling of a simple surface: what becomes of each method's error."""

from __future__ import annotations

import numpy as np

from harness import Lab, at_least, at_most, experiment, main
from manifoldry import IPA, LTSA, Isomap, datasets, quality

N_POINTS = 1500
NOISE_VARIANCE = 0.001
DENSITY_RATIO = 9.0
N_PATCHES = 16
N_SEEDS = 10
METHODS = {
    "IPA": lambda seed: IPA(n_patches=N_PATCHES, random_state=seed),
    "IPA, own number of patches": lambda seed: IPA(random_state=seed),
    "LTSA": lambda _: LTSA(n_neighbors=10),
    "Isomap": lambda _: Isomap(n_neighbors=10),
}
KINDS = {"clean": {}, "noisy": {"noise": NOISE_VARIANCE**0.5}, "uneven": {"unevenness": DENSITY_RATIO}}


@experiment("Noise and uneven sampling", source="khajehpour2013, Fig. 5.5", quick=True)
def noise_and_density(lab: Lab) -> None:
    errors = {name: {kind: [] for kind in KINDS} for name in METHODS}
    for seed in range(lab.pick(N_SEEDS, 3)):
        clean = datasets.s_curve(N_POINTS, random_state=seed)
        for kind, options in KINDS.items():
            data = datasets.s_curve(N_POINTS, random_state=seed, **options)
            for name, make in METHODS.items():
                method = make(seed).fit(data.X)
                errors[name][kind].append(_error(method, clean if kind == "noisy" else data))
                if seed == 0:
                    _draw(lab, name, kind, method.embedding_, data.truth)
    middle = {name: {kind: float(np.median(found)) for kind, found in of.items()} for name, of in errors.items()}
    for kind in ("noisy", "uneven"):
        ours = middle["IPA"][kind] / middle["IPA"]["clean"]
        lab.claim(f"IPA, {kind}: error over that of clean, even points", ours, at_most(2.0, within=0))
        ltsa = middle["LTSA"][kind] / middle["LTSA"]["clean"]
        lab.claim(f"LTSA, {kind}: the same ratio", ltsa, at_least(10.0, within=0))
    worse = middle["Isomap"]["noisy"] / middle["IPA"]["noisy"]
    lab.claim("Isomap's error over IPA's, noisy", worse, at_least(2.0, within=0))
    worse = middle["Isomap"]["uneven"] / middle["IPA"]["uneven"]
    lab.claim("Isomap's error over IPA's, uneven", worse, at_least(2.0, within=0))
    for name, of in middle.items():
        lab.note(f"{name}: " + ", ".join(f"{kind} {value:.2g}" for kind, value in of.items()))
    lab.note(
        "The surface is an S-curve. The map learned from noisy points is judged at the clean ones, for no map can tell "
        f"noise along the surface from position. The claims are on {N_PATCHES} patches: with a number of its own IPA "
        "is ten times better on clean points, which noise and thin sampling then limit."
    )


def _error(method, data: datasets.Dataset) -> float:
    """Return the rigid error of the map at the points of a data set."""
    return float(np.sqrt(quality.procrustes(method.transform(data.X), data.truth).error))


def _draw(lab: Lab, name: str, kind: str, Y: np.ndarray, truth: np.ndarray) -> None:
    with lab.figure(f"{name}-{kind}", size=(3, 2.4)) as figure:
        axes = figure.subplots()
        axes.scatter(*Y.T, c=truth[:, 0], s=4, linewidths=0)
        axes.set_title(f"{name}, {kind}", fontsize=9)
        axes.set_aspect("equal")
        axes.set_axis_off()


if __name__ == "__main__":
    main(noise_and_density)
