"""Models for other programs: a module of numpy alone, files of CRFsuite, files without zeros."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from robustruct import AGM, CRF, SSVM, Constraints, Graph, load
from robustruct.compat import sklearn_crfsuite
from robustruct.errors import IncompatibleError, InvalidInputError
from robustruct.formats.shards import ShardedData
from robustruct.losses import CostMatrix
from robustruct.models.crfsuite_file import hash_of

LABELS = ["B-X", "I-X", "O", "B-Yé"]
COST = CostMatrix({("B-X", "O"): 5, ("B-Yé", "O"): 3})


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        [
            {
                "w": f"é{rng.integers(25)}",
                "size": float(rng.normal()),
                "upper": bool(rng.integers(2)),
                "near": {"-1": [f"a{rng.integers(5)}"], "+1": {"b", "c"}},
            }
            for _ in range(rng.integers(1, 9))
        ]
        for _ in range(n)
    ]


def tags(X, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for x in X:
        labels, before = [], "O"
        for node in x:
            k = (int(node["w"][1:]) + (rng.random() < 0.2)) % 3
            label = ["O", "B-X", "B-Yé"][k]
            before = "I-X" if before in ("B-X", "I-X") and node["upper"] else label
            labels.append(before)
        found.append(labels)
    return found


X, NEW = sentences(60), sentences(40, seed=1)
Y = tags(X)
DENSE = [np.random.default_rng(s).normal(size=(1 + s % 7, 3)) * [1, 50, 1] for s in range(60)]
DENSE_Y = [(np.abs(x[:, 0]) + x[:, 1] / 50 > 1).astype(int) * 3 for x in DENSE]
LISTS = [[[f"w={node['w']}", "bias"] for node in x] for x in X]

CASES = {
    "bayes": (CRF(COST, alpha=0.01), X, Y, NEW),
    "bayes with rules": (CRF(COST, alpha=0.01, constraints="BIO"), X, Y, NEW),
    "map": (CRF(alpha=0.01, decision="map"), X, Y, NEW),
    "map with rules": (CRF(alpha=0.01, decision="map", constraints="BIO"), X, Y, NEW),
    "forbidden pairs": (CRF(COST, constraints=Constraints(forbidden=[("O", "I-X")])), X, Y, NEW),
    "weak penalty": (CRF(COST, alpha=1e-5), X, Y, NEW),
    "ssvm": (SSVM(COST, alpha=0.1, random_state=0), X, Y, NEW),
    "softmax margin": (SSVM(COST, alpha=0.1, temperature=0.5, decision="bayes"), X, Y, NEW),
    "agm by map": (AGM(COST, alpha=0.1, decision="map", random_state=0), X, Y, NEW),
    "numbers": (CRF("absolute", alpha=0.01), DENSE, DENSE_Y, DENSE[::-1]),
    "lists of strings": (CRF(alpha=0.01), LISTS, Y, LISTS[::-1]),
    "strings": (CRF(alpha=0.01), [[node[0] for node in x] for x in LISTS], Y, [["w=é3"], ["?"]]),
}


def in_a_bare_process(folder, given):
    """Answers of the module in a Python that cannot import robustruct."""
    code = """
import importlib.util, json, sys
assert importlib.util.find_spec("robustruct") is None
sys.path.insert(0, ".")
import tagger
def plain(value):
    return set(value["set"]) if isinstance(value, dict) and set(value) == {"set"} else value
given = json.load(sys.stdin, object_hook=plain)
found = {"labels": tagger.labels(), "predicted": tagger.predict(given)}
try:
    found["p"] = [rows.tolist() for rows in tagger.predict_proba(given)]
except ValueError as error:
    found["error"] = str(error)
