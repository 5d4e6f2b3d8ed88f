"""Corpora in tab-separated columns: personal data in short texts, fields of references."""

from __future__ import annotations

import gzip
from itertools import groupby

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from robustruct.datasets import Dataset


def load_pii(split: str = "train", *, data_home: DataHome = None) -> Dataset:
    """Personal data (BIO over 17 types) in generated texts; ``groups`` are their templates.

    Parameters
    ----------
    split : "train", "dev" or "test"
        893, 233 and 374 texts; no template is in two of them.
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.
    """
    checked_choice(split, ("train", "dev", "test"), "split")
    rows = _columns(f"pii/{split}.txt.gz", "texts with personal data", data_home)
    X = [[word for word, *_ in one] for one in rows]
    y = [np.array([label for *_, label in one]) for one in rows]
    return Dataset(f"pii/{split}", X, y, groups=np.array([int(one[0][1]) for one in rows]))


def load_citations(split: str = "train", *, data_home: DataHome = None) -> Dataset:
    """Fields (19, without BIO) of references to literature.

    Parameters
    ----------
    split : "train" or "test"
        1,168 and 501 references.
    data_home : path, optional
        As for `load_pii`.
    """
    checked_choice(split, ("train", "test"), "split")
    rows = _columns(f"citations/{split}.txt.gz", "fields of references", data_home)
    X = [[word for word, _ in one] for one in rows]
    y = [np.array([label for _, label in one]) for one in rows]
    return Dataset(f"citations/{split}", X, y)


def _columns(path: str, contents: str, data_home: DataHome) -> list[list[list[str]]]:
    """The lines of each sample, cut at tabs."""
    with gzip.open(data_file(path, contents, data_home), "rt", encoding="utf-8") as lines:
        rows = (line.rstrip("\n") for line in lines)
        parts = groupby(rows, key=bool)
        return [[row.split("\t") for row in part] for filled, part in parts if filled]
