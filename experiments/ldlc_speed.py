"""Speed of LDLC: one start, neighbor graph and geodesics included."""

from __future__ import annotations

from harness import Lab, experiment, main
from manifoldry import LDLC, datasets
from rules import at_most, no_more

N_RUNS = 3


@experiment("Seconds of one run of LDLC, 20 clusters", source="khajehpour2013, Table 4.4 and section 4.4", alone=True)
def ldlc_speed(lab: Lab) -> None:
    for n_points, source in ((2000, 0.5458), (10_000, 10.0)):
        X = datasets.swiss_roll(n_points, random_state=0).X
        for seed in range(N_RUNS):
            with lab.time(f"run {seed}"):
                LDLC(n_clusters=20, n_init=1, random_state=seed).fit(X)
        lab.claim(f"{n_points} points: seconds of a core", min(lab.core_seconds.values()), at_most(source))
        lab.target(f"{n_points} points: seconds", min(lab.seconds.values()), no_more(source / 2))


if __name__ == "__main__":
    main(ldlc_speed)
