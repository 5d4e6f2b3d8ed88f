"""What pandas knows of labels and columns: their order and their names."""

import numpy as np
import pytest
from model_cases import MODELS, chains
from sklearn.model_selection import cross_val_score

from robustruct import AGM, CRF, AutoModel, load
from robustruct.errors import InvalidInputError
from robustruct.formats.shards import ShardedData
from robustruct.losses import Absolute, CostMatrix, Squared
from robustruct.metrics import mean_loss

ORDER = ["good", "moderate", "unhealthy", "hazardous"]


def readings(seed=0):
    """Chains of readings, and how good the air was, by number."""
    X, y = chains(30, n_labels=4, seed=seed)
    return X, y


def named(y):
    return [[ORDER[code] for code in labels] for labels in y]


# ----------------------------------------------------------------------------- orders


@pytest.mark.parametrize("Model", [*MODELS, AutoModel])
@pytest.mark.parametrize("loss", ["absolute", "squared", {("good", "hazardous"): 9}])
def test_strings_without_an_order_are_refused(Model, loss):
    X, y = readings()
    if isinstance(loss, dict):
        loss = CostMatrix(loss, default="absolute")
    with pytest.raises(InvalidInputError, match=r"have no order.*\(order=\[\.\.\.\]\)"):
        Model(loss).fit(X, named(y))


@pytest.mark.parametrize("loss", [Absolute(), Squared()])
def test_costs_of_strings_without_an_order_are_refused(loss):
    for classes in (None, ORDER):
        with pytest.raises(InvalidInputError, match="have no order"):
            loss.evaluate(["good"], ["hazardous"], classes=classes)
    with pytest.raises(InvalidInputError, match="have no order"):
        mean_loss([["good"]], [["hazardous"]], loss)


@pytest.mark.parametrize(("kind", "power"), [(Absolute, 1), (Squared, 2)])
@pytest.mark.parametrize("Model", MODELS)
def test_with_an_order_strings_cost_what_their_places_do(Model, kind, power, tmp_path):
    X, y = readings()
    by_number = Model(kind(), random_state=0).fit(X, y)
    model = Model(kind(order=ORDER), random_state=0).fit(X, named(y))
    place = np.array([ORDER.index(label) for label in model.classes_])
    np.testing.assert_array_equal(model.cost_, np.abs(place[:, None] - place) ** power)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.loss.order.tolist() == ORDER
    assert again.score(X, named(y)) == model.score(X, named(y))
    wrong = [
        (a - np.array(b)) ** power for a, b in zip(y, map(places, again.predict(X)), strict=True)
    ]
    assert model.score(X, named(y)) == pytest.approx(-np.mean(np.abs(np.concatenate(wrong))))
    assert model.objective_ == pytest.approx(by_number.objective_, rel=2 * model.tol)


def places(labels):
    return [ORDER.index(label) for label in labels]


def test_a_label_outside_the_order_is_named():
    X, y = readings()
    with pytest.raises(InvalidInputError, match=r"'hazardous'.*not among the known labels"):
        AGM(Absolute(order=ORDER[:3])).fit(X, named(y))


