"""
Speed against other libraries
=============================

This example draws measurements that are stored with the source code.
It does not measure anything itself.
The tables name the machine, the versions and the commit; ``benchmarks/large_fits.py`` repeats the measurements.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

# The tables are in the source tree, above the folder of the examples.
stored = Path("benchmarks", "results", "large_fits.json")
folder = next(folder for folder in [Path.cwd(), *Path.cwd().parents] if (folder / stored).exists())
table = json.loads((folder / stored).read_text(encoding="utf-8"))
print(table["caption"])
print(table["machine"], table["commit"], table["date"])

# %%
# Keep the fits that another library also ran
# -------------------------------------------

fits = {}
for row in table["rows"]:
    fits.setdefault((row["fit"], row["data"], row["rows"]), []).append((row["seconds"], row["library"]))
fits = {key: sorted(rows) for key, rows in fits.items() if len(rows) > 1}

# %%
# One bar per library
# -------------------

figure, ax = plt.subplots(
    figsize=(9.5, 0.6 + 0.36 * sum(len(rows) + 1 for rows in fits.values())), layout="constrained"
)
y = 0
for (fit, data, n), rows in fits.items():
    ax.text(1.02, y, f"{fit}, {n:,} rows ({data})", weight="bold", va="center")
    for seconds, library in rows:
        y += 1
        ax.barh(y, seconds, color="#3f90da" if library == "manifoldry" else "#c9ced6", height=0.8)
        ax.text(seconds * 1.08, y, f"{library}, {seconds:.1f} s", va="center")
    y += 1.4
ax.set(xscale="log", xlim=(1, 400), yticks=[], xlabel="seconds with two threads (logarithmic scale)")
ax.invert_yaxis()
ax.spines[["top", "right", "left"]].set_visible(False)
plt.show()

# %%
# UMAP and t-SNE take a fraction of the time of umap-learn and openTSNE, and the neighbor search is about as fast as
# that of pynndescent.
# The stored table also compares the quality of the layouts: trustworthiness and accuracy of labels are about equal.
