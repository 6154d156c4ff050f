"""
A report to share: linked panels in one HTML file
=================================================

``build_report`` writes embeddings, their scores and advice to one HTML file.
The file works offline and can be e-mailed.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from manifoldry import TSNE, PaCMAP, build_report, plot

digits = load_digits()
X, y = digits.data[:900], digits.target[:900]
names = "zero one two three four five six seven eight nine".split()
labels = [names[digit] for digit in y]
models = {"t-SNE": TSNE(random_state=0).fit(X), "PaCMAP": PaCMAP(random_state=0).fit(X)}

# %%
# Build and save
# --------------
#
# PCA is added for comparison.
# Thumbnails appear when you point at a dot.

report = build_report(
    X,
    models,
    columns={"digit": labels, "ink": X.sum(axis=1)},
    label="digit",
    thumbnails=(digits.images[:900] * 255 / 16).astype("uint8"),
    title="Handwritten digits",
)
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "digits.html"
    report.save(file)
    print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")

# %%
# The report begins with a summary.

for sentence in report.summary:
    print(sentence)

# %%
# The same pictures with matplotlib
# ---------------------------------

figure, axes = plt.subplots(1, 2, figsize=(10.5, 5), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    plot.scatter(model, labels, annotate=True, ax=ax).set_title(name)
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
plt.show()

# %%
# Most digits are separated in both pictures.
# The report below is interactive: select points, change the colors, and see the same points in all panels.

report
