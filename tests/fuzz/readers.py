"""Every reader of files against mutated input: it succeeds, or raises an error of robustruct.

``TARGETS`` draw one case each. A target that returns has checked what was read; errors of
robustruct are as good; anything else that it raises is a violation. What a case reads is in files
of ``WORK``, so that it can be looked at.
"""

from __future__ import annotations

import atexit
import csv
import functools
import gzip
import json
import shutil
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from mutation import (
    Rng,
    chance,
    mutated_arrays,
    mutated_bytes,
    mutated_text,
    mutated_value,
    pick,
    text,
    value,
    work_folder,
)
from safetensors.numpy import save_file

import robustruct
from robustruct import AGM, CRF, SSVM, AutoModel, Checkpoint, Constraints, Graph
from robustruct.formats.conll import TAB
from robustruct.formats.conll import sentences as column_sentences
from robustruct.formats.container import ContainerKind, checksum, read_container
from robustruct.formats.corpus import Corpus, read_corpus
from robustruct.formats.costs import CostChange, changed_costs, named_costs, read_costs
from robustruct.formats.recognise import FORMATS, restored
from robustruct.formats.rows import Roles
from robustruct.formats.shards import ShardedData
from robustruct.formats.templates import Template
from robustruct.formats.text import Lines
from robustruct.models.storage import MODEL
from robustruct.optimizers.checkpoints import CHECKPOINT, kept_in

WORK = work_folder()
atexit.register(shutil.rmtree, WORK, ignore_errors=True)

CONLL = "Hugo NNP 1 B-PER\nlives VBZ 0.5 O\n\nin IN 1 O\nRome NNP 2 B-LOC\n. . 1 O\n"
CRFSUITE = "@weight:2\nB-NP\tw[0]=An\tw[1]=AP\tlength:2.0\nO\ta\\:b:1\tc\n\nO\tw[0]=the\n"
TEMPLATE = "# t\nU00:%x[-1,0]/%x[0,1]\nU01:%lower[0,0]\nU02:%suffix[1,0,2]\nB\nB1:%x[0,1]\n"
TABLE = """who,when,x,label
ada,1,0.5,A
bob,2,-1,B
ada,3,2e3,B
bob,1,0,A
"""
COSTS = "true\\predicted,O,B-PER,7\nO,0,1,2\nB-PER,5,0,1\n7,1,1,0\n"
GRAPHS: list[dict[str, Any]] = [
    {"nodes": [{"w": "a", "n": 2}, {"w": "b"}], "edges": [[0, 1]], "labels": ["X", "Y"]},
    {"nodes": [["a", "b"], ["c"], []], "labels": ["X", "Y", "X"], "weights": [1, 2.5, 0]},
    {"nodes": [[1, 2.5], [0, 1]], "labels": [1, 2], "weight": 0.5, "edge_features": [[1]]},
    {"nodes": ["a", {"b": {"c": ["d"]}}], "labels": [1.5, 2], "edges": [[1, 0]], "other": None},
]


def written(content: bytes, name: str) -> str:
    """A file with the content; some are compressed."""
    path = WORK / name
    path.write_bytes(content)
    return str(path)


def check_corpus(corpus: Corpus) -> None:
    """Samples, labels and weights go together, and features can be looked at."""
    assert len(corpus.X) == len(corpus.y) == len(corpus.lines) > 0
    for i, (x, labels) in enumerate(zip(corpus.X, corpus.y, strict=True)):
        assert isinstance(labels, np.ndarray)
        assert labels.ndim == 1
        nodes = x.node_features if isinstance(x, Graph) else x
        assert len(nodes) == len(labels) > 0
        assert nodes[-1] is not None
        if corpus.node_weight is not None:
            assert len(corpus.node_weight[i]) == len(labels)
            assert (corpus.node_weight[i] >= 0).all()
    if corpus.sample_weight is not None:
        assert (corpus.sample_weight >= 0).all()


def check_unlabelled(path: str, corpus: Corpus) -> None:
    """What can be read with labels can be read without, and be drawn."""
    with Lines(path) as lines:
        for sample in corpus.format.samples(lines, labelled=False):
            graph = isinstance(sample.content, Graph)
            n_nodes = sample.content.n_nodes if graph else len(sample.content)
            assert len(corpus.format.captions(sample)) == n_nodes


