"""WNUT 2017: names in noisy English text, sentences as chains."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from corpora.files import DataHome, checked_choice, data_file
from robustruct.datasets import Dataset
from robustruct.formats.conll import TAB, sentences
from robustruct.formats.text import Lines

_WINDOW = (-2, -1, 0, 1, 2)
_AFFIXES = (2, 3)


def load_wnut17(split: str = "train", *, data_home: DataHome = None) -> Dataset:
    """Names (B-person, I-person, ..., O) of six kinds in messages, comments and subtitles.

    Parameters
    ----------
    split : "train", "dev" or "test"
        3394, 1009 and 1287 sentences. Names in "dev" and "test" hardly occur in "train".
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        A sentence is a list of words; turn it into features with `name_attributes`.
    """
    checked_choice(split, ("train", "dev", "test"), "split")
    file = data_file(f"wnut17/{split}.txt.gz", "sentences of WNUT 2017", data_home)
    X, y = [], []
    with Lines(file) as lines:
        for sentence in sentences(lines, [2], TAB):
            X.append(sentence.column(0))
            y.append(np.array(sentence.column(1)))
    return Dataset(f"wnut17/{split}", X, y)


def name_attributes(words: Sequence[str]) -> list[list[str]]:
    """What shows a name: words, shapes, beginnings and endings in a window of two to each side.

    A shape has one letter for each run of capitals (A), small letters (a) and digits (0).

    Examples
    --------
    >>> name_attributes(["in", "New", "York"])[2][:4]
    ['-2:word=in', '-2:shape=a', '-2:start2=in', '-2:end2=in']
    """
    of_word = [_looks(word) for word in words]
    attributes = []
    for i in range(len(words)):
        here = []
        for offset in _WINDOW:
            if 0 <= i + offset < len(words):
                here += [f"{offset}:{look}" for look in of_word[i + offset]]
            else:
                here.append(f"{offset}:outside")
        attributes.append(here)
    return attributes


def _looks(word: str) -> list[str]:
    lower = word.lower()
    looks = [f"word={lower}", f"shape={_shape(word)}"]
    for n in _AFFIXES:
        if n <= len(lower):
            looks += [f"start{n}={lower[:n]}", f"end{n}={lower[-n:]}"]
    return looks


def _shape(word: str) -> str:
    """One sign for each run of signs of the same kind."""
    signs = "".join(
        "A" if sign.isupper() else "a" if sign.islower() else "0" if sign.isdigit() else sign
        for sign in word
    )
    return re.sub(r"(.)\1+", r"\1", signs)
