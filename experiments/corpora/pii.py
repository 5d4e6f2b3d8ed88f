"""Personal data in short generated texts, made from templates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from corpora.wnut17 import name_attributes
from robustruct.formats.conll import TAB, sentences
from robustruct.formats.text import Lines


@dataclass(frozen=True, eq=False)
class PersonalData:
    """Texts with their labels, and the template that each was made from."""

    X: list[list[list[str]]]
    y: list[np.ndarray]
    groups: np.ndarray


def load_pii(split: str = "train", *, data_home: DataHome = None) -> PersonalData:
    """Texts of presidio-research: BIO labels of 17 kinds of personal data, O for the rest.

    Parameters
    ----------
    split : "train", "dev" or "test"
        893, 233 and 374 texts; no template is in two of them.
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.
    """
    checked_choice(split, ("train", "dev", "test"), "split")
    file = data_file(f"pii/{split}.txt.gz", "texts with personal data", data_home)
    X, y, groups = [], [], []
    with Lines(file) as lines:
        for sentence in sentences(lines, [3], TAB):
            X.append(name_attributes(sentence.column(0)))
            groups.append(sentence.column(1)[0])
            y.append(np.array(sentence.column(2)))
    return PersonalData(X, y, np.array(groups))
