"""Speed of LDLC: one start, neighbour graph and geodesics included."""

from __future__ import annotations

from harness import Lab, at_most, experiment, main, shown
from manifoldry import LDLC, datasets

RUNS = 3


@experiment("Seconds of one run of LDLC, 20 clusters", source="khajehpour2013, Table 4.4 and section 4.4")
def ldlc_speed(lab: Lab) -> None:
    for n_points, source in ((2000, 0.5458), (10_000, 10.0)):
        X = datasets.swiss_roll(n_points, random_state=0).X
        for seed in range(RUNS):
            with lab.time(f"run {seed}"):
                LDLC(20, n_init=1, random_state=seed).fit(X)
        seconds, on_core = min(lab.seconds.values()), min(lab.core_seconds.values())
        lab.claim(f"{n_points} points: seconds of a core", on_core, at_most(source, within=0))
        half = at_most(source / 2, within=0, said=f"{shown(source)}, of which we want half")
        # Threads make a run take less time than its cores do, unless they wait for other work.
        waited = f"other work held the cores; the run needs {shown(on_core)} of a core" if seconds > on_core else ""
        lab.claim(f"{n_points} points: seconds", seconds, half, reason=waited)


if __name__ == "__main__":
    main(ldlc_speed)
