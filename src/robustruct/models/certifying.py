"""What held-out samples prove about a model's decisions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from robustruct.errors import InvalidInputError, warn
from robustruct.features.digests import sample_digests
from robustruct.guarantees.certificate import (
    Certificate,
    Observed,
    certified_cost,
    check_confidence,
)
from robustruct.models.fitting.seen import seen_before
from robustruct.models.fitting.splitting import group_codes
from robustruct.models.prediction import ActionsLike, HeldOut, Prediction


class Certifying(Prediction):
    """The part of a model that promises something."""

    sample_digests_: np.ndarray

    def certify(
        self,
        X: Any,
        y: Any,
        confidence: float = 0.95,
        groups: Any = None,
        per: Literal["sample", "node"] = "sample",
        node_weight: Any = None,
        *,
        longest: float | None = None,
        actions: ActionsLike = None,
    ) -> Certificate:
        """Bound what ``predict`` costs on new samples, by held-out ones, with a stated confidence.

        Nothing is assumed about the model or about how costs are distributed; that costs have a
        largest value is enough. The bound is exact for any number of samples, and honest for
        mistakes that are rare and dear, where intervals by Student's t are not. It speaks of
        samples like these: it is no promise about another source of data.

        Parameters
        ----------
        X, y : as for ``fit``
            Samples that had no part in making the model, nor in choosing it; those that it was
            trained on are recognised and refused.
        confidence : float
            Chance that ``upper`` holds, and that ``lower`` does, over the draw of these samples.
        groups : array-like of shape (n_samples,), optional
            What samples belong to that are alike: documents, persons, templates. Groups are then
            the independent draws, and the bound is on the mean of group means. Sentences
            of one document taken for independent make bounds that are violated too often.
        per : {"sample", "node"}
            "sample": the cost per node of each sample, averaged over samples; "node": the cost of
            all nodes over their number.
        node_weight : list of arrays, optional
            Weight of each node's cost, sample by sample.
        longest : float, optional
            For ``per="node"``, the most nodes that a sample (or a group) can have, by weight; by
            default that of the heaviest held-out one, which is then assumed.
        actions : dict, optional
            What may be answered instead of a label, as for ``predict``; its price counts.

        Returns
        -------
        Certificate
            Its ``str`` is a sentence; a warning is given if neighbouring samples look alike and
            there are no ``groups``.

        Examples
        --------
        >>> from robustruct import CRF
        >>> X = [[[0.1 * i], [1.0 - 0.1 * i]] for i in range(10)]
        >>> y = [["a" if x < 0.5 else "b" for (x,) in rows] for rows in X]
        >>> model = CRF(random_state=0).fit(X[::2], y[::2])
        >>> certificate = model.certify(X[1::2], y[1::2], confidence=0.9)
        >>> certificate.lower <= certificate.mean <= certificate.upper <= 1
        True
        """
        check_confidence(confidence)
        held_out = HeldOut.of(self, X, y, None, node_weight)
        self._refuse_seen(held_out, "certify what it costs")
        chosen = self._actions(actions)
        if chosen is not None:
            held_out = held_out.with_actions(chosen, self.classes_)
        codes = None
        if groups is not None:
            codes = group_codes(groups, held_out.design.batch.n_samples)
        observed = Observed(
            held_out.costs(held_out.decided(self, None, chosen)),
            held_out.weights,
            float(held_out.cost.min()),
            float(held_out.cost.max()),
            codes,
            longest,
        )
        certificate = certified_cost(observed, confidence, per)
        for warning in certificate.warnings:
            warn(f"{type(self).__name__}: {warning}.")
        return certificate

    def _digests(self, X: Any) -> np.ndarray:
        """(S,) digests by which samples are recognised."""
        return sample_digests(self._encode(X)[0])

    def _seen_before(self, digests: np.ndarray) -> str | None:
        """Say how many samples had a part in making the model, if more than chance explains.

        None too where a model does not know its samples, as one that a network exports.
        """
        known = getattr(self, "sample_digests_", None)
        return None if known is None else seen_before(known, digests)

    def _refuse_seen(self, held_out: HeldOut, purpose: str) -> None:
        found = self._seen_before(sample_digests(held_out.design))
        if found is not None:
            raise InvalidInputError(
                f"{found}, so they cannot {purpose}: give samples that the model has not seen, "
                "held out before training.",
                field="X",
            )
