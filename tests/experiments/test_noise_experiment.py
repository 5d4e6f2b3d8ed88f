"""Label noise: what is flipped, what costs how much, and the reduced experiment."""

import json

import numpy as np
import pytest

import noise
from robustruct.datasets import Dataset

REDUCED = {
    ("hamming", 0, "AGM"): 0.557,
    ("hamming", 0, "CRF"): 0.558,
    ("hamming", 0, "SSVM"): 0.559,
    ("hamming", 0.3, "AGM"): 0.641,
    ("hamming", 0.3, "CRF"): 0.637,
    ("hamming", 0.3, "SSVM"): 0.653,
    ("look-alike", 0, "AGM"): 0.407,
    ("look-alike", 0, "CRF"): 0.403,
    ("look-alike", 0, "SSVM"): 0.406,
    ("look-alike", 0.3, "AGM"): 0.453,
    ("look-alike", 0.3, "CRF"): 0.459,
    ("look-alike", 0.3, "SSVM"): 0.460,
}  # mean test loss of each loss, share of flipped labels and model


def test_noise_flips_the_wanted_share_to_other_labels_and_is_nested():
    rng = np.random.default_rng(0)
    data = Dataset("toy", [None] * 100, [rng.integers(5, size=50) for _ in range(100)])
    truth = np.concatenate(data.y)
    few, many = (np.concatenate(noise.noisy(data, share, [3])) for share in (0.1, 0.3))
    assert np.mean(few != truth) == pytest.approx(0.1, abs=0.02)
    assert np.mean(many != truth) == pytest.approx(0.3, abs=0.02)
    assert (many[few != truth] == few[few != truth]).all()
    flipped = many[(many != truth) & (truth == 0)]
    assert np.bincount(flipped, minlength=5)[1:] / len(flipped) == pytest.approx(
        np.full(4, 0.25), abs=0.06
    )


def test_letters_that_look_alike_are_cheap_to_confuse():
    costs = noise.look_alike_costs()
    assert sorted("".join(noise.LOOK_ALIKE)) == list(noise.LETTERS)
    assert costs.evaluate(list("aaa"), list("aoz")).tolist() == [0, noise.CHEAP, 1]


@pytest.mark.slow
@pytest.mark.data
def test_reduced_run(data_home, tmp_path):
    arguments = "--data ocr --limit 20 --noise 0 0.3 --folds 2 --jobs 1 --results"
    noise.main([*arguments.split(), str(tmp_path)])
    report = json.loads((tmp_path / "noise.json").read_text())
    tests = report["results"]["tests"]
    for (loss, share, model), expected in REDUCED.items():
        of_kind = (loss, share, model)
        found = [t["value"] for t in tests if (t["loss"], t["noise"], t["model"]) == of_kind]
        # Not closer: elsewhere another alpha may win by a hair.
        assert np.mean(found) == pytest.approx(expected, rel=0.1), of_kind
    for fit in tests:
        assert fit["gap"] <= fit["tol"]
    assert (tmp_path / "noise.svg").exists()
