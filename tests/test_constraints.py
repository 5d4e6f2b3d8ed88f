"""Rules as masks: what they forbid, and the labels that break them."""

import itertools

import numpy as np
import pytest

from robustruct import AGM, Constraints, Graph
from robustruct.constraints import TransitionMasks, node_kinds
from robustruct.errors import InvalidInputError
from robustruct.features import FeatureSpace, scores
from robustruct.inference import best_labelling, score_of

BIO = ["O", "B-X", "I-X", "B-Y", "I-Y"]
BIOES = ["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "E-Y"]


def well_formed(tags, scheme):
    """Read off the definition, entity by entity."""
    inside = None
    for tag in tags:
        prefix, _, kind = tag.partition("-")
        if prefix in "IE" and inside != kind:
            return False
        if scheme == "BIOES" and inside is not None and prefix not in "IE":
            return False
        inside = kind if prefix in "BI" else None
    return scheme == "BIO" or inside is None


@pytest.mark.parametrize(("scheme", "labels"), [("BIO", BIO), ("BIOES", BIOES)])
def test_a_scheme_allows_exactly_the_well_formed_sequences(scheme, labels):
    rules = TransitionMasks.build(labels, scheme)
    for n in (1, 2, 3):
        _, design = FeatureSpace.fit([np.zeros((n, 1))])
        plain = scores(design, np.zeros(2 * len(labels) + len(labels) ** 2), len(labels))
        ruled = rules.apply(plain, design)
        for codes in itertools.product(range(len(labels)), repeat=n):
            allowed = np.isfinite(score_of(ruled, np.array(codes))[0])
            assert allowed == well_formed([labels[a] for a in codes], scheme)


def test_forbidden_pairs_follow_the_direction_of_the_edges():
    rules = TransitionMasks.build(["a", "b"], [("a", "b")])
    star = Graph(np.zeros((3, 1)), [(0, 1), (2, 0)])
    _, design = FeatureSpace.fit([star])
    plain = scores(design, np.zeros(2 * 2 + 4), 2)
    ruled = rules.apply(plain, design)
    for user in itertools.product((0, 1), repeat=3):
        value = score_of(ruled, design.batch.from_user(np.array(user)))[0]
        broken = (user[0], user[1]) == (0, 1) or (user[2], user[0]) == (0, 1)
        assert np.isfinite(value) != broken


def test_kinds_of_nodes_in_chains_and_trees():
    _, design = FeatureSpace.fit(
        [np.zeros((3, 1)), np.zeros((1, 1)), Graph(np.zeros((3, 1)), [(1, 0), (1, 2)])]
    )
    kinds = design.batch.to_user(node_kinds(design))
    assert kinds.tolist() == [1, 0, 2, 3, 2, 1, 2]


def test_without_rules_scores_stay_untouched():
    _, design = FeatureSpace.fit([np.ones((3, 1))])
    plain = scores(design, np.arange(8.0), 2)
    rules = TransitionMasks.build([0, 1])
    assert rules.empty
    assert rules.apply(plain, design) is plain
    assert np.isfinite(best_labelling(plain)[1]).all()


def test_pairs_with_absent_labels_have_no_effect():
    assert TransitionMasks.build(["a", "b"], [("a", "c"), ("d", "b")]).empty


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([["O", "I-X"]], r"sample 0, node 0: 'O' is followed by 'I-X'"),
        ([["O", "O"], ["I-X", "O"]], r"sample 1, node 0: 'I-X' starts a sequence"),
    ],
)
def test_truth_that_breaks_a_rule_is_named(labels, message):
    classes = np.array(["B-X", "I-X", "O"])
    rules = TransitionMasks.build(classes, "BIO")
    _, design = FeatureSpace.fit([np.zeros((len(tags), 1)) for tags in labels])
    codes = np.searchsorted(classes, [tag for tags in labels for tag in tags])
    with pytest.raises(InvalidInputError, match=message):
        rules.check_truth(design, codes, classes)


def test_an_open_entity_at_the_end_breaks_bioes():
    classes = np.array(["B-X", "E-X", "O"])
    rules = TransitionMasks.build(classes, "BIOES")
    _, design = FeatureSpace.fit([np.zeros((2, 1))])
    with pytest.raises(InvalidInputError, match="sample 0, node 1: 'B-X' ends a sequence"):
        rules.check_truth(design, np.array([2, 0]), classes)


NO_PAIRS = [
    ([("a",)], r"{} holds \('a',\); each entry is a pair"),
    (["ab"], "{} holds 'ab'; each entry is a pair"),
    (("a", "b"), "{} holds 'a'; each entry is a pair"),
    ([3], "{} holds 3; each entry is a pair"),
    ([(["a"], "b")], "{} holds .*, but a list is no label"),
    (5, "{} is 5; give a list of pairs"),
    (np.array(3.0), r"{} is array\(3\.\); give a list of pairs"),
]


@pytest.mark.parametrize(("given", "message"), NO_PAIRS)
def test_pairs_that_are_none(given, message):
    with pytest.raises(InvalidInputError, match=message.format("constraints")):
        Constraints.of(given)
    with pytest.raises(InvalidInputError, match=message.format("forbidden")):
        Constraints(forbidden=given)


def test_rules_that_make_no_sense():
    with pytest.raises(
        InvalidInputError, match="constraints='IOB' is not known; use 'BIO', 'BIOES'"
    ):
        Constraints.of("IOB")
    with pytest.raises(InvalidInputError, match="constraints is an iterator"):
        Constraints.of(iter([("a", "b")]))
    with pytest.raises(InvalidInputError, match="forbidden is 'ab'; give a list of pairs"):
        Constraints(forbidden="ab")
    for scheme in ("IOB", 5, ["BIO"]):
        with pytest.raises(
            InvalidInputError, match=r"scheme=.* is not known; use 'BIO' or 'BIOES'"
        ):
            Constraints(scheme)
    for action in ("fix", None, ["drop"]):
        with pytest.raises(InvalidInputError, match=r"bad_labels=.* is not known; use 'repair', "):
            Constraints("BIO", bad_labels=action)
    with pytest.raises(InvalidInputError, match="'a' is not a BIO label"):
        TransitionMasks.build(["a", "b"], "BIO")


def test_all_forms_of_the_same_rules_are_equal():
    pairs = [("a", "b"), ("b", "b")]
    for given in (pairs, tuple(pairs), np.array(pairs), [list(pair) for pair in pairs]):
        assert Constraints.of(given) == Constraints(forbidden=pairs)
    assert Constraints(forbidden=iter(pairs)) == Constraints(forbidden=pairs)
    assert Constraints.of("BIO") == Constraints("BIO") != Constraints("BIO", bad_labels="drop")
    assert Constraints.of(None) == Constraints()
    assert len({Constraints("BIO"), Constraints.of("BIO")}) == 1
    both = TransitionMasks.build(BIO, Constraints("BIO", [("O", "B-X")]))
    apart = [TransitionMasks.build(BIO, given).pairs for given in ("BIO", [("O", "B-X")])]
    np.testing.assert_array_equal(both.pairs, np.minimum(*apart))


def test_labels_that_are_listed_twice():
    with pytest.raises(InvalidInputError, match="classes hold 3 labels, of which 2 are distinct"):
        TransitionMasks.build(["a", "b", "a"])


def test_rules_broken_by_a_label_of_many_digits():
    label = 10**6000  # Python does not print it
    data = [np.eye(2)], [[label, 1]]
    with pytest.raises(InvalidInputError, match=r"a int is followed by 1, which `constraints`"):
        AGM(constraints=[(label, 1)]).fit(*data)
