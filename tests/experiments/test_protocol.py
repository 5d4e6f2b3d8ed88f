"""What the experiments share: finished pieces, processes, statistics, tables."""

import json

import numpy as np
import pytest
from scipy import stats

import page
import protocol
from tables import Table, bold

KEYS = [{"i": i} for i in range(4)]


def squared(key):
    return {"square": np.float64(key["i"]) ** 2}


def fails_at_two(key):
    if key["i"] == 2:
        raise KeyboardInterrupt
    return squared(key)


def never(key):
    pytest.fail("was finished already")


def experiment(folder, *arguments, settings=None):
    args = protocol.options("toy", "A toy.").parse_args(
        ["--results", str(folder), "--jobs", "1", *arguments]
    )
    return protocol.Experiment(args, settings or {})


class TestPieces:
    def test_results_come_in_the_order_of_the_keys_from_several_processes(self, tmp_path):
        toy = experiment(tmp_path, "--jobs", "2")
        assert [r["square"] for r in toy.run(squared, KEYS, "toy")] == [0, 1, 4, 9]

    def test_resume_computes_nothing_twice(self, tmp_path):
        first = experiment(tmp_path).run(squared, KEYS, "toy")
        assert experiment(tmp_path, "--resume").run(never, KEYS, "toy") == first

    def test_an_interrupt_keeps_what_is_finished(self, tmp_path, capsys):
        with pytest.raises(SystemExit) as stopped:
            experiment(tmp_path).run(fails_at_two, KEYS, "toy")
        assert stopped.value.code == 130
        assert "2 of 4" in capsys.readouterr().err
        resumed = experiment(tmp_path, "--resume")
        assert len(resumed.store.lines) == 2
        assert [r["square"] for r in resumed.run(squared, KEYS, "toy")] == [0, 1, 4, 9]

    def test_a_line_cut_off_by_a_crash_is_dropped(self, tmp_path):
        toy = experiment(tmp_path)
        toy.run(squared, KEYS, "toy")
        text = toy.store.file.read_text()
        toy.store.file.write_text(text[:-5])
        resumed = experiment(tmp_path, "--resume")
        assert [key in resumed.store for key in KEYS] == [True, True, True, False]
        resumed.run(squared, KEYS, "toy")
        assert len(experiment(tmp_path, "--resume").store.lines) == 4

    def test_other_settings_do_not_see_the_results(self, tmp_path):
        experiment(tmp_path, settings={"tol": 0.1}).run(squared, KEYS, "toy")
        other = experiment(tmp_path, "--resume", settings={"tol": 0.2})
        assert not other.store.lines

    def test_without_resume_the_old_file_is_put_aside(self, tmp_path):
        experiment(tmp_path).run(squared, KEYS, "toy")
        fresh = experiment(tmp_path)
        assert not fresh.store.lines
        assert fresh.store.file.with_suffix(".jsonl.old").exists()


def test_report_says_how_to_do_it_again(tmp_path, capsys):
    toy = experiment(tmp_path)
    results = toy.run(squared, KEYS, "toy")
    toy.report([Table("Squares", ["i", "square"], [["3", bold("9")]])], results)
    assert "Squares" in capsys.readouterr().out
    report = json.loads((tmp_path / "toy.json").read_text())
    assert {"command", "commit", "machine", "versions", "seconds"} <= report["about"].keys()
    assert "| 3 | **9** |" in report["tables"][0]
    assert report["results"] == results
    filled = page.filled("a\n<!-- results: toy -->\nof yesterday\n<!-- end -->\nz", tmp_path)
    assert "| 3 | **9** |" in filled
    assert "of yesterday" not in filled


class TestStatistics:
    def test_wilcoxon_is_the_exact_test_of_signed_ranks(self):
        # Five differences of one sign: two of the 2 ** 5 assignments are as extreme.
        assert protocol.wilcoxon_p([1, 2, 3, 4, 5], [0, 0, 0, 0, 0]) == pytest.approx(2 / 32)
        assert protocol.wilcoxon_p([1, 2], [1, 2]) == 1

    def test_standard_error(self):
        values = np.random.default_rng(0).normal(size=9)
        assert protocol.mean_and_error(values) == pytest.approx((values.mean(), stats.sem(values)))

    def test_bootstrap_agrees_with_the_normal_interval(self):
        rng = np.random.default_rng(0)
        first, second = rng.normal(1, 1, 400), rng.normal(0, 1, 400)
        low, high = protocol.bootstrap_interval(first, second)
        mean, error = protocol.mean_and_error(first - second)
        assert (low, high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=0.02)

    def test_bold_are_the_best_and_what_may_be_as_good(self):
        rng = np.random.default_rng(0)
        best = rng.normal(0.3, 0.1, 20)
        values = {
            "best": best,
            "as good": best + rng.normal(0.001, 0.05, 20),
            "worse": best + 0.05,
        }
        assert protocol.best_or_as_good(values) == {"best", "as good"}
