"""model.save and robustruct.load: nothing is lost, and nothing but a sound file is read."""

import functools
import json
import os
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from model_cases import MODELS, bio, chains, same, sentences, trees
from safetensors import safe_open
from safetensors.numpy import save_file

import robustruct
from robustruct import AGM, CRF, SSVM, AutoModel, Constraints
from robustruct.errors import InvalidInputError
from robustruct.features import FeatureSpace, PackedNames
from robustruct.formats import container
from robustruct.formats.recognise import restored
from robustruct.labels import as_labels, encode_labels, sorted_labels
from robustruct.losses import Absolute, CostMatrix, Hamming
from robustruct.models.storage import MODEL


def round_trip(model, path):
    model.save(path)
    return robustruct.load(path)


def assert_same_model(model, other, X, y):
    assert type(other) is type(model)
    assert same(other.predict(X), model.predict(X))
    np.testing.assert_array_equal(other.coef_, model.coef_)
    np.testing.assert_array_equal(other.cost_, model.cost_)
    assert other.classes_.dtype == model.classes_.dtype
    assert other.classes_.tolist() == model.classes_.tolist()
    assert other.score(X, y) == model.score(X, y)
    assert other.history_ == model.history_
    assert vars(other).keys() == vars(model).keys()
    assert list(other.get_feature_names_out()) == list(model.get_feature_names_out())


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("data", [sentences, chains, trees], ids=lambda make: make.__name__)
def test_a_loaded_model_is_the_saved_one(Model, data, tmp_path):
    X, y = data()
    model = Model(alpha=0.1, random_state=0).fit(X, y)
    other = round_trip(model, tmp_path / "model")
    assert_same_model(model, other, X, y)
    for name in ("predict_proba", "decision_function"):
        for a, b in zip(getattr(model, name)(X), getattr(other, name)(X), strict=True):
            np.testing.assert_array_equal(a, b)
    assert str(other.explain(X[0], 0)) == str(model.explain(X[0], 0))
    assert other.get_params() == model.get_params()


def test_a_model_of_plain_rows(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    model = CRF(alpha=[1.0, 0.1]).fit(sp.csr_array(X), y, cv=3)
    other = round_trip(model, tmp_path / "model")
    assert other.n_features_in_ == 3
    assert other.alpha_scores_ == model.alpha_scores_
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    with pytest.raises(InvalidInputError, match="2 features, but CRF is expecting 3"):
        other.predict(X[:, :2])


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "ü"],
        [3, -1],
        [0.5, 2.0],
        [True, False],
        [1, "one"],
        [(1, 2), (0, "x")],
        [b"a", b"\xff"],
    ],
    ids=repr,
)
def test_labels_of_every_type(labels, tmp_path):
    X = [np.eye(2), np.eye(2)[::-1]]
    y = [labels, labels[::-1]]
    model = CRF(alpha=0.1).fit(X, y)
    other = round_trip(model, tmp_path / "model")
    assert same(other.predict(X), model.predict(X))
    assert [type(label) for label in other.classes_] == [type(label) for label in model.classes_]


COSTS = np.arange(16.0).reshape(4, 4) * (1 - np.eye(4))


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": Hamming()},
        {"loss": Absolute(order=["D", "A", "N", "V"])},
        {"loss": COSTS},
        {"loss": COSTS.astype(int).tolist()},
        {"loss": CostMatrix(COSTS, ["D", "N", "V", "A"])},
        {"loss": CostMatrix(COSTS)},
        {"class_weight": {"N": 2, "V": np.float32(0.5)}},
        {"class_weight": "balanced"},
        {"constraints": [("D", "V"), ["V", "A"]]},
        {"constraints": {("D", "V")}},
        {"constraints": Constraints(forbidden=[("D", "V")], bad_labels="drop")},
        {"alpha": np.float64(0.25), "max_iter": np.int64(50)},
        {"alpha": np.array([1.0, 0.5]), "random_state": 0},
        {"random_state": 3, "n_jobs": 2},
    ],
    ids=lambda parameters: "-".join(parameters),
)
def test_constructor_parameters_come_back(parameters, tmp_path):
    X, y = sentences()
    model = CRF(**{"alpha": 0.1, **parameters}).fit(X, y)
    other = round_trip(model, tmp_path / "model")
    assert_same_model(model, other, X, y)
    for name, value in model.get_params().items():
        restored = getattr(other, name)
        if isinstance(value, CostMatrix):
            assert repr(restored) == repr(value)
            np.testing.assert_array_equal(restored.costs, value.costs)
        elif isinstance(value, Hamming | Absolute):
            assert type(restored) is type(value)
            assert repr(restored) == repr(value)
        elif isinstance(value, np.ndarray):
            np.testing.assert_array_equal(restored, value)
        else:
            assert restored == value
    assert other.fit(X, y).score(X, y) == pytest.approx(model.score(X, y))


