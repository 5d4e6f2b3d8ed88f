"""Emotion intensity of faces: chains of video frames with three ordinal labels."""

from __future__ import annotations

import numpy as np

from corpora.files import DataHome, data_file
from robustruct.datasets import Dataset
from robustruct.graphs.graph import Graph

N_KINDS = 6  # kinds of emotion
N_TRAIN = 120  # sequences; the other 47 are for testing


def load_emotion(*, data_home: DataHome = None) -> Dataset:
    """Intensity of an emotion in each frame: 1 neutral, 2 increasing, 3 apex.

    167 sequences of the Cohn-Kanade faces as prepared by Kim and Pavlovic (2010), with the
    features of Fathony et al. (2018). With z the kind of emotion, known for each sequence, block z
    of 26 of the 156 features is in use, the others are zero:

    - a frame has its 25 measurements x_j and a 1,
    - an edge has the 25 absolute differences abs(x_j - x_{j-1}) and a 1.

    Parameters
    ----------
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        `Graph` chains; ``groups`` is the kind of emotion, 1..6.

    See Also
    --------
    emotion_splits : the twenty splits of the paper.
    robustruct.datasets.position_weights : its node weights.
    """
    from scipy.io import loadmat  # slow to import, and only needed here

    file = data_file("emotion/ck.mat", "the frames of the emotion data", data_home)
    cells = loadmat(file)["data"][0]
    kinds = np.array([int(cell["Y"][0, 0].item()) for cell in cells])
    X = [_sequence(cell["X"][0, 0].T, kind) for cell, kind in zip(cells, kinds, strict=True)]
    y = [cell["H"][0, 0].ravel().astype(np.int64) for cell in cells]
    return Dataset("emotion", X, y, groups=kinds)


def emotion_splits(*, data_home: DataHome = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """The paper's twenty splits: pairs of sample indices, 120 for training and 47 for testing.

    Use them as ``data.subset(train)``, or as ``cv`` of scikit-learn's searches.
    """
    file = data_file("emotion/ids_random.csv", "the twenty splits of the emotion data", data_home)
    order = np.loadtxt(file, delimiter=",", dtype=np.intp) - 1
    return [(column[:N_TRAIN], column[N_TRAIN:]) for column in order.T]


def _sequence(frames: np.ndarray, kind: int) -> Graph:
    return Graph.chain(_in_block(frames, kind), _in_block(np.abs(np.diff(frames, axis=0)), kind))


def _in_block(rows: np.ndarray, kind: int) -> np.ndarray:
    """Rows with a 1 appended, in the columns that belong to one kind of emotion."""
    width = rows.shape[1] + 1
    features = np.zeros((len(rows), N_KINDS * width))
    start = (kind - 1) * width
    features[:, start : start + width - 1] = rows
    features[:, start + width - 1] = 1.0
    return features
