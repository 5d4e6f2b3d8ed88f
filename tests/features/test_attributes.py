"""Attributes mean what they mean to python-crfsuite."""

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustruct.errors import InvalidInputError
from robustruct.features import FeatureSpace, SparseRows
from robustruct.features.attributes import attributes

names = st.text("abcé[-1]=", min_size=1, max_size=3)
numbers = st.floats(-5, 5) | st.integers(-3, 3) | st.booleans()
string_lists = st.lists(names, max_size=3, unique=True)
flat = st.dictionaries(names, names | numbers, max_size=4)
nested = st.recursive(
    st.dictionaries(names, names | numbers | string_lists | st.sets(names, max_size=2), max_size=3),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=4,
)


def decoded(space: FeatureSpace, rows: SparseRows) -> list[dict[str, float]]:
    """Each row as a dict without the bias."""
    columns = space.node_feature_names
    dicts = []
    for lo, hi in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        pairs = zip(rows.indices[lo:hi], rows.data[lo:hi], strict=True)
        row = {columns[column]: value for column, value in pairs}
        assert row.pop("(bias)") == 1.0
        dicts.append(row)
    return dicts


def by_crfsuite(sample: list) -> list[dict[str, float]]:
    items = pycrfsuite.ItemSequence(sample).items()
    return [{name: value for name, value in item.items() if value != 0} for item in items]


def expands_uniquely(item) -> bool:
    """python-crfsuite's own listing keeps one of several equal names, so leave these out."""
    listed = [name for name, _ in attributes(item)]
    return len(listed) == len(set(listed))


@pytest.mark.parametrize("items", [string_lists, flat, nested, string_lists | flat | nested])
@given(data=st.data())
def test_conventions_are_those_of_python_crfsuite(items, data):
    sample = data.draw(st.lists(items.filter(expands_uniquely), min_size=1, max_size=5))
    space, design = FeatureSpace.fit([sample])
    assert decoded(space, design.nodes) == by_crfsuite(sample)
    assert decoded(space, space.encode([sample]).nodes) == by_crfsuite(sample)


@pytest.mark.parametrize(
    "item",
    [
        {"w": "a"},
        {"w": 1.5, "v": 2, "t": True, "f": False},
        {"a": {"b": 1}},
        {"a": {"b": {"c": "d"}}, "e": {}},
        {"w": ["a", "b"], "v": {"c"}, "u": []},
        {"w": ""},
        {"a:b": 2, "w": "x:y"},
        {"w": b"bytes", b"k": 3},
        {"w": np.float32(2), "v": np.int64(3), "t": np.bool_(True), "s": np.str_("a")},
        ["x", "y"],
        ("x", b"y"),
        {"one"},
        [],
        {},
    ],
    ids=repr,
)
def test_one_item_as_python_crfsuite_reads_it(item):
    assert dict(attributes(item)) == pycrfsuite.ItemSequence([item]).items()[0]
    space, design = FeatureSpace.fit([[item, ["z"]]])
    assert decoded(space, design.nodes) == by_crfsuite([item, ["z"]])


def test_a_bare_string_is_one_attribute():
    space, design = FeatureSpace.fit([["ab", "c"]])
    assert decoded(space, design.nodes) == [{"ab": 1.0}, {"c": 1.0}]


def test_tuples_and_frozensets_inside_a_dict_are_lists_and_sets():
    assert dict(attributes({"w": ("a", "b"), "v": frozenset("c")})) == {
        "w:a": 1,
        "w:b": 1,
        "v:c": 1,
    }


def test_repeated_attributes_add_up_and_zeros_are_dropped():
    space, design = FeatureSpace.fit([[["a", "b", "a"], {"a:b": 1, "a": "b", "c": 0.0}]])
    assert decoded(space, design.nodes) == [{"a": 2.0, "b": 1.0}, {"a:b": 2.0}]


def test_columns_come_in_order_of_first_appearance():
    samples = [[{"w": "z", "v": 2.5}, {"w": "a"}], [{"u": True, "w": "z"}]]
    assert FeatureSpace.fit(samples)[0].node_feature_names == ["w:z", "v", "w:a", "u", "(bias)"]


def test_sets_are_sorted_so_that_columns_do_not_depend_on_the_process():
    space, _ = FeatureSpace.fit([[set("hgfedcba")], [{"w": {"y", "x"}}]])
    assert space.node_feature_names == [*"abcdefgh", "w:x", "w:y", "(bias)"]


@pytest.mark.parametrize(
    "sample",
    [[["a", "new"], ["new"]], [{"a": 1, "new": 2}, {"new": "x"}], [{"a"}, {"new"}]],
    ids=repr,
)
def test_attributes_that_training_did_not_see_are_ignored(sample):
    space, _ = FeatureSpace.fit([[["a", "b"], {"c": "d"}]])
    assert decoded(space, space.encode([sample]).nodes) == [{"a": 1.0}, {}]
    assert space.node_feature_names == ["a", "b", "c:d", "(bias)"]


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"w": None}, "'w' is None"),
        ({"w": object()}, "'w' is a object"),
        ({"w": 1j}, "'w' is a complex"),
        ({"w": np.ones(2)}, "'w' is a ndarray"),
        ({"w": ["a", 1]}, "name 1 is a int"),
        ({"w": {1: 2}}, "name 1 is a int"),
        ({3: 2.0}, "name 3 is a int"),
        (["a", None], "name None is None"),
        (["a", ["b"]], "is a list; expected a string"),
        ([b"\xff"], "not UTF-8"),
        (None, "it is None"),
        ({"w": 10**400}, "too large"),
        ({"w": float("nan")}, "is nan"),
        ({"w": {"v": float("-inf")}}, "is -inf"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.parametrize("trained", [False, True])
def test_a_bad_item_is_named(item, told, trained):
    samples = [[{"w": "a"}], [{"w": "a"}, {"v": 1.0}, item]]
    encode = FeatureSpace.fit(samples[:1])[0].encode if trained else FeatureSpace.fit
    with pytest.raises(InvalidInputError, match="sample 1, node 2") as caught:
        encode(samples)
    assert told in str(caught.value)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize(
    "bad", [[["a"], ["a", 1]], [["a"], [b"\xff"]], [["a"], [1.0, 2.0]]], ids=repr
)
def test_a_bad_name_in_lists_of_strings_is_named(bad, trained):
    encode = FeatureSpace.fit([[["a"]]])[0].encode if trained else FeatureSpace.fit
    with pytest.raises(InvalidInputError, match="sample 1, node 1: the "):
        encode([[["a"]], bad])
