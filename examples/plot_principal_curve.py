"""
A principal curve through noisy points
======================================

Samples of a process that has a course, such as ripening or recovery, lie along a curve.
Nobody wrote down how far each sample has come.
``PrincipalCurve`` fits a smooth curve through the middle of the points, and the position along it gives their order.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.stats import kendalltau

from manifoldry import PCA, PrincipalCurve

rng = np.random.default_rng(0)
time = rng.uniform(0, 1, 600)
angle = 3 * np.pi * time
course = np.column_stack([1.5 * angle + 1.0 * np.sin(2 * angle), 2.6 * np.cos(angle)])
X = course + rng.normal(0, 0.3, course.shape)

# %%
# A line and a curve
# ------------------
#
# ``inverse_transform`` gives the point of the line or of the curve that is nearest to each sample.
# ``span`` is the share of the points that the smoother uses at a time; the bends here need a small one.

models = {"first principal component": PCA(n_components=1), "principal curve": PrincipalCurve(span=0.1)}
figure, axes = plt.subplots(2, 1, figsize=(10.5, 8.8), layout="constrained", sharex=True, sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    position = model.fit_transform(X)
    nearest = model.inverse_transform(position)
    order = np.argsort(position[:, 0])
    wrong = (1 - abs(kendalltau(position[:, 0], time).statistic)) / 2
    ax.add_collection(LineCollection(np.stack([X, nearest], axis=1), colors="#c9ced6", linewidths=0.8, zorder=0))
    ax.scatter(*X.T, s=22, c=time, cmap="plasma", linewidths=0)
    ax.plot(*nearest[order].T, color="#1d2433", lw=2.5)
    ax.set_title(f"{name}: {wrong:.1%} of all pairs are in the wrong order")
    ax.set_aspect("equal")
    ax.set(xticks=[], yticks=[])
figure.colorbar(axes[0].collections[1], ax=axes, shrink=0.5, label="true time")
plt.show()

# %%
# Gray lines lead from each sample to the nearest point of the model.
# The curve follows the bends and nearly recovers the true order.
# The line mixes earlier and later samples where the course runs across it.