def test_labels_of_a_class_weight_keep_their_type(tmp_path):
    X, y = chains()
    model = CRF(alpha=0.1, class_weight={0: 2.0, np.int64(2): 3}).fit(X, y)
    assert round_trip(model, tmp_path / "model").class_weight == {0: 2.0, 2: 3}


def test_what_a_file_cannot_keep_is_replaced_by_what_it_can(tmp_path):
    class Mine(Hamming):
        def matrix(self, classes):
            return 3.0 * super().matrix(classes)

    X, y = chains()
    model = SSVM(Mine(), alpha=0.1, random_state=np.random.RandomState(0)).fit(X, y)
    other = round_trip(model, tmp_path / "model")
    assert other.random_state is None
    assert isinstance(other.loss, CostMatrix)
    assert other.score(X, y) == model.score(X, y)


def test_rules_hold_in_a_loaded_model(tmp_path):
    X, y = bio()
    model = AGM(alpha=1.0, constraints=Constraints("BIO", [("O", "B-LOC")])).fit(X[2:], y[2:])
    other = round_trip(model, tmp_path / "model")
    np.testing.assert_array_equal(other._rules.pairs, model._rules.pairs)
    np.testing.assert_array_equal(other._rules.starts, model._rules.starts)


def test_names_with_any_character(tmp_path):
    names = ["", "a", "\n\0", "ü日本", "😀", "\ud800", "x" * 1000]
    assert PackedNames.of(names).tolist() == list(PackedNames.of(names)) == names
    assert PackedNames.of([]).tolist() == []
    X, y = [[names], [["a"]]], [["u"], ["v"]]
    other = round_trip(CRF(alpha=0.1).fit(X, y), tmp_path / "model")
    assert list(other.get_feature_names_out()) == [*names, "(bias)"]


def test_ten_million_weights_save_and_load_in_two_seconds(tmp_path):
    X, y = sentences()
    model = CRF(alpha=0.1).fit(X, y)
    names = PackedNames.of(f"word:{i:x}/{i % 977}" for i in range(450_000))
    model._space = FeatureSpace.from_state(
        {"bias": True, "nodes": {"kind": "attributes", "names": names}, "edges": None}
    )
    model.classes_ = np.array([f"label-{i:02d}" for i in range(22)])
    model.coef_ = np.random.default_rng(0).normal(size=(450_001 + 22) * 22)
    model.cost_ = 1.0 - np.eye(22)
    start = time.perf_counter()
    model.save(tmp_path / "model")
    saved = time.perf_counter()
    other = robustruct.load(tmp_path / "model")
    loaded = time.perf_counter()
    np.testing.assert_array_equal(other.coef_, model.coef_)
    assert other._space.state() == model._space.state()
    assert loaded - start < 4, f"save {saved - start:.2f} s, load {loaded - saved:.2f} s"


# ------------------------------------------------------------------------- files that are refused


@pytest.fixture
def saved(tmp_path):
    X, y = sentences()
    path = tmp_path / "model.safetensors"
    CRF(alpha=0.1).fit(X, y).save(path)
    return path


def rewritten(path, **changes):
    """The same file with other header entries or tensors."""
    with safe_open(path, "numpy") as file:
        header = {**file.metadata(), **{k: v for k, v in changes.items() if isinstance(v, str)}}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors.update({k: v for k, v in changes.items() if not isinstance(v, str)})
    save_file(tensors, path, header)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        robustruct.load(tmp_path / "nothing")
    with pytest.raises(OSError):
        robustruct.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"abc", b"PK\x03\x04" + b"x" * 200, b"{}" * 50])
def test_a_file_of_another_kind(content, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="model': it is damaged, or no safetensors file"):
        robustruct.load(path)


def test_a_foreign_safetensors_file(tmp_path):
    for header in (None, {"format": "pt"}):
        save_file({"a": np.zeros(3)}, tmp_path / "model", header)
        with pytest.raises(InvalidInputError, match=r"not one that model\.save\(\) wrote"):
            robustruct.load(tmp_path / "model")


