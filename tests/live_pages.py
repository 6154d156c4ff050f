"""A small table, and a server of its live page, for the tests of both."""

import threading
from contextlib import contextmanager

import numpy as np

from manifoldry.cli._explore.server import ExploreServer
from manifoldry.data._tables import Table

N = 120


def made_table(seed=0):
    rng = np.random.default_rng(seed)
    kind = np.repeat(["a", "b", "<i>c</i>"], N // 3).astype(object)
    X = rng.normal(size=(N, 5)) + 6.0 * np.repeat(np.arange(3), N // 3)[:, None]
    ids = np.array([f"row {i}" for i in range(N)], dtype=object)
    return Table(
        X, tuple("pqrst"), ids, "name", {"kind": kind, "weight": rng.random(N)}, label="kind", source="cells.csv"
    )


@contextmanager
def served(session, **where):
    with ExploreServer(session, **where) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
