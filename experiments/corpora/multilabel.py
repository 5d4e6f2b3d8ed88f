"""Scene: photographs with six yes-or-no labels."""

from __future__ import annotations

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from robustruct.datasets import Dataset

SCENE_LABELS = ("beach", "sunset", "fall foliage", "field", "mountain", "urban")


def load_multilabel(split: str = "train", *, data_home: DataHome = None) -> Dataset:
    """Which of `SCENE_LABELS` a photograph shows (Boutell et al., 2004).

    Parameters
    ----------
    split : "train" or "test"
        1211 and 1196 photographs.
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        ``X`` of shape (n_samples, 294) and ``y`` of shape (n_samples, 6) with entries 0 and 1.
        How the six labels are joined is for the model to say: make a `Graph` of six nodes from
        each row.
    """
    checked_choice(split, ("train", "test"), "split")
    file = data_file("multilabel/scene.npz", "photographs with six labels", data_home)
    with np.load(file, allow_pickle=False) as stored:
        X = stored[f"X_{split}"].astype(np.float64)
        y = stored[f"Y_{split}"].astype(np.int64)
    return Dataset(f"scene/{split}", X, y)
