"""
Fill in missing values with ProbabilisticPCA
============================================

Real tables have gaps.
``ProbabilisticPCA`` accepts NaN, fits a Gaussian to the observed entries, and predicts the missing ones.
We delete a part of every image of a digit and look at what comes back.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from manifoldry import ProbabilisticPCA

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)

# %%
# Delete 30 percent of all pixels
# -------------------------------
#
# The pixels are deleted at random, whatever their values are: the method relies on this.

missing = rng.random(X.shape) < 0.3
given = np.where(missing, np.nan, X)
model = ProbabilisticPCA(n_components=20, tol=1e-6, random_state=0)
filled = np.where(missing, model.inverse_transform(model.fit_transform(given)), given)
means = np.where(missing, np.nanmean(given, axis=0), given)
for name, guess in {"column means": means, "ProbabilisticPCA": filled}.items():
    error = np.sqrt(np.mean((guess - X)[missing] ** 2))
    print(f"{name}: root mean square error {error:.1f} of 16 gray levels")

# %%
# Twelve images
# -------------

shown = [
    np.flatnonzero(y == digit)[k] for digit, k in zip([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 5], range(3, 15), strict=True)
]
rows = {"given": given, "column means": means, "ProbabilisticPCA": filled, "truth": X}
palette = plt.get_cmap("magma").with_extremes(bad="#7fc9c4")
figure, axes = plt.subplots(4, 12, figsize=(13, 4.8), layout="constrained")
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for ax, i in zip(line, shown, strict=True):
        ax.imshow(images[i].reshape(8, 8), cmap=palette, vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    line[0].set_ylabel(name, rotation=0, ha="right", va="center")
plt.show()

# %%
# Missing pixels are turquoise in the first row.
# Column means fill in the same values in every image.
# ``ProbabilisticPCA`` uses the other pixels of the image, and most digits can be read again.
