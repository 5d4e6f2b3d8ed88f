"""Figures: small files that say what was drawn."""

import re

from tables import new_figure, save


def drawn(file):
    figure, axes = new_figure(1, 1)
    axes[0, 0].plot([0.0, 1 / 3, 1.0], [0.675, 0.7, 0.725])
    axes[0, 0].set_yticks([0.675, 0.725], ["0.675", "0.725"])
    save(figure, file)
    return file.read_text()


def test_figures_keep_their_text_and_lose_needless_digits(tmp_path):
    written = drawn(tmp_path / "figure.svg")
    assert ">0.675</text>" in written
    assert not re.search(r'd="[^"]*\d\.\d{3}', written)


def test_equal_figures_give_equal_files(tmp_path):
    assert drawn(tmp_path / "first.svg") == drawn(tmp_path / "second.svg")
