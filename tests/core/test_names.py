"""The table of names numbers them as a dict would."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustruct.core.encoding import first_seen
from robustruct.errors import InvalidInputError
from robustruct.features import FeatureSpace, PackedNames
from robustruct.features.names import HashedVocabulary, Pairs, Vocabulary

any_text = st.text(st.characters(exclude_categories=()), max_size=40)
names = st.lists(
    st.sampled_from(["", "a", "b", "\0", "a\0b", "\ud800", "é"]) | any_text, max_size=60
)


def by_dict(known: dict[str, int], given: list[str], grow: bool) -> list[int]:
    return [known.setdefault(one, len(known)) if grow else known.get(one, -1) for one in given]


@given(first=names, second=names, third=names)
def test_numbers_are_those_of_a_dict(first, second, third):
    vocabulary, known = Vocabulary(), {}
    assert vocabulary.add(first).tolist() == by_dict(known, first, True)
    assert vocabulary.find(second).tolist() == by_dict(known, second, False)
    which = np.arange(len(third))[::-1].copy()
    packed = PackedNames.of(third)
    backwards = third[::-1]
    assert vocabulary.find_packed(packed, which).tolist() == by_dict(known, backwards, False)
    assert vocabulary.add_packed(packed, which).tolist() == by_dict(known, backwards, True)
    for one in (vocabulary, copy.deepcopy(vocabulary), pickle.loads(pickle.dumps(vocabulary))):
        assert list(one.packed()) == one.packed().tolist() == list(known)
        assert len(one) == len(known)
        assert one.find(first).tolist() == by_dict(known, first, False)


@given(items=st.lists(st.tuples(any_text, any_text | st.none()), max_size=30))
def test_keys_and_values_are_the_names_that_they_make(items):
    keys = list(dict.fromkeys(key for key, _ in items))
    pairs = Pairs(
        keys,
        np.array([keys.index(key) for key, _ in items], np.int32),
        np.array([text is not None for _, text in items], np.bool_),
        [text for _, text in items if text is not None],
    )
    whole = [key if text is None else f"{key}:{text}" for key, text in items]
    vocabulary, known = Vocabulary(), {}
    assert vocabulary.add_pairs(pairs).tolist() == by_dict(known, whole, True)
    assert vocabulary.packed().tolist() == list(known)
    assert vocabulary.find_pairs(pairs).tolist() == vocabulary.find(whole).tolist()
    assert (
        HashedVocabulary(97).find_pairs(pairs).tolist() == HashedVocabulary(97).find(whole).tolist()
    )


def test_many_names_of_all_lengths():
    rng = np.random.default_rng(0)
    given = [
        chr(97 + i % 26) * int(n) + str(i % 30_000)
        for i, n in enumerate(rng.integers(0, 70, 90_000))
    ]
    vocabulary, known = Vocabulary(), {}
    assert vocabulary.add(given).tolist() == by_dict(known, given, True)
    assert vocabulary.find(given[::-1]).tolist() == by_dict(known, given[::-1], False)


def test_a_subclass_of_str_is_the_text_it_holds():
    class Word(str):
        def __str__(self):
            return "something else"

    space, design = FeatureSpace.fit([[[Word("a"), np.str_("b")], ["a"]]])
    assert space.node_feature_names == ["a", "b", "(bias)"]
    assert design.nodes.indices.tolist() == [0, 1, 2, 0, 2]


def test_names_that_are_there_twice_are_refused():
    with pytest.raises(InvalidInputError, match="two columns have the name 'b'"):
        Vocabulary.of(PackedNames.of(["a", "b", "c", "b"]))


@given(given=names)
def test_hashes_do_not_depend_on_the_form(given):
    hashed = HashedVocabulary(97)
    alone = [int(hashed.find([one])[0]) for one in given]
    assert hashed.find(given).tolist() == alone
    assert hashed.find_packed(PackedNames.of(given), np.arange(len(given))).tolist() == alone


@given(codes=st.lists(st.integers(0, 12)))
def test_codes_in_the_order_of_first_appearance(codes):
    order = np.empty(13, np.intp)
    n = first_seen(len(codes), np.array(codes, np.int32), 13, order)
    assert order[:n].tolist() == list(dict.fromkeys(codes))


def test_packed_names_of_several_parts():
    parts = [["a", ""], [], ["é", "b"]]
    joined = PackedNames.joined([PackedNames.of(part) for part in parts])
    assert joined.tolist() == [name for part in parts for name in part]
    assert PackedNames.joined([]).tolist() == []
    assert joined == PackedNames.of(joined)
    assert joined[1:] == ["", "é", "b"]
    with pytest.raises(IndexError):
        joined[4]
