"""Speed of LDLC: one start, neighbor graph and geodesics included."""

from __future__ import annotations

from harness import Lab, at_most, experiment, main, shown
from manifoldry import LDLC, datasets

N_RUNS = 3


@experiment("Seconds of one run of LDLC, 20 clusters", source="khajehpour2013, Table 4.4 and section 4.4")
def ldlc_speed(lab: Lab) -> None:
    for n_points, source in ((2000, 0.5458), (10_000, 10.0)):
        X = datasets.swiss_roll(n_points, random_state=0).X
        for seed in range(N_RUNS):
            with lab.time(f"run {seed}"):
                LDLC(n_clusters=20, n_init=1, random_state=seed).fit(X)
        seconds, on_core = min(lab.seconds.values()), min(lab.core_seconds.values())
        lab.claim(f"{n_points} points: seconds of a core", on_core, at_most(source, within=0))
        half = at_most(source / 2, within=0, said=f"{shown(source)}, of which we want half")
        cores = on_core / seconds
        busy = f"other work left the run {cores:.1f} cores" if cores < 1.5 else ""
        lab.claim(f"{n_points} points: seconds", seconds, half, reason=busy)


if __name__ == "__main__":
    main(ldlc_speed)