# ------------------------------------------------------------------------- samples as text


def conll(rng: Rng) -> None:
    path = written(mutated_text(rng, CONLL.replace(" ", pick(rng, (" ", "\t")))), "data.conll")
    options: dict[str, Any] = {}
    for name, values in {
        "label_column": (-1, 0, 3, 9, -9),
        "weight_column": (2, -2, 0),
        "separator": ("tab", "blanks"),
        "columns": ([0], [1, 0], [7], []),
        "comment": ("#", "H", ""),
        "encoding": ("latin-1", "utf-16", "idna", "no", "utf-7", "cp1252"),
    }.items():
        if chance(rng, 0.15):
            options[name] = pick(rng, values)
    if "columns" not in options and chance(rng, 0.3):
        options["template"] = Template.parse(TEMPLATE)
    corpus = read_corpus(path, "conll", captions=chance(rng, 0.5), **options)
    check_corpus(corpus)
    if "encoding" not in options:
        check_unlabelled(path, corpus)
    state = json.loads(json.dumps({"version": 1, **corpus.format.state()}))
    assert restored(state) == corpus.format


def crfsuite(rng: Rng) -> None:
    path = written(mutated_text(rng, CRFSUITE), "data.crfsuite")
    corpus = read_corpus(path, captions=chance(rng, 0.5))
    check_corpus(corpus)
    check_unlabelled(path, corpus)


def table(rng: Rng) -> None:
    """CSV, or Parquet with the same columns, of which some may hold other values."""
    roles = Roles(("who",), "when", "label")
    if chance(rng, 0.5):
        roles = Roles(
            pick(rng, (("who",), ("who", "when"), ("x",))),
            pick(rng, (None, "when", "x")),
            pick(rng, ("label", "label", "who")),
            pick(rng, (None, None, "x", "when")),
            pick(rng, (None, ("x",), ("x", "when"), ())),
        )
    if chance(rng, 0.8):
        content = mutated_text(rng, TABLE.replace(",", pick(rng, (",", ";", "\t"))))
        path = written(content, "data.csv")
    else:
        import pyarrow as pa
        from pyarrow import parquet

        rows = list(csv.DictReader(TABLE.splitlines()))
        columns = {name: mutated_value(rng, [row[name] for row in rows]) for name in rows[0]}
        try:
            given = pa.table(columns)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return
        path = written(b"", "data.parquet")
        parquet.write_table(given, path)
    corpus = read_corpus(path, captions=chance(rng, 0.5), roles=roles)
    check_corpus(corpus)
    check_unlabelled(path, corpus)
    state = json.loads(json.dumps({"version": 1, **corpus.format.state()}))
    assert restored(state) == corpus.format


def _json_lines(rng: Rng) -> str:
    graphs = [pick(rng, GRAPHS)] * int(rng.integers(1, 3))
    if chance(rng, 0.8):
        graphs = [mutated_value(rng, graph) for graph in graphs]
    return "\n".join(json.dumps(graph) for graph in graphs)


def json_lines(rng: Rng) -> None:
    content = _json_lines(rng)
    raw = mutated_bytes(rng, content.encode()) if chance(rng, 0.3) else content.encode()
    if chance(rng, 0.02):
        raw = b'{"nodes": ' + pick(rng, (b"[", b'{"a":')) * 5000 + b"\n" + raw
    path = written(raw, "data.jsonl")
    corpus = read_corpus(path, captions=chance(rng, 0.5))
    check_corpus(corpus)
    check_unlabelled(path, corpus)
    if chance(rng, 0.05):
        fitted(CRF(alpha=1.0, tol=0.9, max_iter=2), corpus.X, corpus.y, **corpus.weights)


def any_text(rng: Rng) -> None:
    """A file whose name says nothing, plain or compressed."""
    content = mutated_text(rng, pick(rng, (CONLL, CRFSUITE, _json_lines(rng), COSTS)))
    if chance(rng, 0.3):
        content = gzip.compress(content, 1, mtime=0)
        content = mutated_bytes(rng, content) if chance(rng, 0.5) else content
    path = written(content, "data")
    check_corpus(read_corpus(path, pick(rng, (None, None, *FORMATS))))


