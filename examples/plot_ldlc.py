"""
Cluster a surface into connected flat pieces with LDLC
======================================================

A curved surface can be described by flat pieces.
``VQPCA`` assigns each point to the plane that is nearest to it.
Planes are infinite, so a plane also collects points from other layers of the surface.
``LDLC`` (low-dimensional localized clustering) also keeps each cluster connected on the surface.
"""

import matplotlib.pyplot as plt
import numpy as np

from manifoldry import LDLC, VQPCA, datasets, plot

roll = datasets.swiss_roll(1500, random_state=0)
models = {
    "VQPCA": VQPCA(n_clusters=12, n_components=2, random_state=0).fit(roll.X),
    "LDLC": LDLC(n_clusters=12, n_components=2, random_state=0).fit(roll.X),
}

# %%
# The same clusters on the roll and on the unrolled sheet
# -------------------------------------------------------
#
# A cluster that is connected on the sheet can be used as a patch of the surface.

figure = plt.figure(figsize=(11, 7), layout="constrained")
for row, (name, model) in enumerate(models.items()):
    shape = figure.add_subplot(2, 2, 2 * row + 1, projection="3d")
    plot.scatter3d(roll.X, model.labels_, ax=shape, legend=False).view_init(8, -75)
    shape.set_title(name)
    shape.set_box_aspect(np.ptp(roll.X, axis=0), zoom=1.35)
    shape.set_axis_off()
    sheet = plot.scatter(roll.truth, model.labels_, ax=figure.add_subplot(2, 2, 2 * row + 2), legend=False, size=14)
    sheet.set_title(f"unrolled: {model.n_nonlocalized_} of {model.n_clusters_} clusters are not connected")
    sheet.set(xticks=[], yticks=[])
plt.show()

# %%
# The clusters of VQPCA jump between the layers of the roll.
# Every cluster of LDLC is one connected patch, and the patches are nearly as flat.
