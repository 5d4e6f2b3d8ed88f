"""What held-out samples prove about a model's decisions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from robustruct.errors import InvalidInputError, shown, warn
from robustruct.features.digests import sample_digests
from robustruct.guarantees.certificate import (
    Certificate,
    Observed,
    certified_cost,
    check_confidence,
)
from robustruct.guarantees.risk_control import Calibration, Rule, check_target
from robustruct.models.fitting.seen import seen_before
from robustruct.models.fitting.splitting import group_codes
from robustruct.models.prediction import ActionsLike, HeldOut, Prediction, safety


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
        rule: Any = None,
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
        rule : optional
            The rule of `control` to decide by, as for ``predict``. Its calibration samples are
            refused, too.

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
        controlled = self._rule(rule)
        self._refuse_seen(held_out, "certify what it costs", controlled)
        chosen = self._actions(actions)
        if chosen is not None:
            held_out = held_out.with_actions(chosen, self.classes_)
        codes = None
        if groups is not None:
            codes = group_codes(groups, held_out.design.batch.n_samples)
        observed = Observed(
            held_out.costs(held_out.decided(self, None, chosen, controlled)),
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

    def control(
        self, X: Any, y: Any, miss: float, label: Any = None, most: int | None = None
    ) -> Rule:
        """Calibrate decisions so that at most a share ``miss`` of what matters is missed.

        With a ``label`` (say "O", no name): of the nodes with another true label, at most this
        share is answered ``label``, in expectation over calibration and a new sample. The rule
        answers ``label`` only where it is likely enough against the next best; the rest is decided
        as ever. Without one: of all nodes, at most this share has its true label outside the set
        that ``predict_sets`` returns. Whatever the model, a low target is paid for, by false alarms
        or larger sets: see ``price`` of the rule.

        The rule is kept in ``rules_``, and in the model's file, under its label.

        Parameters
        ----------
        X, y : as for ``fit``
            Calibration samples, independent of each other, that had no part in making the model.
        miss : float
            The share to allow, above 0 and below 1.
        label : optional
            The label that must not be answered where another is true.
        most : int
            The most nodes with another label (without ``label``: the most nodes) that any
            sample can have. The promise needs it: one new sample could have more than all others.

        Returns
        -------
        Rule
            Its ``str`` is the promise in words.

        Examples
        --------
        >>> from robustruct import CRF
        >>> X = [[[i / 60], [1 - i / 60]] for i in range(60)]
        >>> y = [["name" if x > 0.5 else "O" for (x,) in rows] for rows in X]
        >>> model = CRF(random_state=0).fit(X[::6], y[::6])
        >>> rule = model.control(X[1::2], y[1::2], miss=0.2, label="O", most=2)
        >>> answers = model.predict(X[2::6], rule="O")
        """
        held_out = HeldOut.of(self, X, y)
        self._refuse_seen(held_out, "calibrate a rule")
        found = self._feasible(self._scores(held_out.design))
        probabilities = self._probabilities(found)
        place = {name: a for a, name in enumerate(self.classes_.tolist())}
        assert held_out.known is not None
        truth = np.array([place.get(name, -1) for name in held_out.known.tolist()])[held_out.truth]
        if label is None:
            counts, levels = np.ones(len(truth), bool), 1.0 - _at(probabilities, truth)
            what = "at all"
        else:
            code = self._code_of(label)
            counts, what = truth != code, f"of another label than {label!s}"
            levels = safety(probabilities, code)
        starts = held_out.design.batch.node_offsets[:-1]
        counted = np.add.reduceat(counts.astype(np.intp), starts)
        check_target(miss, most, counted, what)
        assert most is not None
        threshold, needed = Calibration(levels[counts], counted).controlled(float(miss), int(most))
        missed = levels[counts] > threshold
        if label is None:
            price = float((1.0 - probabilities <= threshold).sum(axis=1).mean())
        else:
            price = float(((levels <= threshold) & ~counts).mean())
        digests = np.sort(sample_digests(held_out.design))
        rule = Rule(
            label, float(miss), threshold, int(most), len(counted), needed, float(missed.mean()),
            price, digests,
        )  # fmt: skip
        self.rules_ = {**getattr(self, "rules_", {}), label: rule}
        return rule

    def predict_sets(self, X: Any, rule: Rule | None = None, node_weight: Any = None) -> list[Any]:
        """Return for every node the set of labels that may be true, as `control` calibrated it.

        A list of lists of sets; for a 2-D X a list of sets.

        Parameters
        ----------
        X : as for ``fit``
        rule : Rule, optional
            By default that of the last call ``control(X, y, miss, most=...)`` without a label.
        node_weight : list of arrays, optional
            As for ``predict_proba``.
        """
        chosen = self._rule_of(None) if rule is None else rule
        if not isinstance(chosen, Rule) or chosen.label is not None:
            raise InvalidInputError(
                f"rule={shown(rule)}; sets need what control(X, y, miss, most=...) returns without "
                "a label.",
                field="rule",
            )

        def sets(rows: np.ndarray) -> list[set[Any]]:
            return [set(self.classes_[row].tolist()) for row in 1.0 - rows <= chosen.threshold]

        found = self.predict_proba(X, node_weight)
        return [sets(rows) for rows in found] if isinstance(found, list) else sets(found)

    def _digests(self, X: Any) -> np.ndarray:
        """(S,) digests by which samples are recognised."""
        return sample_digests(self._encode(X)[0])

    def _seen_before(self, digests: np.ndarray, rule: Rule | None = None) -> str | None:
        """Say how many samples had a part in making the model, if more than chance explains.

        None too where a model does not know its samples, as one that a network exports.
        """
        known = getattr(self, "sample_digests_", np.zeros(0, np.uint64))
        found = seen_before(known, digests, "making the model")
        if found is None and rule is not None:
            found = seen_before(rule.digests, digests, "calibrating the rule")
        return found

    def _refuse_seen(self, held_out: HeldOut, purpose: str, rule: Rule | None = None) -> None:
        found = self._seen_before(sample_digests(held_out.design), rule)
        if found is not None:
            raise InvalidInputError(
                f"{found}, so they cannot {purpose}: give samples that the model has not seen, "
                "held out before training.",
                field="X",
            )


def _at(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """(N,) the probability of the truth; minus infinity where the model does not know it."""
    found = np.take_along_axis(probabilities, np.maximum(truth, 0)[:, None], axis=1)[:, 0]
    return np.where(truth < 0, -np.inf, found)
