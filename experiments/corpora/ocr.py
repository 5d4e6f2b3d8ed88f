"""OCR: handwritten words as chains of letters."""

from __future__ import annotations

import numpy as np

from corpora.files import DataHome, data_file
from robustruct.datasets import Dataset

_LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def load_ocr(*, data_home: DataHome = None) -> Dataset:
    """Handwritten words (Taskar, Guestrin and Koller, 2003): 6877 words, 52152 letters.

    Parameters
    ----------
    data_home : path, optional
        Folder of the real data sets; by default the environment variable ``ROBUSTRUCT_DATA``.

    Returns
    -------
    Dataset
        Arrays (letters, 128) of black (1) and white (0) pixels, 16 rows of 8; labels "a".."z";
        ``groups`` is the fold of each word, 0..9. There is no fixed split: train on one fold and
        test on the others, or the reverse.
    """
    file = data_file("ocr/letters.npz", "letters of handwritten words", data_home)
    with np.load(file, allow_pickle=False) as stored:
        pixels = np.unpackbits(stored["pixels_packed"], axis=1).astype(np.float64)
        letters = _LETTERS[stored["labels"]]
        starts = stored["offsets"][1:-1]
        folds = stored["folds"].astype(np.intp)
    return Dataset("ocr", np.split(pixels, starts), np.split(letters, starts), groups=folds)