@pytest.mark.parametrize("form", ["samples", "rows"])
def test_the_order_of_a_categorical_is_used(form, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = readings()
    if form == "rows":
        X, codes = np.concatenate(X), np.concatenate(y)
        given = pandas.Series(pandas.Categorical.from_codes(codes, ORDER, ordered=True))
        plain = np.array(ORDER)[codes]
    else:
        given = [pandas.Categorical.from_codes(codes, ORDER, ordered=True) for codes in y]
        plain = named(y)
    model = AGM("absolute", random_state=0).fit(X, given)
    reference = AGM(Absolute(order=ORDER), random_state=0).fit(X, plain)
    np.testing.assert_array_equal(model.cost_, reference.cost_)
    np.testing.assert_array_equal(model.coef_, reference.coef_)
    assert model.loss == "absolute"
    assert model.label_order_.tolist() == ORDER
    model.save(tmp_path / "model")
    for one in (model, load(tmp_path / "model")):
        assert one.score(X, plain) == reference.score(X, plain)


def test_the_order_of_a_categorical_lasts_through_choices_and_folds():
    pandas = pytest.importorskip("pandas")
    X, y = readings()
    X, codes = np.concatenate(X), np.concatenate(y)
    given = pandas.Series(pandas.Categorical.from_codes(codes, ORDER, ordered=True))
    chosen, reference = (
        CRF(loss, alpha=[0.1, 0.01], random_state=0).fit(X, labels, cv=3)
        for loss, labels in (("absolute", given), (Absolute(ORDER), np.array(ORDER)[codes]))
    )
    assert chosen.trials_ == reference.trials_
    validated = CRF("absolute").fit(X, given, validation=(X, given))
    assert validated.validation_loss_ == pytest.approx(-validated.score(X, given))
    scores = cross_val_score(CRF("absolute"), X, given, cv=3)
    assert np.isfinite(scores).all()


def test_numbers_in_a_categorical_keep_their_values():
    pandas = pytest.importorskip("pandas")
    X, y = readings()
    numbers = [1, 2, 5, 9]
    given = [pandas.Categorical.from_codes(codes, numbers, ordered=True) for codes in y]
    model = AGM("absolute", random_state=0).fit(X, given)
    np.testing.assert_array_equal(model.cost_[0], [0, 1, 4, 8])
    turned = [2, 1, 5, 9]
    given = [pandas.Categorical.from_codes(codes, turned, ordered=True) for codes in y]
    model = AGM("absolute", random_state=0).fit(X, given)
    np.testing.assert_array_equal(model.cost_[0], [0, 1, 1, 2])  # 1 is the second of four


def test_categoricals_without_one_order_are_refused():
    pandas = pytest.importorskip("pandas")
    X, y = readings()
    given = [pandas.Categorical.from_codes(codes, ORDER) for codes in y]
    with pytest.raises(InvalidInputError, match="have no order"):
        AGM("absolute").fit(X, given)
    orders = [ORDER, ORDER[::-1]]
    given = [
        pandas.Categorical.from_codes(codes, orders[s % 2], ordered=True)
        for s, codes in enumerate(y)
    ]
    with pytest.raises(InvalidInputError, match="Categoricals of two orders"):
        AGM("absolute").fit(X, given)


# ----------------------------------------------------------------------------- rows and lists


@pytest.mark.parametrize("Model", MODELS)
def test_a_model_of_sequences_asks_for_a_list(Model):
    X, y = readings()
    model = Model(random_state=0).fit(X, y)
    asked = {
        "predict": (),
        "predict_proba": (),
        "decision_function": (),
        "predict_k_best": (),
        "score": (y[0],),
    }
    for name, more in asked.items():
        with pytest.raises(InvalidInputError, match=r"fitted on a list of samples; pass a list"):
            getattr(model, name)(X[0], *more)
    assert len(model.predict([X[0]])[0]) == len(X[0])
    with pytest.raises(InvalidInputError, match=r"validation: X is a ndarray.*pass a list"):
        Model().fit(X, y, validation=(X[0], y[0]))


def test_what_an_earlier_fit_was_given_does_not_matter():
    X, y = readings()
    rows, labels = np.concatenate(X), np.concatenate(y)
    model = CRF().fit(rows, labels)
    with pytest.raises(InvalidInputError, match="pass a list"):
        model.fit(X, y, validation=(rows, labels))
    model.fit(X, y)
    with pytest.raises(InvalidInputError, match="pass a list"):
        model.predict(rows)
    assert len(model.fit(rows, labels).predict(rows)) == len(rows)


def test_the_list_is_asked_for_after_a_file_too(tmp_path):
    X, y = readings()
    CRF().fit(X, y).save(tmp_path / "sequences")
    with pytest.raises(InvalidInputError, match="pass a list"):
        load(tmp_path / "sequences").predict(X[0])
    rows = np.concatenate(X)
    model = CRF().fit(rows, np.concatenate(y))
    model.save(tmp_path / "rows")
    np.testing.assert_array_equal(load(tmp_path / "rows").predict(rows), model.predict(rows))


# ----------------------------------------------------------------------------- names of columns

NAMES = ["temperature", "humidity", "wind"]


def frames(X, names=NAMES):
    pandas = pytest.importorskip("pandas")
    return [pandas.DataFrame(x, columns=names) for x in X]


OTHER = r"feature names should match|where training has"
CHANGES = {
    "permuted": lambda frame: frame[["humidity", "temperature", "wind"]],
    "renamed": lambda frame: frame.rename(columns={"wind": "breeze"}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", ["samples", "rows"])
def test_columns_that_are_not_those_of_training_are_refused(form, change, tmp_path):
    X, y = readings()
    if form == "rows":
        X, y = [np.concatenate(X)], [np.concatenate(y)]
    given = frames(X)
    other = [CHANGES[change](frame) for frame in given]
    if form == "rows":
        given, other, y = given[0], other[0], y[0]
    model = CRF().fit(given, y)
    model.save(tmp_path / "model")
    for one in (model, load(tmp_path / "model")):
        with pytest.raises(InvalidInputError, match=OTHER):
            one.predict(other)
        for mine, theirs in zip(one.predict(given), model.predict(given), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert one.get_feature_names_out().tolist() == [*NAMES, "(bias)"]
    with pytest.raises(InvalidInputError, match=OTHER):
        CRF().fit(given, y, validation=(other, y))


def test_columns_must_be_the_same_in_all_samples_of_training():
    X, y = readings()
    given = frames(X)
    given[3] = CHANGES["permuted"](given[3])
    with pytest.raises(InvalidInputError, match=r"sample 3: node features have the column 'hum"):
        CRF().fit(given, y)


def test_columns_must_be_the_same_in_all_shards():
    X, y = readings()
    given = frames(X)
    model = CRF().fit(ShardedData.from_samples(given, y, 3))
    assert model.get_feature_names_out().tolist() == [*NAMES, "(bias)"]
    given[3] = CHANGES["permuted"](given[3])
    with pytest.raises(InvalidInputError, match="temperature, humidity, wind in"):
        CRF().fit(ShardedData.from_samples(given, y, len(given)))


def test_arrays_have_no_names_to_check():
    X, y = readings()
    given = frames(X)
    by_name, by_number = CRF().fit(given, y), CRF().fit(X, y)
    np.testing.assert_array_equal(by_name.coef_, by_number.coef_)
    for model in (by_name, by_number):
        for mine, theirs in zip(model.predict(X), model.predict(given), strict=True):
            np.testing.assert_array_equal(mine, theirs)