def templates(rng: Rng) -> None:
    source = mutated_text(rng, TEMPLATE).decode("utf-8", "replace")
    written(source.encode(), "template")
    template = Template.parse(source)
    assert template.nodes
    wide = max([*template.columns, 0]) + 1
    if wide > 50:
        return
    row = "\t".join(["w", "ü", ""] * wide) + "\n"
    content = "\n".join(row * int(rng.integers(1, 4)) for _ in range(2)).encode()
    with Lines(written(content, "sentences")) as lines:
        sentences = list(column_sentences(lines, [3 * wide], TAB))
    for attributes in (template.attributes(sentences), template.edge_attributes(sentences)):
        assert len(attributes) == 2
        assert all(isinstance(name, str) for item in attributes for row in item for name in row)


def cost_csv(rng: Rng) -> None:
    content = mutated_text(rng, COSTS.replace(",", pick(rng, (",", ";", "\t"))))
    table = read_costs(written(content, "costs.csv"))
    k = len(table.labels)
    assert table.costs.shape == (k, k)
    assert np.isfinite(table.costs).all()
    named_costs(table, np.array(["O", 7], dtype=object), "costs.csv")


def cost_strings(rng: Rng) -> None:
    given = pick(rng, ("B>O=5", "*>O=2", "O>*=1e3", "7>O=.5"))
    source = mutated_text(rng, given).decode("utf-8", "replace")
    change = CostChange.parse(source)
    assert np.isfinite(change.cost)
    costs = changed_costs(1 - np.eye(3), ["B", "O", 7], [change])
    assert costs.costs.shape == (3, 3)


# ------------------------------------------------------------------------- Parquet and shards


@functools.cache
def _parquet_bytes(which: int) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist([GRAPHS[which]] * 2), sink)
    return bytes(sink.getvalue())


def parquet_bytes(rng: Rng) -> None:
    content = mutated_bytes(rng, _parquet_bytes(int(rng.integers(3))))
    check_corpus(read_corpus(written(content, "data.parquet")))


def parquet_columns(rng: Rng) -> None:
    """Sound files with columns of any type."""
    import pyarrow as pa
    from pyarrow import parquet

    bad_text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe")]
    )
    one = pa.py_buffer(np.array([0, 1], np.int32))
    in_list = pa.Array.from_buffers(pa.list_(pa.string()), 1, [None, one], children=[bad_text])
    twice = pa.array([[[("a", 1.0), ("a", 2.0)]]], pa.list_(pa.map_(pa.string(), pa.float64())))
    columns = [
        pa.array([["a"]]), pa.array([[["a"]]]), pa.array([[{"w": "a", "n": None}]]), twice, in_list,
        pa.array([[1.5]]), pa.array([[b"\xff"]]), pa.array([[True]]), pa.array([None]), bad_text,
        pa.array([[[1.0, np.nan]]]), pa.array([[18262]], pa.list_(pa.date32())), pa.array([1]),
        pa.array([[2**63 - 1]]), pa.array(["a"]).dictionary_encode(), pa.array([[]]),
        pa.array([[[0, 1]]]), pa.array([[["a\0", ""]]]), pa.array([10**18], pa.timestamp("s")),
    ]  # fmt: skip
    names = ["nodes"] + [
        pick(rng, ("labels", "labels", "edges", "weights", "weight", "edge_features", "nodes", "x"))
        for _ in range(int(rng.integers(1, 4)))
    ]
    table = pa.Table.from_arrays([pick(rng, columns) for _ in names], names=names)
    path = str(WORK / "data.parquet")
    try:
        parquet.write_table(table, path)
    except pa.ArrowException:
        return  # pyarrow does not write that
    check_corpus(read_corpus(path))


