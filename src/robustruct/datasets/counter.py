"""Counter: sequences of handwritten digits that mostly count upwards. Needs no files."""

from __future__ import annotations

import numpy as np

from robustruct.datasets.dataset import Dataset
from robustruct.errors import InvalidInputError

STEP, STAY = 0.5, 0.15  # probability of +1, of the same digit; otherwise any digit
_TRAIN_SHARE = 0.6  # of the images of each digit


def load_counter(
    split: str = "train",
    *,
    n_sequences: int = 100,
    length: int = 12,
    noise: float = 0.15,
    smudged: float = 0.1,
    seed: int = 0,
) -> Dataset:
    """Readings of a noisy counter, digit by digit, from real handwriting.

    The next digit is one more than the last (0 follows 9), the same, or now and then any digit.
    Each digit is drawn from the 8 x 8 images of scikit-learn's ``load_digits``, shrunk to 4 x 4
    pixels with noise added; some are smudged out and leave only the noise. A digit alone is often
    unclear, and its neighbours help. The labels are numbers: reading 7 for 2 is worse than reading
    3 for 2.

    Parameters
    ----------
    split : "train" or "test"
        The two never share an image, whatever the seeds.
    n_sequences, length : int
        How many sequences, and how many digits in each.
    noise : float
        Standard deviation of the noise on pixels, which lie between 0 and 1.
    smudged : float
        Share of digits of which nothing is seen.
    seed : int
        The same arguments and seed give the same data.

    Returns
    -------
    Dataset
        Chains of shape (length, 16) with integer labels 0..9.

    Examples
    --------
    >>> data = load_counter("train", n_sequences=20, length=8)
    >>> data
    Dataset('counter/train': 20 samples, 160 nodes)
    >>> data.X[0].shape
    (8, 16)
    """
    if split not in ("train", "test"):
        raise InvalidInputError(f"split={split!r} is not available; use 'train' or 'test'.")
    if n_sequences < 1 or length < 1:
        raise InvalidInputError(
            f"n_sequences={n_sequences}, length={length}: both must be at least 1."
        )
    if not (np.isfinite(noise) and noise >= 0):
        raise InvalidInputError(f"noise={noise}; it must be a finite number, 0 or more.")
    if not 0 <= smudged <= 1:
        raise InvalidInputError(f"smudged={smudged}; it is a share, between 0 and 1.")
    rng = np.random.default_rng([seed, int(split == "test")])
    digits = _counts(rng, n_sequences, length)
    images = _images(split)
    pixels = np.empty((n_sequences, length, images[0].shape[1]))
    for digit, of_digit in enumerate(images):
        here = digits == digit
        pixels[here] = of_digit[rng.integers(len(of_digit), size=int(here.sum()))]
    pixels[rng.random(digits.shape) < smudged] = 0.0
    pixels += noise * rng.standard_normal(pixels.shape)
    return Dataset(f"counter/{split}", list(pixels), list(digits))


def _counts(rng: np.random.Generator, n_sequences: int, length: int) -> np.ndarray:
    """Labels (n_sequences, length): counted on from the digit before, except where it jumps."""
    digits = rng.integers(10, size=(n_sequences, length))
    move = rng.random((n_sequences, length))
    for t in range(1, length):
        counted = (digits[:, t - 1] + (move[:, t] < STEP)) % 10
        digits[:, t] = np.where(move[:, t] < STEP + STAY, counted, digits[:, t])
    return digits


def _images(split: str) -> list[np.ndarray]:
    """For each digit its images as rows of 16 pixels in [0, 1]."""
    from sklearn.datasets import load_digits  # slow to import, and only needed here

    source = load_digits()
    small = source.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 16.0
    chosen = []
    for digit in range(10):
        of_digit = small[source.target == digit]
        # By place in the file, not by chance, so that seeds cannot mix the two parts.
        n_train = round(_TRAIN_SHARE * len(of_digit))
        chosen.append(of_digit[:n_train] if split == "train" else of_digit[n_train:])
    return chosen
