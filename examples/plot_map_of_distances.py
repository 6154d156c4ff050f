"""
A map from distances alone, and a map of travel times
=====================================================

Nobody gives us coordinates here, only a table of distances between cities.
``ClassicalMDS`` draws the map from this table.
Then we replace kilometers by hours of travel, and the map changes its shape.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.sparse.csgraph import shortest_path

from manifoldry import MDS, ClassicalMDS, plot

CITIES = {  # latitude and longitude in degrees, north and east
    "Athens": (38.0, 23.7), "Barcelona": (41.4, 2.2),
    "Berlin": (52.5, 13.4), "Brussels": (50.8, 4.4), "Bucharest": (44.4, 26.1),
    "Budapest": (47.5, 19.1), "Copenhagen": (55.7, 12.6), "Dublin": (53.3, -6.3), "Edinburgh": (55.9, -3.2),
    "Frankfurt": (50.1, 8.7), "Helsinki": (60.2, 24.9), "Kyiv": (50.5, 30.5),
    "Lisbon": (38.7, -9.1), "London": (51.5, -0.1), "Lyon": (45.8, 4.8), "Madrid": (40.4, -3.7),
    "Milan": (45.5, 9.2), "Munich": (48.1, 11.6),
    "Oslo": (59.9, 10.8), "Palermo": (38.1, 13.4), "Paris": (48.9, 2.4), "Prague": (50.1, 14.4),
    "Riga": (56.9, 24.1), "Rome": (41.9, 12.5), "Seville": (37.4, -6.0),
    "Stockholm": (59.3, 18.1), "Vienna": (48.2, 16.4), "Warsaw": (52.2, 21.0),
}  # fmt: skip
names = list(CITIES)
latitude, longitude = np.radians(list(CITIES.values())).T
points = np.column_stack([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)])
kilometers = 6371 * np.arccos(np.clip(points @ points.T, -1, 1))
np.fill_diagonal(kilometers, 0)

# %%
# The map of distances
# --------------------
#
# The table holds great-circle distances.
# A map has no north of its own, so we rotate it until its vertical direction follows the latitude.

model = ClassicalMDS(n_components=2, metric="precomputed").fit(kilometers)


def geographic(Y):
    """Rotate and reflect a map to match latitude and longitude."""
    target = np.column_stack([longitude * np.cos(latitude.mean()), latitude])
    left, _, right = np.linalg.svd(Y.T @ (target - target.mean(axis=0)))
    return Y @ left @ right


by_distance = geographic(model.embedding_)
above = np.triu_indices(len(names), 1)
drawn = np.linalg.norm(by_distance[above[0]] - by_distance[above[1]], axis=1)
print(f"median error of a distance: {np.median(np.abs(drawn / kilometers[above] - 1)):.1%}")

# %%
# The map of travel times
# -----------------------
#
# We assume 90 km/h everywhere and 200 km/h on a few railway lines.
# The time of a trip is that of its fastest route.
# Such times are not the distances of any plane map, and ``MDS`` finds the map with the smallest squared error.

LINES = """Edinburgh London, London Paris, Paris Brussels, Brussels Frankfurt, Paris Lyon,
Lyon Barcelona, Barcelona Madrid, Madrid Seville, Lyon Milan, Milan Rome,
Paris Frankfurt, Frankfurt Munich, Munich Berlin, Munich Vienna"""
lines = [tuple(names.index(city) for city in line.split()) for line in LINES.split(",")]
hours = kilometers / 90
for a, b in lines:
    hours[a, b] = hours[b, a] = kilometers[a, b] / 200
hours = shortest_path(hours)
by_time = MDS(n_components=2, metric="precomputed").fit(hours)
print(f"relative root mean square error of a time: {by_time.diagnostics_['normalized_stress']:.0%}")

# %%
# Both maps
# ---------

figure, axes = plt.subplots(1, 2, figsize=(13, 7), layout="constrained")
maps = {"kilometers": (by_distance, 500, "500 km"), "hours of travel": (geographic(by_time.embedding_), 5, "5 h")}
for ax, (title, (Y, unit, label)) in zip(axes, maps.items(), strict=True):
    ax.add_collection(LineCollection([Y[list(line)] for line in lines], colors="#bd1f01", linewidths=1.6, alpha=0.7))
    plot.scatter(Y, color=longitude, annotate=names, ax=ax, legend=False)
    ax.scatter(*Y.T, s=40, c=longitude, cmap="viridis", edgecolors="white", zorder=20)
    corner = Y.min(axis=0) - [0, 0.4 * unit]
    ax.plot([corner[0], corner[0] + unit], [corner[1]] * 2, color="#1d2433", lw=2)
    ax.annotate(label, corner, (0, 5), textcoords="offset points")
    ax.set_title(title)
    ax.set_aspect("equal")
    ax.axis("off")
plt.show()

# %%
# The left map is the map of Europe, computed from distances alone.
# In the right map, cities on the fast lines (red) move together, and the others are left at the rim.
