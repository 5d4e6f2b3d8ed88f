"""Sequences from tables of pandas, polars and pyarrow, and predictions back in them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from robustruct import AGM, CRF, SSVM
from robustruct.errors import InvalidInputError, InvalidTypeError, MissingExtraError
from robustruct.losses import Absolute
from robustruct.tables import frame_of, sequences

STAGES = ["wake", "light", "deep"]  # not in the order of the alphabet
LIBRARIES = ["pandas", "polars", "pyarrow"]


def nights(seed=0, n=60):
    """Shuffled rows of several nights of several subjects, as columns."""
    rng = np.random.default_rng(seed)
    stage = rng.integers(3, size=n)
    return {
        "subject": rng.permutation(np.repeat(["ada", "bob", "cy"], n // 3)),
        "night": rng.integers(2, size=n),
        "time": rng.permutation(n) * 30,
        "pulse": stage + 0.5 * rng.normal(size=n),
        "moves": rng.integers(9, size=n),
        "asleep": stage > 0,
        "weight": rng.uniform(0.5, 2, size=n),
        "stage": np.array(STAGES)[stage],
    }


def table(library, columns, **changes):
    given = pytest.importorskip(library)
    columns = {**columns, **changes}
    if library == "pandas":
        index = np.arange(len(columns["subject"])) * 7 % 11  # with values that occur twice
        return given.DataFrame(columns, index=index)
    return given.DataFrame(columns) if library == "polars" else given.table(columns)


def column(frame, name):
    values = frame[name]
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def grouped_by_hand(columns, by):
    """Positions of the rows of each sample, by plain Python."""
    rows = {}
    for i in range(len(columns["time"])):
        rows.setdefault(tuple(columns[name][i] for name in by), []).append(i)
    return [sorted(of_one, key=lambda i: columns["time"][i]) for of_one in rows.values()]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("by", ["subject", ["subject", "night"], ["night"]])
def test_samples_are_the_rows_that_share_values_in_order(library, by):
    columns = nights()
    df = table(library, columns)
    wanted = grouped_by_hand(columns, [by] if isinstance(by, str) else by)
    features = ["moves", "pulse", "asleep"]
    roles = {"by": by, "order": "time", "label": "stage", "weight": "weight"}
    data = sequences(df, **roles, features=features)
    assert len(data.X) == len(data.y) == len(data.node_weight) == len(wanted)
    first = by if isinstance(by, str) else by[0]
    for s, rows in enumerate(wanted):
        rebuilt = np.stack([np.asarray(columns[name], float)[rows] for name in features], axis=1)
        np.testing.assert_array_equal(data.X[s], rebuilt)
        assert data.y[s].tolist() == columns["stage"][rows].tolist()
        np.testing.assert_array_equal(data.node_weight[s], columns["weight"][rows])
        assert data.groups[s] == columns[first][rows[0]]
    everything = sequences(df, **roles, form="tables")
    taken = {"time", "weight", "stage", *([by] if isinstance(by, str) else by)}
    assert everything.feature_names == [name for name in columns if name not in taken]


@pytest.mark.parametrize("library", LIBRARIES)
def test_predictions_come_back_in_the_order_of_the_table(library):
    columns = nights()
    df = table(library, columns)
    keys = {"by": ["subject", "night"], "order": "time"}
    data = sequences(df, **keys, label="stage", features=["pulse"])
    model = CRF(alpha=0.1).fit(data.X, data.y, groups=data.groups)
    found = {
        "guess": model.predict(data.X),
        "p": model.predict_proba(data.X),
        "risk": model.predict_risk(data.X),
        "score": model.log_score(data.X, data.y),
    }
    back = frame_of(df, found, **keys, classes=model.classes_)
    assert type(back) is type(df)
    for name, values in columns.items():
        assert column(back, name) == values.tolist()
    if library == "pandas":
        assert back.index.equals(df.index)
        assert "guess" not in df.columns
    for s, rows in enumerate(grouped_by_hand(columns, keys["by"])):
        for i, row in enumerate(rows):
            assert column(back, "guess")[row] == found["guess"][s][i]
            for a, label in enumerate(model.classes_):
                assert column(back, f"p[{label}]")[row] == found["p"][s][i, a]
            assert column(back, "risk[least]")[row] == found["risk"][s][0]
            assert column(back, "risk[most]")[row] == found["risk"][s][1]
            assert column(back, "score")[row] == found["score"][s]
    labels_alone = frame_of(df, found["guess"], **keys)
    assert column(labels_alone, "predicted") == column(back, "guess")
    again = frame_of(back, [np.array(["x"] * len(x)) for x in data.X], **keys)
    assert set(column(frame_of(again, found["guess"], **keys), "predicted")) <= set(STAGES)


def test_lists_of_labels_numbers_and_numbered_probabilities():
    columns = nights()
    df = table("polars", columns)
    data = sequences(df, by="subject", order="time", label="night", features=["pulse"])
    model = CRF().fit(data.X, [labels.tolist() for labels in data.y])
    found = {"n": model.predict(data.X), "p": model.predict_proba(data.X)}
    back = frame_of(df, found, by="subject", order="time")
    assert set(column(back, "n")) <= {0, 1}
    np.testing.assert_allclose(back["p[0]"] + back["p[1]"], 1)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_ordered_categories_keep_their_order(library):
    given = pytest.importorskip(library)
    columns = nights()
    if library == "pandas":
        ordered = given.Categorical(columns["stage"], STAGES, ordered=True)
    else:
        ordered = given.Series(columns["stage"].tolist(), dtype=given.Enum(STAGES))
    df = table(library, columns, stage=ordered)
    data = sequences(df, by="subject", order="time", label="stage", features=["pulse"])
    model = SSVM("absolute", random_state=0).fit(data.X, data.y)
    plain = [np.asarray(labels, dtype=str) for labels in data.y]
    reference = SSVM(Absolute(order=STAGES), random_state=0).fit(data.X, plain)
    np.testing.assert_array_equal(model.cost_, reference.cost_)
    np.testing.assert_array_equal(model.coef_, reference.coef_)
    assert model.label_order_.tolist() == STAGES
    without = table(library, columns)
    data = sequences(without, by="subject", order="time", label="stage", features=["pulse"])
    with pytest.raises(InvalidInputError, match="have no order"):
        SSVM("absolute").fit(data.X, data.y)


def test_a_categorical_of_polars_has_no_order():
    given = pytest.importorskip("polars")
    columns = nights()
    stage = given.Series(columns["stage"].tolist(), dtype=given.Categorical)
    df = table("polars", columns, stage=stage)
    data = sequences(df, by="subject", order="time", label="stage", features=["pulse"])
    with pytest.raises(InvalidInputError, match="have no order"):
        AGM("absolute").fit(data.X, data.y)
    assert AGM().fit(data.X, data.y).classes_.tolist() == sorted(STAGES)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_samples_as_tables_keep_text_and_gaps(library):
    columns = nights()
    pulse = [None if i == 5 else float(x) for i, x in enumerate(columns["pulse"])]
    df = table(library, columns, pulse=pulse, device=["a", "b"] * 30)
    data = sequences(df, by="subject", order="time", features=["device", "pulse"], form="tables")
    assert data.y is None
    rows = grouped_by_hand(columns, ["subject"])
    for x, of_one in zip(data.X, rows, strict=True):
        assert type(x) is type(df)
        assert column(x, "device") == [["a", "b"][i % 2] for i in of_one]
        gap = [value is None or value != value for value in column(x, "pulse")]
        assert gap == [i == 5 for i in of_one]


@pytest.mark.parametrize("library", LIBRARIES)
def test_times_and_dates_order_rows(library):
    columns = nights()
    moments = np.datetime64("2026-03-29T00:00", "us") + columns["time"].astype("timedelta64[m]")
    df = table(library, columns, time=moments)
    data = sequences(df, by="subject", order="time", features=["moves"])
    for x, rows in zip(data.X, grouped_by_hand(columns, ["subject"]), strict=True):
        np.testing.assert_array_equal(x[:, 0], columns["moves"][rows])


def test_without_an_order_rows_keep_theirs():
    columns = nights()
    data = sequences(table("pandas", columns), by="night", features=["moves"])
    for x, night in zip(data.X, data.groups, strict=True):
        np.testing.assert_array_equal(x[:, 0], columns["moves"][columns["night"] == night])


def changed(columns, name, row, value, dtype=object):
    values = np.array(columns[name], dtype=dtype)
    values[row] = value
    return {name: values.tolist()}


NIGHTS = nights()
SAME_TIME = [int(i) for i in np.flatnonzero(NIGHTS["subject"] == "bob")[[3, 8]]]
ROLES = {"by": "subject", "order": "time", "label": "stage"}
BAD = {
    "features that are missing": (
        changed(NIGHTS, "pulse", [4, 9], None),
        ROLES,
        r"'pulse' has no value in rows 4, 9 \(from 0\)\. Fill .*SimpleImputer",
    ),
    "text without an encoder": (
        {"device": ["x"] * 60},
        ROLES,
        r"'device' holds 'x', no number, in rows 0, 1, 2, 3, 4 and 55 more.*features=\[.*Colu",
    ),
    "one number among text": (
        changed(NIGHTS, "pulse", 7, "high"),
        ROLES,
        r"'pulse' holds '.*', no number, in row",
    ),
    "duplicate times": (
        changed(NIGHTS, "time", SAME_TIME[1], NIGHTS["time"][SAME_TIME[0]], int),
        ROLES,
        rf"'bob' has time .* twice, in rows {SAME_TIME[0]}, {SAME_TIME[1]} .*another column in by",
    ),
    "labels that are missing": (
        changed(NIGHTS, "stage", 6, None),
        ROLES,
        r"'stage', which is label, has no value in row 6",
    ),
    "subjects that are missing": (
        changed(NIGHTS, "subject", 1, None),
        ROLES,
        r"'subject', which is by or order, has no value in row 1",
    ),
    "a negative weight": (
        changed(NIGHTS, "weight", 2, -1.0, float),
        {**ROLES, "weight": "weight"},
        r"weight -1 in row 2",
    ),
    "an unknown column": ({}, {**ROLES, "order": "tim"}, r"order='tim'.*did you mean 'time'"),
    "a column named twice": ({}, {**ROLES, "order": "subject"}, "'subject' is named twice"),
    "a feature with a role": ({}, {**ROLES, "features": ["stage"]}, "among the features"),
    "features as text": ({}, {**ROLES, "features": "pulse"}, r"\['pulse'\]"),
    "no column in by": ({}, {"by": []}, "by is empty"),
    "no features": ({}, {**ROLES, "features": []}, "no columns of features"),
    "an unknown form": ({}, {**ROLES, "form": "dicts"}, "use 'arrays' or 'tables'"),
}


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_with_column_and_rows(library, case):
    changes, roles, message = BAD[case]
    numeric = {name: values for name, values in NIGHTS.items() if name != "asleep"}
    given = pytest.importorskip(library)
    columns = {**{name: values.tolist() for name, values in numeric.items()}, **changes}
    df = given.DataFrame(columns, strict=False) if library == "polars" else given.DataFrame(columns)
    with pytest.raises(InvalidInputError, match=message) as caught:
        sequences(df, **roles)
    if "row" in message:
        assert caught.value.field in columns


def test_times_of_several_kinds_are_refused():
    df = table("pandas", NIGHTS, **changed(NIGHTS, "time", 3, "late"))
    with pytest.raises(InvalidInputError, match=r"'time' cannot be sorted"):
        sequences(df, **ROLES)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_table_without_rows_is_refused(library):
    empty = {name: values[:0] for name, values in nights().items()}
    with pytest.raises(InvalidInputError, match="no rows"):
        sequences(table(library, empty), **ROLES)


def test_what_is_no_table_in_memory_is_refused():
    polars = pytest.importorskip("polars")
    for thing in (polars.LazyFrame({"a": [1]}), [[1.0]], np.eye(2)):
        with pytest.raises(InvalidTypeError, match=r"pandas or polars .*collect\(\)"):
            sequences(thing, by="a")


def test_without_narwhals_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(MissingExtraError, match=r"robustruct\[tables\]"):
        sequences({"a": [1]}, by="a")


def test_predictions_of_another_table_are_refused():
    df = table("pandas", NIGHTS)
    data = sequences(df, **ROLES)
    labels = [np.zeros(len(x), int) for x in data.X]
    with pytest.raises(InvalidInputError, match=r"'predicted' has 2 items.*3 samples"):
        frame_of(df, labels[:2], by="subject", order="time")
    labels[1] = labels[1][1:]
    with pytest.raises(InvalidInputError, match="19 values for sample 1, which has 20 rows"):
        frame_of(df, labels, by="subject", order="time")
    rows = [np.zeros((len(x), 2)) for x in data.X]
    with pytest.raises(InvalidInputError, match=r"'p' has 2 columns.*names for 3"):
        frame_of(df, {"p": rows}, by="subject", order="time", classes=STAGES)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("wrong", [["ada", "bob"], ["ada"] * 4])
def test_groups_of_the_wrong_length_are_refused(library, wrong):
    data = sequences(table(library, NIGHTS), **ROLES)
    with pytest.raises(InvalidInputError, match=r"groups.*3"):
        CRF(alpha=[0.1, 1.0]).fit(data.X, data.y, groups=wrong, cv=2)
