"""Seconds of the stretching family on two cores: our own targets, and what the source says of their limits."""

from __future__ import annotations

from harness import Lab, experiment, main
from manifoldry import EAT, MVU, FastMVU, TesseraMap, datasets
from rules import at_most, no_more

LIMITS = {
    "MVU, 1000 points": (lambda: MVU(n_components=2, n_neighbors=6), 1000, 20.0),
    "MVU, 2000 points": (lambda: MVU(n_components=2, n_neighbors=6), 2000, 60.0),
    "EAT, 1000 points": (lambda: EAT(n_components=2, n_neighbors=6), 1000, 10.0),
    "TesseraMap, 30,000 points": (lambda: TesseraMap(n_components=2, n_patches=100), 30_000, 10.0),
    "TesseraMap, 50,000 points": (lambda: TesseraMap(n_components=2, n_patches=100), 50_000, 20.0),
    "FastMVU, 50,000 points": (lambda: FastMVU(n_components=2, n_neighbors=6), 50_000, 60.0),
}
SOURCE = {
    "TesseraMap, 30,000 points": at_most(118.0),
    "TesseraMap, 50,000 points": at_most(600.0, "less than ten minutes"),
}


@experiment("Seconds of MVU, EAT, TesseraMap and FastMVU", source="khajehpour2013, Table 3.1 and chapter 6", alone=True)
def unfolding_speed(lab: Lab) -> None:
    MVU(n_components=2).fit(datasets.swiss_roll(100).X)
    for name, (make, n_points, limit) in LIMITS.items():
        X = datasets.swiss_roll(n_points, height=20.0).X
        with lab.time(name):
            model = make().fit(X)
        if name in SOURCE:
            lab.claim(f"seconds of a core, {name}", lab.core_seconds[name], SOURCE[name])
        lab.target(f"seconds, {name}", lab.seconds[name], no_more(limit))
        lab.note(f"{name}: {model.certificate_.verdict}, certificate gap {model.certificate_.gap:.1e}.")


if __name__ == "__main__":
    main(unfolding_speed)
