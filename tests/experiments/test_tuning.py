"""How alpha is chosen, and what is said about differences."""

import numpy as np
import pytest

import tuning
from robustruct import AGM, CRF
from robustruct.datasets import make_trees
from robustruct.losses import CostMatrix


class TestSearch:
    @pytest.mark.parametrize("optimum", [-9, -6, -5, -4, -1])
    def test_the_best_is_never_at_an_end(self, optimum):
        tried = tuning.search(lambda step: {"a": abs(step - optimum)}, -4)
        assert tuning.chosen(tried, "a") == optimum
        assert min(tried) < optimum < max(tried)
        assert sorted(tried) == list(range(min(tried), max(tried) + 1))

    def test_gives_up_on_a_slope_without_end(self):
        tried = tuning.search(lambda step: {"a": step}, -4)
        assert len(tried) == tuning.LONGEST_GRID

    def test_serves_several_costs(self):
        tried = tuning.search(lambda step: {"a": abs(step + 8), "b": abs(step + 3)}, -4)
        assert [tuning.chosen(tried, cost) for cost in "ab"] == [-8, -3]

    def test_equal_costs_go_to_the_strongest_penalty(self):
        assert tuning.chosen({-3: {"a": 1.0}, -2: {"a": 1.0}, -1: {"a": 2.0}}, "a") == -2

    def test_the_grid_begins_where_the_cost_and_the_samples_say(self):
        assert tuning.half_decade(tuning.first_step("AGM", 10_000, 1.0)) == pytest.approx(1e-2)
        assert tuning.half_decade(tuning.first_step("SSVM", 10_000, 10.0)) == pytest.approx(1e-3)
        assert tuning.half_decade(tuning.first_step("CRF", 10_000, 1.0)) == pytest.approx(1e-3)


class TestDecisions:
    def test_a_crf_decides_for_each_cost_as_if_it_was_given_that_cost(self):
        data = make_trees(n_samples=20, n_labels=3, seed=0)
        rng = np.random.default_rng(0)
        costs = {name: rng.random((3, 3)) * (1 - np.eye(3)) for name in "ab"}
        model = tuning.new_model("CRF", costs["a"], alpha=0.1).fit(data.X, data.y)
        found = tuning.decisions(model, data.X, costs)
        for name, cost in costs.items():
            other = CRF(CostMatrix(cost), alpha=0.1, tol=tuning.TOL["CRF"], standardize=False)
            other.fit(data.X, data.y)
            assert (found[name] == np.concatenate(other.predict(data.X))).all()
        assert (found["a"] != found["b"]).any()

    def test_an_agm_answers_by_map_and_by_its_predictor(self):
        data = make_trees(n_samples=20, n_labels=3, seed=0)
        cost = np.array([[0.0, 1.0, 1.0], [9.0, 0.0, 1.0], [9.0, 1.0, 0.0]])
        asked = tuning.questions("AGM", {"a": cost})
        assert list(asked) == ["a", tuning.question(tuning.PREDICTOR, "a")]
        model = tuning.new_model("AGM", cost, alpha=0.1).fit(data.X, data.y)
        found = tuning.decisions(model, data.X, asked)
        for (name, matrix), decision in zip(asked.items(), ("map", "predictor"), strict=True):
            assert matrix is cost
            other = AGM(CostMatrix(cost), alpha=0.1, tol=tuning.TOL["AGM"], decision=decision)
            other.set_params(standardize=False, random_state=0).fit(data.X, data.y)
            assert (found[name] == np.concatenate(other.predict(data.X))).all()
        first, second = found.values()
        assert (first != second).any()

    def test_answers_are_sorted_by_method(self):
        by_predictor = tuning.question(tuning.PREDICTOR, "a")
        results = [
            {"model": "AGM", "answers": {"a": {"gap": 1}, by_predictor: {"gap": 2}}},
            {"model": "AGM", "answers": {"b": {"gap": 9}}},
            {"model": "CRF", "answers": {"a": {"gap": 3}, "b": {"gap": 9}}},
            {"model": "SSVM", "answers": {"a": {"gap": 4}}},
            {"model": "SSVM", "answers": {"a": {"gap": 5}}},
        ]
        found = tuning.answers_of(results, "a")
        gaps = {method: [answer["gap"] for answer in found[method]] for method in found}
        assert gaps == {"AGM": [1], "CRF": [3], "SSVM": [4, 5], "AGM predictor": [2]}
        assert {answer["model"] for answer in found["AGM predictor"]} == {"AGM predictor"}

    def test_predictions_are_digits(self):
        assert tuning.decoded("0185").tolist() == [0, 1, 8, 5]


class TestDifferences:
    def test_a_clear_difference_is_seen_and_a_tie_is_not(self):
        rng = np.random.default_rng(0)
        base = rng.random(400)
        costs = {
            "AGM": base,
            "CRF": base + rng.normal(0.0, 0.1, 400),
            "SSVM": base + 0.1 + rng.normal(0.0, 0.1, 400),
        }
        assert tuning.not_worse(costs) == {"AGM", "CRF"}
        middle, low, high = tuning.relative_difference(costs, "AGM", "SSVM")
        assert low < middle < high < 0
        expected = 100 * (costs["AGM"].mean() - costs["SSVM"].mean()) / costs["AGM"].mean()
        assert middle == pytest.approx(expected)
