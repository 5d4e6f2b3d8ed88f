"""Summaries of shards, merged, make the space that all samples together would make."""

import os
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from robustruct import AGM, load
from robustruct.cli.inspect import inspect
from robustruct.errors import InvalidInputError
from robustruct.features import FeatureSpace, FeatureSummary, SparseRows
from robustruct.features.columns import HashedColumns, columns_from_state
from robustruct.graphs import Graph

names = st.sampled_from(["w:a", "w:b", "w:c", "cap", "né"])
attributes = st.one_of(
    st.lists(names, max_size=3),
    st.dictionaries(names, st.one_of(st.booleans(), st.integers(-2, 2), names), max_size=3),
)
chains = st.lists(attributes, min_size=1, max_size=4)


@st.composite
def graphs(draw):
    """Chains of attributes with attributes on the edges, some of a single node."""
    nodes = draw(st.lists(attributes, min_size=1, max_size=4))
    edges = draw(st.lists(attributes, min_size=len(nodes) - 1, max_size=len(nodes) - 1))
    types = draw(st.lists(st.sampled_from("ts"), min_size=len(nodes), max_size=len(nodes)))
    n = len(nodes)
    return Graph(nodes, [(i, i + 1) for i in range(n - 1)], edges, types)


def split(samples, cuts):
    bounds = [0, *sorted(cut % (len(samples) + 1) for cut in cuts), len(samples)]
    return [samples[a:b] for a, b in pairwise(bounds)]


def merged(shards, **options):
    summary = FeatureSummary()
    for number, shard in enumerate(shards):
        part = FeatureSummary.of(shard, source=f"shard {number}", **options)
        summary = summary.merged(pickle.loads(pickle.dumps(part)))
    return summary


def by_name(rows, columns):
    """Dense rows with the columns in the order of their names."""
    full = rows.to_scipy().toarray() if isinstance(rows, SparseRows) else rows
    return full[:, np.argsort(columns, kind="stable")]


def edge_rows(space, design):
    rows = by_name(design.edges, space.edge_feature_names)
    return rows[design.table_row[design.table_of[design.batch.slot_of_edge]]]


@given(
    st.one_of(
        st.lists(chains, min_size=1, max_size=6),
        st.lists(graphs(), min_size=1, max_size=6),
    ),
    st.lists(st.integers(0, 6), max_size=4),
    st.booleans(),
)
def test_merged_summaries_encode_as_one_fit_on_all(samples, cuts, bias):
    fitted, design = FeatureSpace.fit(samples, bias=bias)
    space = FeatureSpace.of_summary(merged(split(samples, cuts)), bias=bias)
    assert space.node_feature_names == fitted.node_feature_names  # first appearance is kept
    assert sorted(space.edge_feature_names) == sorted(fitted.edge_feature_names)
    assert space.types == fitted.types
    ours = space.encode(samples)
    np.testing.assert_array_equal(
        by_name(ours.nodes, space.node_feature_names),
        by_name(design.nodes, fitted.node_feature_names),
    )
    np.testing.assert_array_equal(edge_rows(space, ours), edge_rows(fitted, design))
    np.testing.assert_array_equal(ours.type_of, design.type_of)


@given(st.lists(chains, min_size=1, max_size=6), st.integers(1, 4))
def test_attributes_below_min_count_are_cut(samples, min_count):
    occurrences: dict[str, int] = {}
    for sample in samples:
        for node in sample:
            pairs = node.items() if isinstance(node, dict) else [(name, 1) for name in node]
            for key, value in pairs:
                name = f"{key}:{value}" if isinstance(value, str) else key
                occurrences[name] = occurrences.get(name, 0) + 1
    kept = [name for name, count in occurrences.items() if count >= min_count]
    summary = merged(split(samples, [1, 3]))
    assert summary.nodes.counts == occurrences
    if occurrences and not kept:
        with pytest.raises(InvalidInputError, match=f"min_count={min_count} leaves no attribute"):
            FeatureSpace.of_summary(summary, min_count=min_count)
    else:
        space = FeatureSpace.of_summary(summary, min_count=min_count, bias=False)
        assert space.node_feature_names == kept


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_numeric_samples_need_only_their_width(make):
    samples = [make(np.arange(6.0).reshape(2, 3)), make(np.ones((1, 3)))]
    space = FeatureSpace.of_summary(merged([samples[:1], [], samples[1:]]))
    assert space.state() == FeatureSpace.fit(samples)[0].state()
    rows = make(np.eye(4))
    assert FeatureSpace.of_summary(FeatureSummary.of(rows)).n_node_features == 5


DENSE, WORDS = np.eye(2), [["w:a"], ["w:b"]]
PAIR = [(0, 1)]