assert not [m for m in sys.modules if m.startswith(("robustruct", "scipy", "sklearn"))]
json.dump(found, sys.stdout)
"""
    # Without site-packages' .pth files, which would put an editable install on the path.
    numpy_home = os.path.dirname(os.path.dirname(np.__file__))
    (folder / "alone").mkdir(exist_ok=True)
    for name in os.listdir(numpy_home):
        link = folder / "alone" / name
        if name.startswith("numpy") and not link.exists():
            os.symlink(os.path.join(numpy_home, name), link)

    def plain(value):
        return {"set": sorted(value)} if isinstance(value, set) else value.tolist()

    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        input=json.dumps(given, default=plain),
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": str(folder / "alone"), "PATH": os.environ["PATH"]},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def listed(labels):
    return [np.asarray(one).tolist() for one in labels]


@pytest.mark.skipif(os.name == "nt", reason="links to numpy need rights there")
@pytest.mark.parametrize("case", CASES)
def test_the_module_answers_as_the_model_does_without_robustruct(case, tmp_path):
    model, given, labels, new = CASES[case]
    model.fit(given, labels)
    model.export(tmp_path / "tagger.py")
    found = in_a_bare_process(tmp_path, new)
    assert found["labels"] == model.classes_.tolist()
    assert found["predicted"] == listed(model.predict(new))
    if model.temperature_ < np.inf:
        assert "no probabilities that numpy alone" in found["error"]
        return
    for mine, theirs in zip(model.predict_proba(new), found["p"], strict=True):
        np.testing.assert_allclose(theirs, mine, atol=1e-12)


def module_of(model, path):
    import importlib.util

    model.export(path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_scale_of_decisions_goes_with_them(tmp_path):
    model = CRF(COST, alpha=0.01).fit(X, Y)
    plain = listed(model.predict(NEW))
    model.decision_scale_ = 0.05
    scaled = listed(model.predict(NEW))
    assert scaled != plain
    module = module_of(model, tmp_path / "scaled.py")
    assert module.predict(NEW) == scaled
    for mine, theirs in zip(model.predict_proba(NEW), module.predict_proba(NEW), strict=True):
        np.testing.assert_allclose(theirs, mine, atol=1e-12)


def test_hashed_attributes_and_long_sequences(tmp_path):
    data = ShardedData.from_samples(X, Y, 3, hashed=2**10)
    model = CRF(alpha=0.01).fit(data)
    module = module_of(model, tmp_path / "hashed.py")
    long = [[node for x in NEW * 40 for node in x]]  # 7,000 nodes
    assert module.predict(long) == listed(model.predict(long))
    np.testing.assert_allclose(
        module.predict_proba(long)[0], model.predict_proba(long)[0], atol=1e-12
    )


def test_scores_of_any_size(tmp_path):
    """Large weights, and rules that leave a single labelling."""
    model = CRF(alpha=0.1, constraints=Constraints(forbidden=[("O", "I-X"), ("B-Yé", "I-X")])).fit(
        X, Y
    )
    model.coef_ = model.coef_ * 5000
    module = module_of(model, tmp_path / "large.py")
    for mine, theirs in zip(model.predict_proba(NEW), module.predict_proba(NEW), strict=True):
        np.testing.assert_allclose(theirs, mine, atol=1e-12)
    only = CRF(constraints=[("a", "a"), ("b", "b"), ("b", "a"), ("a", "b")])
    module = module_of(only.fit([["x"], ["y"]], [["a"], ["b"]]), tmp_path / "one.py")
    assert module.predict([["x"], []]) == [["a"], []]
    assert [p.shape for p in module.predict_proba([["x"], []])] == [(1, 2), (0, 2)]
    with pytest.raises(ValueError, match="no labelling of a sequence keeps the rules"):
        module.predict([["x", "y"]])


def test_the_module_refuses_bad_input(tmp_path):
    model = CRF().fit(DENSE, DENSE_Y)
    module = module_of(model, tmp_path / "dense.py")
    for wrong, message in (
        ([[[1.0, 2.0]]], r"shape \(1, 2\); expected \(n, 3\)"),
        ([[[1.0, np.nan, 0.0]]], "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            module.predict(wrong)
    module = module_of(CRF().fit(LISTS, Y), tmp_path / "lists.py")
    with pytest.raises(ValueError, match="a node is a int"):
        module.predict([[3]])
    with pytest.raises(ValueError, match="must be finite"):
        module.predict([[{"w=é3": np.inf}]])


def test_the_module_is_short(tmp_path):
    CRF().fit(LISTS, Y).export(tmp_path / "t.py")
    text = (tmp_path / "t.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert sorted(os.listdir(tmp_path)) == ["t.npz", "t.py"]


cyclic = [Graph(np.eye(3), [(0, 1), (1, 2), (2, 0)], np.ones((3, 1)))] * 3
typed = [Graph([["a"], ["b"]], [(0, 1)], node_types=["token", "sentence"])] * 3
REFUSED = {
    "edge features": (CRF(), cyclic, [[0, 1, 0]] * 3, "t.py", r"edges have features \(x0,"),
    "types": (CRF(), typed, [["x", "y"]] * 3, "t.py", r"nodes have types \(sentence, token\)"),
    "relaxed": (SSVM(inference="relaxed"), [Graph(np.eye(3), [(0, 1), (1, 2), (2, 0)])] * 3,
                [[0, 1, 0]] * 3, "t.crfsuite", "cycles"),
    "games": (AGM(decision="predictor"), LISTS, Y, "t.py", r"decision='map'\) first"),
    "numbers for crfsuite": (CRF(), DENSE, DENSE_Y, "t.crfsuite", "not attributes"),
    "labels for crfsuite": (CRF(), LISTS, [[1] * len(x) for x in X[:-1]] + [[2] * len(X[-1])],
                            "t.crfsuite", "labels are text, and it has 1"),
    "rules for crfsuite": (CRF(constraints="BIO"), LISTS, Y, "t.crfsuite", "no constraints"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_exported_is_refused_with_the_reason(case, tmp_path):
    model, given, labels, name, reason = REFUSED[case]
    model.set_params(max_iter=2, tol=10.0).fit(given, labels)
    with pytest.raises(IncompatibleError, match=reason):
        model.export(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"neither a module \(\.py\) nor"):
        CRF().fit(LISTS, Y).export(tmp_path / "model.onnx")
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        CRF().export(tmp_path / "t.py")


# ----------------------------------------------------------------------------- CRFsuite


def tagger_of(path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


@pytest.mark.parametrize("Model", [CRF, SSVM])
def test_crfsuite_tags_what_the_model_predicts(Model, tmp_path):
    model = Model(alpha=0.01, decision="map").fit(X, Y)
    with pytest.warns(UserWarning, match=r"give each item the attribute '\(bias\)'"):
        model.export(tmp_path / "m.crfsuite")
    tagger = tagger_of(tmp_path / "m.crfsuite")
    found = [tagger.tag([{**node, "(bias)": 1.0} for node in x]) for x in NEW]
    assert found == model.predict(NEW)
    again = load(tmp_path / "m.crfsuite")
    assert again.predict([[{**node, "(bias)": 1.0} for node in x] for x in NEW]) == found
    assert again.classes_.tolist() == model.classes_.tolist()


def test_a_model_without_bias_needs_no_more_attributes(tmp_path, recwarn):
    model = sklearn_crfsuite.CRF(c1=0.1, c2=0.1)
    model.fit(LISTS, Y)
    trained = next(v for v in vars(model).values() if isinstance(v, CRF))
    trained.set_params(decision="map").export(tmp_path / "m.crfsuite")
    assert not [one for one in recwarn if "bias" in str(one.message)]
    tagger = tagger_of(tmp_path / "m.crfsuite")
    assert [tagger.tag(x) for x in LISTS] == listed(model.predict(LISTS))


@pytest.mark.parametrize("c1", [0.0, 0.5])
def test_a_model_that_crfsuite_trained_is_read(c1, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, labels in zip(X, Y, strict=True):
        trainer.append(x, labels)
    trainer.set_params({"c1": c1, "c2": 0.1, "max_iterations": 30})
    path = str(tmp_path / "theirs.crfsuite")
    trainer.train(path)
    tagger, model = tagger_of(path), load(path)
    assert model.predict(NEW) == [tagger.tag(x) for x in NEW]
    for x, rows in zip(NEW, model.predict_proba(NEW), strict=True):
        tagger.set(x)
        theirs = [[tagger.marginal(a, i) for a in model.classes_.tolist()] for i in range(len(x))]
        np.testing.assert_allclose(rows, theirs, atol=1e-12)
    model.export(tmp_path / "ours.crfsuite")
    tagger = tagger_of(tmp_path / "ours.crfsuite")
    assert [tagger.tag(x) for x in NEW] == model.predict(NEW)
    model.save(tmp_path / "kept")
    assert load(tmp_path / "kept").predict(NEW) == model.predict(NEW)


def test_damaged_files_of_crfsuite_are_refused(tmp_path):
    model = CRF(alpha=0.1).fit(LISTS, Y)
    with pytest.warns(UserWarning, match="bias"):
        model.export(tmp_path / "m.crfsuite")
    data = (tmp_path / "m.crfsuite").read_bytes()
    rng = np.random.default_rng(0)
    outcomes = set()
    for case in range(300):
        hurt = bytearray(data if case % 3 else data[: rng.integers(4, len(data))])
        for _ in range(rng.integers(1, 4)):
            hurt[rng.integers(4, len(hurt))] = rng.integers(256)
        (tmp_path / "hurt").write_bytes(hurt)
        try:
            load(tmp_path / "hurt").predict(LISTS[:3])
            outcomes.add("read")
        except InvalidInputError as error:
            outcomes.add("damaged" if "but is damaged" in str(error) else str(error))
    assert outcomes == {"read", "damaged"}


def test_the_hash_is_that_of_its_author():
    """Values that Jenkins's own program prints (driver5 of lookup3.c)."""
    assert hash_of(b"") == 0xDEADBEEF
    assert hash_of(b"Four score and seven years ago") == 0x17770551


