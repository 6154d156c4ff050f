"""
Unfold a Swiss roll with a hole, with a certificate
===================================================

The data is a flat rectangle with a hole, rolled up in three dimensions.
The task is to recover the rectangle.
We compare the results of three methods with the true coordinates.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import procrustes

from manifoldry import IPA, TSNE, EmbeddingWarning, Isomap, datasets, plot

roll = datasets.swiss_roll(1500, hole=True, random_state=0)
models = {"IPA": IPA(random_state=0), "Isomap": Isomap(n_neighbors=8), "t-SNE": TSNE(random_state=0)}
warnings.simplefilter("ignore", EmbeddingWarning)  # Isomap warns that holes change its distances
layouts = {name: model.fit_transform(roll.X) for name, model in models.items()}

# %%
# What is proven
# --------------
#
# ``IPA`` cuts the surface into overlapping flat patches and aligns them.
# The alignment is a semidefinite program.
# Its certificate bounds how much better any other alignment of these patches could be.

print(models["IPA"].certificate_.sentence)

# %%
# The certificate does not prove that the patches are right.
# Here we know the truth, so we can measure the error.
# ``procrustes`` shifts, rotates, reflects and scales one layout to match the other, and returns the remaining squared
# error.

figure = plt.figure(figsize=(12, 6.4), layout="constrained")
shape = plot.scatter3d(roll, ax=figure.add_subplot(2, 2, 1, projection="3d"), legend=False)
shape.set_title("the data")
shape.set_box_aspect(np.ptp(roll.X, axis=0), zoom=1.35)
shape.view_init(12, -70)
shape.set_axis_off()
for i, (name, Y) in enumerate(layouts.items()):
    truth, fitted, error = procrustes(roll.truth, Y)
    ax = plot.scatter(fitted, color=roll.color, ax=figure.add_subplot(2, 2, i + 2), legend=False)
    ax.set_title(f"{name}: {np.sqrt(error):.2%} error")
    ax.set(xticks=[], yticks=[])
plt.show()

# %%
# IPA recovers the rectangle and the hole.
# Isomap widens the hole, because shortest paths run around it.
# t-SNE shows which points are neighbors, but its distances mean little, and it may tear the sheet.