@pytest.mark.parametrize(
    ("here", "there", "message"),
    [
        (DENSE, WORDS, "a dense array in shard 0, but dicts or lists of strings in shard 1"),
        (DENSE, sp.csr_array(DENSE), "a dense array in shard 0, but a sparse matrix in shard 1"),
        (DENSE, np.ones((1, 3)), "2 columns in shard 0, but 3 in shard 1"),
        (Graph(DENSE, PAIR, [["e"]]), DENSE, "features in shard 0, but not in shard 1"),
        (DENSE, Graph(DENSE, PAIR, [["e"]]), "features in shard 1, but not in shard 0"),
        (Graph(DENSE, PAIR, [["e"]]), Graph(DENSE, PAIR, np.eye(1)), "edge features are dicts"),
        (Graph(DENSE, PAIR, None, ["a", "b"]), DENSE, "node_types in shard 0, but not"),
        (DENSE, Graph(DENSE, PAIR, None, ["a", "b"]), "node_types in shard 1, but not in shard 0"),
    ],
)
def test_shards_that_do_not_fit_together_are_named(here, there, message):
    with pytest.raises(InvalidInputError, match=message):
        merged([[here], [there]])


def test_no_samples_at_all_are_refused():
    with pytest.raises(InvalidInputError, match="all shards are empty"):
        FeatureSpace.of_summary(merged([[], []]))


# ------------------------------------------------------------------------------------- hashing


def test_hashed_attributes_keep_no_names():
    samples = [[{"w": "a", "len": 2.0}, ["cap", "cap"]], [[]]]
    summary = merged([samples[:1], samples[1:]], hashed=64)
    assert summary.nodes.counts is None
    space = FeatureSpace.of_summary(summary)
    assert space.n_node_features == 65
    assert space.node_feature_names[:2] == ["hash:0", "hash:1"]
    rows = space.encode([*samples, [["never seen"]]]).nodes.to_scipy().toarray()
    assert rows[:, :64].sum(axis=1).tolist() == [3.0, 2.0, 0.0, 1.0]
    again = FeatureSpace.from_state(space.state())
    assert again.state() == space.state()
    np.testing.assert_array_equal(again.encode(samples).nodes.to_scipy().toarray(), rows[:3])


def test_columns_of_hashed_names_hardly_collide():
    """At least as many different columns as drawing at random would give."""
    width, n = 2**12, 4000
    vocabulary = HashedColumns(width).vocabulary
    found = set(vocabulary.find([f"w[{i % 5 - 2}]={i // 5}" for i in range(n)]).tolist())
    expected = width * (1 - (1 - 1 / width) ** n)
    assert len(found) > expected - 4 * np.sqrt(width) / 2


def test_hashing_is_the_same_in_every_process():
    code = (
        "from robustruct.features.columns import HashedColumns;"
        "v = HashedColumns(2**20).vocabulary;"
        "print(v.find(['w:a', 'né', '日本', '']).tolist())"
    )
    outputs = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(done.stdout)
    vocabulary = HashedColumns(2**20).vocabulary
    assert outputs == {f"{vocabulary.find(['w:a', 'né', '日本', '']).tolist()}\n"}
    # The check value of CRC-32, known from elsewhere: a model file must mean the same for ever.
    assert HashedColumns(2**30).vocabulary.find(["123456789"]).tolist() == [0xCBF43926 % 2**30]


def test_bad_widths_and_unknown_hashes_are_refused():
    for width in (0, 2**31):
        with pytest.raises(InvalidInputError, match="2\\*\\*20 is usual"):
            HashedColumns(width)
    with pytest.raises(InvalidInputError, match="upgrade robustruct"):
        columns_from_state({"kind": "hashed", "hash": "md5", "width": 8})
    with pytest.raises(InvalidInputError, match="leave hashed out"):
        FeatureSummary.of([np.eye(2)], hashed=8)


def test_a_model_on_hashed_attributes_is_stored_inspected_and_explained(tmp_path):
    """It is the model on the same columns given as numbers, under another name."""
    X, y = [[["w:a"], ["w:b", "cap"]], [["w:b"]]], [["A", "B"], ["B"]]
    space = FeatureSpace.of_summary(FeatureSummary.of(X, hashed=16))
    vocabulary = space.node_columns.vocabulary
    rows = [np.zeros((len(sample), 16)) for sample in X]
    for sample, numbers in zip(X, rows, strict=True):
        for i, names in enumerate(sample):
            np.add.at(numbers[i], vocabulary.find(names), 1.0)
    model = AGM(alpha=0.1, random_state=0).fit([sp.csr_array(one) for one in rows], y)
    expected = model.decision_function([sp.csr_array(one) for one in rows])
    model._space = space
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded._space.node_columns == HashedColumns(16)
    for ours, theirs in zip(loaded.decision_function(X), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.top_features("A", 1)[0][0] == f"hash:{vocabulary.find(['w:a'])[0]}"
    shown = inspect(loaded)
    assert f"hash:{vocabulary.find(['w:a'])[0]}" in str(shown)
    why = loaded.explain(X[0], 0)
    assert f"hash:{vocabulary.find(['w:a'])[0]}" in {part.name for part in why.features}
