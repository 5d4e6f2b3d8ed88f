"""Whether samples had a part in making a model: what they say about it then proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from robustruct.engines.engine import PreparedShards
from robustruct.features.digests import joined_digests, sample_digests

if TYPE_CHECKING:
    from robustruct.models.fitting.early_stopping import EarlyStopping

CHANCE = 1e-3
"""That held-out samples are refused although they are new."""


def all_digests(shards: PreparedShards, stopper: EarlyStopping | None) -> np.ndarray:
    """Sorted digests of the samples that train a model, and of those that stop its training."""
    watched = None if stopper is None else sample_digests(stopper.held_out.design)
    return np.sort(joined_digests([shards.sample_digests(), watched]))


def seen_before(known: np.ndarray, found: np.ndarray, part: str) -> str | None:
    """Say how many samples were seen before, if these are more than chance explains.

    Short samples may be equal by chance, as "Thank you ." is in any two halves of a corpus. How
    often can be told from the samples ``known`` (sorted digests): a new one has a twin among them
    about as often as they have among themselves.
    """
    at = np.minimum(np.searchsorted(known, found), max(len(known) - 1, 0))
    n_seen = int((known[at] == found).sum()) if len(known) else 0
    if not n_seen:
        return None
    twins = np.diff(known) == 0
    share = (np.append(twins, False) | np.insert(twins, 0, False)).mean()
    # As if one twin more were known: where there is none, the share need not be 0.
    share = min(float(share) + 1.0 / len(known), 1.0)
    from scipy.special import bdtrc  # takes long to load

    if bdtrc(n_seen - 1, len(found), share) > CHANCE:
        return None
    return (
        f"{n_seen:,} of {len(found):,} samples had a part in {part} (about "
        f"{share * len(found):,.1f} would be equal by chance)"
    )
