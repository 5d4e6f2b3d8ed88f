"""What is written at the nodes of a drawing, for every format of files."""

from pathlib import Path

import pytest

from robustruct.formats.corpus import read_corpus

FILES = {
    "a.conll": ("the D\nfish N\n\nsees V\n\n", [["the", "fish"], ["sees"]]),
    "a.crfsuite": (
        "D\tw=the\tlow\nN\tw=fish\n\nV\tw=sees:2.0\n\n",
        [["w=the", "w=fish"], ["w=sees"]],
    ),
    "a.jsonl": (
        (
            '{"nodes": [{"n": 2, "w": "the"}, {"low": 1}], "labels": ["D", "N"]}\n'
            '{"nodes": [{"w": "sees"}], "labels": ["V"]}\n'
        ),
        [["the", "low"], ["sees"]],
    ),
    "numbers.jsonl": ('{"nodes": [[1.5, 2], [0, 1]], "labels": [1, 2]}\n', [["", ""]]),
    "lists.jsonl": ('{"nodes": [["the", "low"], ["fish"]], "labels": [1, 2]}\n', [["the", "fish"]]),
}


@pytest.mark.parametrize("name", FILES)
def test_captions_are_the_words(name: str, tmp_path: Path) -> None:
    text, wanted = FILES[name]
    (tmp_path / name).write_text(text)
    assert read_corpus(tmp_path / name, captions=True).captions == wanted
    assert read_corpus(tmp_path / name).captions is None
