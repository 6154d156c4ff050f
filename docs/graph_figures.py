"""Draw the figures of the page on graphs: a roll with short circuits, and digits by neighborhoods.

Run ``python docs/graph_figures.py`` after changing an option of the graph.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "figures"
DPI = 72


def draw(panel: Any, Y: Any, color: Any, title: str, **style: Any) -> None:
    """Draw one layout."""
    panel.scatter(*Y.T, c=color, s=5, **style)
    panel.set_title(title, fontsize=10)
    panel.set_aspect("equal")
    panel.axis("off")


def main() -> None:
    """Draw both."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from sklearn.datasets import load_digits

    from manifoldry import UMAP, Isomap, datasets, neighborhood_graph

    warnings.simplefilter("ignore")
    roll = datasets.swiss_roll(500, noise=0.5, random_state=0)
    options: list[tuple[str, dict[str, Any]]] = [
        ("12 neighbors", {}),
        ("edge_lengths='local_linearity'", {"edge_lengths": "local_linearity"}),
        ("remove_short_circuits=True", {"remove_short_circuits": True}),
    ]
    figure, panels = plt.subplots(1, len(options), figsize=(10, 3), layout="constrained")
    for panel, (title, chosen) in zip(panels, options, strict=True):
        graph = neighborhood_graph(roll.X, n_neighbors=12, **chosen)
        draw(panel, Isomap().fit_transform(graph), roll.truth[:, 0], title)
    figure.savefig(FOLDER / "graphs_roll.png", dpi=DPI, metadata={"Software": None})

    X, y = load_digits(return_X_y=True)
    figure, panels = plt.subplots(1, 4, figsize=(16, 4), layout="constrained")
    for number, lengths in enumerate(("distance", "kl")):
        graph = neighborhood_graph(X, n_neighbors=10, edge_lengths=lengths)
        Y = Isomap(disconnected="largest").fit_transform(graph)
        draw(panels[number], Y, y, f"Isomap, edge_lengths={lengths!r}", cmap="tab10")
        draw(panels[2 + number], UMAP().fit_transform(graph), y, f"UMAP, edge_lengths={lengths!r}", cmap="tab10")
    figure.savefig(FOLDER / "graphs_digits.png", dpi=DPI, metadata={"Software": None})


if __name__ == "__main__":
    main()