def shards(rng: Rng) -> None:
    """Several files of one format, read one by one."""
    sources = {"conll": CONLL, "crfsuite": CRFSUITE, "jsonl": _json_lines(rng)}
    ending = pick(rng, tuple(sources))
    for number in range(3):
        content = mutated_text(rng, sources[ending]) if chance(rng, 0.5) else b""
        written(content, f"part-{number}.{ending}")
    pattern = str(WORK / f"part-*.{ending}")
    if chance(rng, 0.2):
        pattern = str(WORK / (text(rng)[:100] + pick(rng, ("*", "?", "[", "[!]", "\0", ""))))
    options = {"min_count": 2} if chance(rng, 0.1) else {}
    found = ShardedData.from_files(pick(rng, (pattern, [pattern, pattern])), **options)
    for shard in found:
        corpus = shard.read()
        assert len(corpus.X) == len(corpus.y)
    if chance(rng, 0.05):
        fitted(CRF(alpha=1.0, tol=0.9, max_iter=2), found)


# ------------------------------------------------------------------------- models


def fitted(model: Any, *data: Any, **options: Any) -> Any:
    """The model, trained without complaints about its few passes."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return model.fit(*data, **options)


Parts = tuple[dict[str, Any], dict[str, np.ndarray], bytes, Any]


@functools.cache
def _models() -> list[Parts]:
    """(description, arrays, file, samples) of small models of every kind."""
    given: list[tuple[Any, Any, Any]] = []
    X, y = [[["a"], ["b", "c"]], [["b"], ["a"]]], [["B-x", "I-x"], ["O", "B-x"]]
    given.append((CRF(alpha=1.0, constraints=Constraints("BIO", [("O", "O")])), X, y))
    dense = [np.eye(2), np.ones((3, 2))]
    given.append((AGM([[0, 1], [2, 0]], alpha=1.0, tol=0.5), dense, [[0, 1], [1, 1, 0]]))
    typed = [
        Graph(rows, [(0, 1)], [["e"]], node_types=["t", "s"])
        for rows in (np.eye(2), np.ones((2, 2)))
    ]
    given.append((SSVM(alpha=1.0, tol=0.5), typed, [["u", "v"], ["w", "v"]]))
    warm = AutoModel(alpha=[1.0], cv=2, max_iter=20, random_state=0)
    given.append((warm, dense * 2, [[0, 1], [1, 1, 0]] * 2))
    columns = read_corpus(written(CONLL.encode(), "data.conll"))
    parts = []
    for number, (model, X, y) in enumerate(given):
        fitted(model, X, y)
        if number == 0:
            model.input_ = {"version": 1, **columns.format.state()}
        path = WORK / "model"
        model.save(path)
        description, arrays, _ = read_container(path, MODEL)
        parts.append((description, arrays, path.read_bytes(), X))
    return parts


def sealed(path: Any, kind: ContainerKind, description: Any, arrays: dict[str, np.ndarray]) -> None:
    """A file with a checksum that is right, whatever is inside."""
    said = json.dumps(description)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {
        "format": kind.format,
        "format_version": str(kind.version),
        "written_by": "fuzz",
        "description": said,
        "sha256": checksum(said, arrays),
    }
    save_file(arrays, path, header)


def use(path: Any, samples: Any) -> None:
    """Load a model and ask it for everything; what was accepted can be saved again."""
    model = robustruct.load(path)
    assert not {"checkpoint", "engine"} & set(vars(model))  # a file cannot say where to write
    assert model.duality_gap_ >= -1e-6
    assert all(one.dual <= one.primal + 1e-6 * abs(one.primal) for one in model.history_)
    model.save(path)
    for name in vars(model):
        assert name.startswith("_") or not callable(getattr(type(model), name, None)), name
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for labels, x in zip(model.predict(samples), samples, strict=True):
            assert set(np.asarray(labels).tolist()) <= set(model.classes_.tolist())
            assert len(labels) == (x.n_nodes if isinstance(x, Graph) else len(x))
        for part in model.decision_function(samples):
            assert not np.isnan(part).any()
        for part in model.predict_proba(samples):
            assert np.isfinite(part).all()
            np.testing.assert_allclose(np.sum(part, axis=-1), 1.0, atol=1e-6)
        model.top_features(model.classes_[0], 2)
        model.top_transitions(2)
        repr(model)
        if hasattr(model, "input_"):
            restored(model.input_)


def model_bytes(rng: Rng) -> None:
    _, _, content, samples = pick(rng, _models())
    path = written(mutated_bytes(rng, content), "model")
    use(path, samples)


def model_structure(rng: Rng) -> None:
    description, arrays, _, samples = pick(rng, _models())
    if chance(rng, 0.7):
        description = mutated_value(rng, description)
    if chance(rng, 0.5):
        arrays = mutated_arrays(rng, arrays)
    if chance(rng, 0.05):
        key = pick(rng, ("predict", "fit", "_space", "__class__", "coef_", "x_", "_rules", "score"))
        if isinstance(description.get("attributes"), dict):
            description = {**description}
            description["attributes"] = {**description["attributes"], key: value(rng)}
    sealed(WORK / "model", MODEL, description, arrays)
    use(WORK / "model", samples)


# ------------------------------------------------------------------------- checkpoints


@functools.cache
def _fits() -> list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str, Parts]]:
    """Fits with a checkpoint each: the model, its data, its options, and the file."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(4)]
    y = [np.array([0, 1, 0]), np.array([1, 1, 0]), np.array([0, 0, 1]), np.array([1, 0, 1])]
    cycles = [Graph(rows, [(0, 1), (1, 2), (2, 0)]) for rows in X]
    cases: list[tuple[Any, dict[str, Any], Any, dict[str, Any]]] = [
        (AGM, {}, X, {}),
        (CRF, {}, X, {"validation": (X[:2], y[:2])}),
        (SSVM, {}, cycles, {}),
        (AGM, {"optimizer": "subgradient"}, X, {}),
        (AGM, {"inference": "relaxed"}, cycles, {}),
        (AGM, {"temperature": 1.0}, X, {}),
        (SSVM, {"alpha": [0.1, 1.0]}, X, {"cv": 2}),
    ]
    found = []
    for Model, parameters, samples, options in cases:
        folder = WORK / "kept"
        shutil.rmtree(folder, ignore_errors=True)
        given = {"alpha": 0.1, "tol": 1e-9, "random_state": 0, **parameters}
        make = functools.partial(Model, **given)
        fitted(make(max_iter=3), samples, y, **options, checkpoint=Checkpoint(folder, 1))
        name = kept_in(folder)[-1]
        description, arrays, _ = read_container(folder / name, CHECKPOINT)
        content = (folder / name).read_bytes()
        found.append((make, (samples, y), options, name, (description, arrays, content, None)))
    return found


