"""Fields of references to literature."""

from __future__ import annotations

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from robustruct.datasets import Dataset
from robustruct.formats.conll import TAB, sentences
from robustruct.formats.text import Lines


def load_citations(split: str = "train", *, data_home: DataHome = None) -> Dataset:
    """References of anystyle: words with 19 fields such as author and title, without BIO.

    Parameters
    ----------
    split : "train" or "test"
        1,168 and 501 references.
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        A reference is a list of words; turn it into features with `name_attributes`.
    """
    checked_choice(split, ("train", "test"), "split")
    file = data_file(f"citations/{split}.txt.gz", "fields of references", data_home)
    X, y = [], []
    with Lines(file) as lines:
        for reference in sentences(lines, [2], TAB):
            X.append(reference.column(0))
            y.append(np.array(reference.column(1)))
    return Dataset(f"citations/{split}", X, y)