def test_a_newer_format_asks_for_an_upgrade(saved):
    rewritten(saved, format_version="7", written_by="9.1")
    with pytest.raises(InvalidInputError, match=r"robustruct 9\.1 with format 7.*upgrade"):
        robustruct.load(saved)
    rewritten(saved, format_version="new")
    with pytest.raises(InvalidInputError, match="format version 'new' is no number"):
        robustruct.load(saved)


def test_a_format_with_other_parameters_is_refused(saved):
    rewritten(saved, format_version="2", written_by="0.0.9")
    with pytest.raises(InvalidInputError, match=r"robustruct 0\.0\.9 with format 2.*model\.save"):
        robustruct.load(saved)


def test_a_file_that_an_earlier_writer_made_is_refused():
    """Written by format 2's own code: AGM(alpha=0.1, random_state=0) on two samples of words."""
    with pytest.raises(InvalidInputError, match=r"with format 2.*read: 3.*model\.save"):
        robustruct.load(Path(__file__).parent / "data" / "format_2.safetensors")


def test_every_cut_of_a_file_is_refused(saved):
    content = saved.read_bytes()
    for size in (0, 7, 100, len(content) // 2, len(content) - 1):
        saved.write_bytes(content[:size])
        with pytest.raises(InvalidInputError, match="cannot load"):
            robustruct.load(saved)


def test_every_changed_byte_is_found(saved):
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(8, len(content), size=60):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(bytes(changed))
        try:
            robustruct.load(saved)
        except InvalidInputError:
            continue
        # Only the version in the text of the header is not under the checksum.
        assert place < 8 + int.from_bytes(content[:8], "little")


def test_a_changed_weight_or_description_does_not_match_the_checksum(saved):
    rewritten(saved, coef_=np.zeros(3))
    with pytest.raises(InvalidInputError, match="checksum does not match"):
        robustruct.load(saved)
    rewritten(saved, description="{}")
    with pytest.raises(InvalidInputError, match="checksum does not match"):
        robustruct.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.clear(), "does not describe a model in full"),
        (lambda d: d.update(model="HMM"), "the model 'HMM' is not known here; upgrade"),
        (lambda d: d["parameters"].update(beam=3), "CRF has no parameter beam here; upgrade"),
        (lambda d: d["attributes"].pop("classes_"), "does not describe a model in full"),
        (lambda d: d["attributes"].update(coef_={"pickle": "x"}), "does not describe a model"),
        (
            lambda d: d["attributes"].update(classes_={"items": ["a"], "dtype": "<U1"}),
            "cannot load",
        ),
    ],
)
def test_a_sound_file_with_a_wrong_description(saved, change, message):
    description, arrays, _ = container.read_container(saved, MODEL)
    change(description)
    container.write_container(saved, MODEL, description, arrays)
    with pytest.raises(InvalidInputError, match=message):
        robustruct.load(saved)


NAMES = ("nodes.names", "nodes.name_offsets")


def packed(names):
    both = PackedNames.of(names)
    return both.data, both.offsets


def n_names(arrays):
    return len(arrays["nodes.name_offsets"]) - 1


