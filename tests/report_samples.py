"""Reports that tests of pages look at."""

import numpy as np

from manifoldry.viz._report.contents import Report, ReportChart, ReportPanel, ReportScale

KINDS = np.array(["apple", "", "cherry", "damson"])

FIGURES = [
    {
        "name": "trustworthiness",
        "group": "neighbors",
        "range": "0 to 1",
        "best": 1.0,
        "meaning": "neighbors in the embedding are near in the data",
        "values": {"first": 0.91, "second": 0.95, "PCA": 0.7},
        "errors": {"first": 0.001, "second": 0.001, "PCA": 0.0},
    },
    {
        "name": "scaled_stress",
        "group": "layout",
        "range": "0 to 1",
        "best": 0.0,
        "meaning": "change of all distances",
        "values": {"first": 0.3, "second": 0.31, "PCA": None},
        "errors": {"first": 0.02, "second": 0.02, "PCA": None},
    },
]
FINDINGS = [
    {"topic": "duplicates", "sentence": "No row occurs twice.", "value": 0.0, "advice": "", "severity": "fine"},
    {"topic": "scales", "sentence": "One column rules.", "value": 1.0, "advice": "standardize", "severity": "problem"},
]


def sample(n=240, **changes):
    """Three panels of the same rows, columns of every kind, pictures, figures, findings, charts."""
    rng = np.random.default_rng(5)
    flat, other, solid = rng.uniform(-3, 5, (n, 2)) * [2, 1], rng.normal(size=(n, 2)), rng.normal(size=(n, 3))
    stretch = rng.normal(size=n)
    columns = {
        "kind": KINDS[np.arange(n) % 4],
        "amount": np.where(np.arange(n) % 7, rng.normal(10, 3, n).round(3), np.nan),
        "count": np.arange(n) % 50,
        "said": np.array([f'row {i} says "yes, no"\nand more' for i in range(n)]),
    }
    panels = [
        ReportPanel(
            "first",
            flat,
            caption="a caption",
            sentences=("One sentence.",),
            parameters={"n_neighbors": 12},
            colors={"stretch": stretch},
        ),
        ReportPanel("second", other, colors={"stretch": -stretch, "cluster": np.arange(n) % 3}),
        ReportPanel("solid", solid),
    ]
    sizes, order = np.array([1.0, 10.0, 100.0]), np.arange(1.0, 6)
    curves = {"first": (sizes, sizes / 200), "second": (sizes, sizes / 100)}
    pairs = {"first": (stretch, stretch), "second": (stretch, -stretch)}
    charts = [
        ReportChart("Curves", "size", "share", "line", curves, log_x=True),
        ReportChart("Pairs", "before", "after", "dots", pairs, diagonal=True),
        ReportChart("Spectrum", "component", "eigenvalue", "bar", {"first": (order, 6 - order)}),
    ]
    values = {
        "title": "A sample",
        "panels": panels,
        "ids": np.array([f"r{i:04d}" for i in range(n)]),
        "id_name": "name",
        "columns": columns,
        "label": "kind",
        "thumbnails": rng.integers(0, 256, (n, 6, 5), dtype=np.uint8),
        "quality": FIGURES,
        "findings": FINDINGS,
        "charts": charts,
        "record": {"source": "sample.csv", "date": "2026-01-02", "seed": 0},
        "summary": ("Look at second first.",),
        "notes": ("Figures are of 200 sampled rows.",),
        "scales": {"stretch": ReportScale(-2.0, 2.0, 0.0, "below 0 squeezed, above 0 stretched")},
    }
    return Report(**{**values, **changes})