# ----------------------------------------------------------------------------- files without zeros


def test_files_keep_no_weights_that_are_0(tmp_path):
    dense, sparse = (CRF(alpha=1e-6, l1=l1).fit(X, Y) for l1 in (0.0, 0.05))
    dense.save(tmp_path / "dense")
    sparse.save(tmp_path / "sparse")
    kept = np.any(sparse.node_weights_ != 0, axis=1)
    assert kept.mean() < 0.7
    again = load(tmp_path / "sparse")
    names = sparse.get_feature_names_out()
    assert again.get_feature_names_out().tolist() == names[kept].tolist()
    np.testing.assert_array_equal(again.node_weights_, sparse.node_weights_[kept])
    np.testing.assert_array_equal(again.transitions_, sparse.transitions_)
    assert again.predict(NEW) == sparse.predict(NEW)
    for mine, theirs in zip(again.predict_proba(NEW), sparse.predict_proba(NEW), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-15)
    np.testing.assert_array_equal(load(tmp_path / "dense").coef_, dense.coef_)


def test_a_file_of_the_format_before_is_still_read(tmp_path):
    from robustruct.formats.container import ContainerKind, read_container, write_container
    from robustruct.models.storage import MODEL

    model = CRF(alpha=0.01).fit(X, Y)
    model.save(tmp_path / "new")
    description, arrays, _ = read_container(tmp_path / "new", MODEL)
    assert description["attributes"]["coef_"] == {"array": "coef_"}  # as format 3 wrote weights
    write_container(tmp_path / "old", ContainerKind(MODEL.format, 3, "x"), description, arrays)
    np.testing.assert_array_equal(load(tmp_path / "old").coef_, model.coef_)


