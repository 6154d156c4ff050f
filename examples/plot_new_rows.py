"""
Embed new rows with a saved model
=================================

Every method embeds new rows with ``transform``.
The positions of the old rows do not change.
A model file holds arrays and text only, so loading it runs no code.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import manifoldry
from manifoldry import TSNE, plot

X, y = load_digits(return_X_y=True)
old, new, old_digit, new_digit = train_test_split(X, y, test_size=300, random_state=0, stratify=y)

# %%
# Fit, save, load, transform
# --------------------------

with tempfile.TemporaryDirectory() as folder:
    TSNE(random_state=0).fit(old).save(Path(folder) / "digits.mfy")
    model = manifoldry.load(Path(folder) / "digits.mfy")
Y = model.transform(new)
one_by_one = np.concatenate([model.transform(row[None]) for row in new[:20]])
print("the same one by one:", np.array_equal(Y[:20], one_by_one))

# %%
# Are the new digits next to digits of their class?
# -------------------------------------------------

classifier = KNeighborsClassifier(5).fit(model.embedding_, old_digit)
accuracy = classifier.score(Y, new_digit)
wrong = classifier.predict(Y) != new_digit

figure, ax = plt.subplots(figsize=(8, 6.4), layout="constrained")
plot.scatter(model.embedding_, color="#dfe3e8", ax=ax, size=14)
plot.scatter(Y, new_digit, ax=ax, size=26, annotate=True, alpha=1.0)
ax.scatter(*Y[wrong].T, s=110, facecolors="none", edgecolors="#1d2433", linewidths=1.2)
ax.set_title(f"300 new digits among {len(old):,} old ones: {accuracy:.1%} among their own kind")
ax.set(xticks=[], yticks=[])
plt.show()

# %%
# The gray points are the old rows; the colored ones are new.
# Rings mark new digits whose neighbors are of another class.