def _resumed(case: Any, put: Callable[[Any], None]) -> None:
    make, data, options, name, _ = case
    folder = WORK / "kept"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    put(folder / name)
    kept = Checkpoint(folder, 1, resume=True)
    model = fitted(make(max_iter=5), *data, **options, checkpoint=kept)
    assert np.isfinite(model.coef_).all()
    assert model.duality_gap_ >= -1e-6, model.duality_gap_
    assert all(one.dual <= one.primal + 1e-6 * abs(one.primal) for one in model.history_)
    assert np.isfinite(np.concatenate(model.decision_function(data[0]))).all()


def checkpoint_bytes(rng: Rng) -> None:
    case = pick(rng, _fits())
    content = mutated_bytes(rng, case[4][2])
    _resumed(case, lambda path: path.write_bytes(content))


def checkpoint_structure(rng: Rng) -> None:
    case = pick(rng, _fits())
    description, arrays, _, _ = case[4]
    if chance(rng, 0.3):
        description = mutated_value(rng, description)
    if chance(rng, 0.9):
        arrays = mutated_arrays(rng, arrays)
    _resumed(case, lambda path: sealed(path, CHECKPOINT, description, arrays))


TARGETS: dict[str, Callable[[Rng], None]] = {
    function.__name__: function
    for function in (
        conll,
        crfsuite,
        json_lines,
        table,
        any_text,
        templates,
        cost_csv,
        cost_strings,
        parquet_bytes,
        parquet_columns,
        shards,
        model_bytes,
        model_structure,
        checkpoint_bytes,
        checkpoint_structure,
    )
}