FORGED = {
    "a method": (lambda d, a: d["attributes"].update(predict=5), "holds 'predict', which no model"),
    "a private name": (lambda d, a: d["attributes"].update(_space=5), "holds '_space', which no"),
    "a class": (lambda d, a: d["attributes"].update(__class__=5), "holds '__class__', which no"),
    "a new name": (lambda d, a: d["attributes"].update(beams_=5), "holds 'beams_', which no model"),
    "no gap": (lambda d, a: d["attributes"].pop("duality_gap_"), "duality_gap_ is missing"),
    "a weight of nan": (lambda d, a: a["coef_"].put(0, np.nan), "its coef_ is not what a fit"),
    "an infinite cost": (lambda d, a: a["cost_"].put(1, np.inf), "its cost_ is not what a fit"),
    "weights of another type": (
        lambda d, a: a.update(coef_=a["coef_"].astype(np.float32)),
        "its coef_ is not what a fit",
    ),
    "too few weights": (lambda d, a: a.update(coef_=a["coef_"][1:]), "its weights do not fit"),
    "a name twice": (
        lambda d, a: a.update(dict(zip(NAMES, packed(["w:a"] * n_names(a)), strict=True))),
        "two columns have the name 'w:a'",
    ),
    "a name that is no text": (
        lambda d, a: (
            d["space"]["nodes"].update(names=list(range(n_names(a)))),
            [a.pop(name) for name in NAMES],
        ),
        "names that are no text",
    ),
    "where to write": (
        lambda d, a: d["parameters"].update(checkpoint="elsewhere"),
        "CRF has no parameter checkpoint here",
    ),
    "where to train": (
        lambda d, a: d["parameters"].update(engine=None),
        "CRF has no parameter engine here",
    ),
    "a weight near the end": (lambda d, a: a["coef_"].put(0, 1e308), "its coef_ is not what a fit"),
    "a cost near the end": (lambda d, a: a["cost_"].put(1, -1e308), "its cost_ is not what a fit"),
    "an endless temperature": (
        lambda d, a: d["attributes"].update(temperature_=10**4000),
        "its temperature_ is not what a fit",
    ),
    "next to no temperature": (
        lambda d, a: d["attributes"].update(absolute_temperature_=5e-324),
        "its absolute_temperature_ is not what a fit",
    ),
    "a pass beyond counting": (
        lambda d, a: a["history_"].put(0, 1e300),
        r"its history holds .*which no fit has reported",
    ),
    "crossing bounds": (
        lambda d, a: a["history_"].put(3, a["history_"][0, 2] + 1.0),
        r"its history holds .*which no fit has reported",
    ),
    "a negative gap": (
        lambda d, a: d["attributes"].update(duality_gap_=-1.0),
        "its duality_gap_ is not what a fit",
    ),
    "no objective": (
        lambda d, a: d["attributes"].update(objective_={"float": "nan"}),
        "its objective_ is not what a fit",
    ),
    "more samples than there are numbers": (
        lambda d, a: d["attributes"].update(n_samples_=10**4000),
        "its n_samples_ is not what a fit",
    ),
    "an endless parameter": (
        lambda d, a: d["parameters"].update(tol=10**4000),
        "tol is the relative duality gap",
    ),
    "a label twice": (
        lambda d, a: d["attributes"]["classes_"]["items"].__setitem__(0, "N"),
        "its classes_ is not",
    ),
    "a huge type": (
        lambda d, a: d["attributes"]["classes_"].update(dtype="<U1000000000", items=["A", "B"]),
        "do not fit",
    ),
    "no passes": (lambda d, a: d["attributes"].update(n_iter_=-1), "its n_iter_ is not what a fit"),
    "an infinite pass": (
        lambda d, a: a["history_"].put(0, np.inf),
        r"its history holds .*which no fit has reported",
    ),
    "a negative temperature": (
        lambda d, a: d["attributes"].update(temperature_=-1.0),
        "its temperature_ is not what a fit",
    ),
    "an unknown decision": (lambda d, a: d["parameters"].update(decision=5), "decision=5 is not"),
    "threads": (lambda d, a: d["parameters"].update(n_jobs="many"), "n_jobs='many'"),
    "a deep parameter": (
        lambda d, a: d["parameters"].update(
            constraints=functools.reduce(lambda v, _: [v], range(900), 1)
        ),
        "does not describe a model in full",
    ),
    "wild names": (
        lambda d, a: a["nodes.name_offsets"].put(1, 10**9),
        "where names begin are not in order",
    ),
    "types": (lambda d, a: d["space"].update(types=["t"]), "types of nodes do not fit"),
    "a type that is a list": (lambda d, a: d["space"].update(types=[[1]]), "bias or types of"),
    "a wide space": (
        lambda d, a: d["space"].update(nodes={"kind": "numeric", "width": 10**18}),
        "names for 1000000000000000000 columns",
    ),
    "half a column": (
        lambda d, a: d["space"].update(nodes={"kind": "numeric", "width": 0.5}),
        "0.5 columns",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_file_with_a_right_checksum_is_refused(saved, name):
    description, arrays, _ = container.read_container(saved, MODEL)
    change, message = FORGED[name]
    change(description, arrays)
    container.write_container(saved, MODEL, description, arrays)
    with pytest.raises(InvalidInputError, match=f"cannot load .*{message}"):
        robustruct.load(saved)


@pytest.mark.parametrize("text", ["[1]", "[" * 100_000, "1" * 5000, "{"])
def test_a_description_that_is_none(saved, text):
    _, arrays, _ = container.read_container(saved, MODEL)
    with safe_open(saved, "numpy") as file:
        header = file.metadata()
    header |= {"description": text, "sha256": container.checksum(text, arrays)}
    save_file(arrays, saved, header)
    with pytest.raises(InvalidInputError, match="its description is no"):
        robustruct.load(saved)


def test_a_model_out_of_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "model")
    with pytest.raises(InvalidInputError, match="it is a pipe or a device; copy"):
        robustruct.load(tmp_path / "model")


def test_one_long_label_among_many_takes_the_room_of_its_own(tmp_path):
    labels = ["x" * 1_000_000, *(f"label-{i}" for i in range(4_999))]
    tracemalloc.start()
    found = as_labels(labels)
    together = [np.array([label]) for label in labels]
    distinct = sorted_labels(together)
    codes = encode_labels(found, distinct, "y")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.tolist() == labels
    assert distinct.tolist() == sorted(labels)
    assert distinct[codes].tolist() == labels
    assert peak < 20 * sum(map(len, labels))


def test_a_file_with_one_long_label_takes_the_room_of_its_own(saved):
    description, arrays, _ = container.read_container(saved, MODEL)
    labels = ["x" * 1_000_000, *(f"label-{i}" for i in range(999))]
    description["attributes"]["classes_"] = {"items": labels, "dtype": "<U1000000"}
    container.write_container(saved, MODEL, description, arrays)
    tracemalloc.start()
    with pytest.raises(InvalidInputError, match="its weights do not fit"):
        robustruct.load(saved)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * sum(map(len, labels))


def test_a_version_in_other_digits(saved):
    rewritten(saved, format_version="²")
    with pytest.raises(InvalidInputError, match="is no number"):
        robustruct.load(saved)


COLUMNS = {
    "version": 1,
    "format": "conll",
    "n_columns": 3,
    "label_column": 2,
    "weight_column": None,
    "separator": "tab",
    "comment": None,
    "template": "U:%x[0,0]",
}


def test_columns_can_be_stored():
    assert restored(COLUMNS).label_column == 2


@pytest.mark.parametrize(
    "state",
    [
        5,
        {"version": 1},
        {"version": 1, "format": ["conll"]},
        {"version": 1, "format": "conll", "n_columns": 2},
        {**COLUMNS, "template": "U:%x[0,9]"},
        {**COLUMNS, "template": 5},
        {**COLUMNS, "label_column": 7},
        {**COLUMNS, "separator": "no"},
        {**COLUMNS, "beam": 1},
    ],
)
def test_an_input_that_cannot_be_read_is_refused(state):
    with pytest.raises(InvalidInputError):
        restored(state)


def test_attributes_of_users_stay_out_of_files(tmp_path):
    X, y = chains()
    model = CRF(alpha=0.1).fit(X, y)
    model.note_ = object()
    assert not hasattr(round_trip(model, tmp_path / "model"), "note_")


# ------------------------------------------------------------------------- saving that fails


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    X, y = chains()
    model = CRF(alpha=0.1).fit(X, y).set_params(decision="best")
    with pytest.raises(InvalidInputError, match="decision='best' is not known"):
        model.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_nothing_to_save(tmp_path):
    with pytest.raises(InvalidInputError, match="not fitted"):
        AGM().save(tmp_path / "model")

    class Mine(CRF):
        pass

    X, y = chains()
    with pytest.raises(InvalidInputError, match="a Mine cannot be saved"):
        Mine(alpha=0.1).fit(X, y).save(tmp_path / "model")
    model = AutoModel(alpha=[0.1]).fit(X, y).set_params(cv=object())
    with pytest.raises(InvalidInputError, match="cv holds a object"):
        model.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("failing", ["save_file", "_flush"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_failed_save_leaves_the_old_file(saved, monkeypatch, failing, error):
    before = saved.read_bytes()
    X, y = chains()
    model = CRF(alpha=0.1).fit(X, y)

    def fail(*arguments):
        if failing == "save_file":
            with open(arguments[1], "wb") as file:
                file.write(b"half")
        raise error

    monkeypatch.setattr(container, failing, fail)
    with pytest.raises(type(error)):
        model.save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_saving_into_a_folder_that_is_not_there(tmp_path):
    X, y = chains()
    with pytest.raises(OSError, match="cannot write"):
        CRF(alpha=0.1).fit(X, y).save(tmp_path / "no" / "model")


def test_saving_through_a_link_keeps_the_link(saved):
    link = saved.parent / "link"
    link.symlink_to(saved)
    X, y = chains()
    CRF(alpha=0.1).fit(X, y).save(link)
    assert link.is_symlink()
    assert len(robustruct.load(saved).classes_) == 3


def test_the_file_is_plain_json_and_arrays(saved):
    with safe_open(saved, "numpy") as file:
        header = file.metadata()
    assert header["format"] == "robustruct-model"
    description = json.loads(header["description"])
    assert description["model"] == "CRF"
    assert description["parameters"]["alpha"] == 0.1