def test_forged_places_are_refused(tmp_path):
    from robustruct.formats.container import read_container, write_container
    from robustruct.models.storage import MODEL

    model = CRF(alpha=1e-6, l1=0.05).fit(X, Y)
    model.save(tmp_path / "m")
    description, arrays, _ = read_container(tmp_path / "m", MODEL)
    assert description["attributes"]["coef_"] == {"sparse": "coef_"}
    places = arrays["coef_.places"]
    for wrong in (places + np.uint32(2**31), places[1:], places.astype(float), places[None]):
        write_container(tmp_path / "f", MODEL, description, {**arrays, "coef_.places": wrong})
        with pytest.raises(InvalidInputError, match="do not fit"):
            load(tmp_path / "f")


def test_the_command_exports(tmp_path, monkeypatch, capsys):
    from robustruct.cli.app import app

    monkeypatch.chdir(tmp_path)
    model = CRF(COST, alpha=0.01).fit(X, Y)
    model.save("m")
    with pytest.raises(SystemExit) as ended:
        app(["export", "m", "tagger.py"])
    assert ended.value.code == 0
    assert "tagger.py" in capsys.readouterr().out
    import importlib.util

    spec = importlib.util.spec_from_file_location("tagger", tmp_path / "tagger.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.predict(NEW) == model.predict(NEW)
