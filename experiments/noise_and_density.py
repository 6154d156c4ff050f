"""Noise and uneven sampling of a simple surface: which of six methods still show it."""

from __future__ import annotations

from harness import Lab, experiment, main
from layouts import UNFOLDED, draw_layouts, error
from manifoldry import IPA, LLE, LTSA, MVU, Isomap, TesseraMap, datasets
from rules import Rule, at_least, at_most

N_POINTS, N_NEIGHBORS = 1500, 10
NOISE_VARIANCE = 0.001
DENSITY_RATIO = 9.0
METHODS = {
    "IPA": (IPA, {}),
    "TesseraMap": (TesseraMap, {}),
    "MVU": (MVU, {"n_neighbors": N_NEIGHBORS}),
    "Isomap": (Isomap, {"n_neighbors": N_NEIGHBORS}),
    "LTSA": (LTSA, {"n_neighbors": N_NEIGHBORS}),
    "LLE": (LLE, {"n_neighbors": N_NEIGHBORS}),
}
KINDS = {"clean": {}, "noisy": {"noise": NOISE_VARIANCE**0.5}, "uneven": {"unevenness": DENSITY_RATIO}}
WITHOUT_SCALE = ("LTSA", "LLE")
"""Judged up to an affine map, for they do not keep lengths."""

TRIED = (
    "TesseraMap on the noisy points, tried by hand: 4 distances per border, as before, 0.104 with slack 0.01 and 0.205 "
    "with slack 0.001; 12 distances, now the default, 0.018 with either, and 0.018 and 0.019 with two other seeds. "
    "With 12 the layout is solved in two dimensions at the end, so it is not the solution that the certificate proves."
)


def shows(said: str) -> Rule:
    """Ask for a layout that shows the surface."""
    return at_most(UNFOLDED, said)


def hides(said: str) -> Rule:
    """Ask for a layout that does not."""
    return at_least(UNFOLDED, said)


WORDS = {
    "clean": dict.fromkeys(METHODS, shows("acceptable")),
    "noisy": {
        "IPA": shows("able to cancel the effect of noise"),
        "TesseraMap": shows("able to cancel the effect of noise"),
        "Isomap": shows("able to cancel the effect of noise"),
        "MVU": hides("highly sensitive to noise"),
        "LTSA": hides("highly sensitive to noise"),
        "LLE": shows("affected, but still acceptable"),
    },
    "uneven": {
        "IPA": shows("robust with respect to sampling"),
        "TesseraMap": shows("robust with respect to sampling"),
        "MVU": shows("acceptable, robust"),
        "Isomap": hides("distorted"),
        "LTSA": hides("distorted"),
        "LLE": hides("distorted"),
    },
}


@experiment("Noise and uneven sampling", source="khajehpour2013, Fig. 5.5")
def noise_and_density(lab: Lab) -> None:
    errors: dict[str, dict[str, float]] = {kind: {} for kind in KINDS}
    for kind, options in KINDS.items():
        data = datasets.s_curve(N_POINTS, random_state=0, **options)
        layouts = {name: make(**settings).fit_transform(data.X) for name, (make, settings) in METHODS.items()}
        for name, Y in layouts.items():
            errors[kind][name] = error(Y, data.truth, "affine" if name in WITHOUT_SCALE else "rigid")
        with lab.figure(kind, size=(14, 2.4)) as figure:
            draw_layouts(figure, layouts, data.truth[:, 0])
    for kind, rules in WORDS.items():
        for name, rule in rules.items():
            lab.claim(f"{kind}: error of {name}", errors[kind][name], rule)
    worse = errors["noisy"]["LLE"] / errors["clean"]["LLE"]
    lab.claim("LLE: error of noisy points over that of clean ones", worse, at_least(1.0, "has been affected too"))
    lab.note(f"The surface is an S-curve of {N_POINTS} points, {N_NEIGHBORS} neighbors: neither is stated.")
    lab.note(TRIED)


if __name__ == "__main__":
    main(noise_and_density)
