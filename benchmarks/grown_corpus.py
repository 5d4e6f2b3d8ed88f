"""A corpus that needs several machines: CoNLL-2000 grown many times, written as shards.

Run: ROBUSTRUCT_DATA=... python benchmarks/grown_corpus.py FOLDER [--times 16] [--shards 16]
     ROBUSTRUCT_DATA=... python benchmarks/grown_corpus.py --check

Sentences are drawn with replacement, with their parts of speech and chunks, and some of their words
are drawn anew within their part of speech by the process of Pitman and Yor (1997): a word seen
c times in n comes again with probability (c - d) / (n + s), and a new one comes otherwise. So words
have a long tail, as real ones do, and columns of features grow with the corpus.

``--check`` grows parts of the real corpus to its size and compares the number of different words
and of different pairs of neighbours, which are most of the columns, with those of the real one.
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from corpora import load_conll2000

Sentence = list[tuple[str, str, str]]
"""Words, parts of speech and chunks."""

REPLACED = 0.5
"""Share of words that are drawn anew. With it a sixteenth, grown 16 times, is about as rich as the
real corpus (see ``--check``); .3 gives a third fewer words, and 1 more pairs than people write."""
ENDING = 3  # letters at the end of a new word that it has in common with another of its tag
LETTERS = {
    "aeiou": "aeiou",
    "bcdfghjklmnpqrstvwxyz": "bcdfghjklmnpqrstvwxyz",
    "0123456789": "0123456789",
}


class Words:
    """The words of one part of speech, and draws from them."""

    def __init__(self, words: Sequence[str], rng: random.Random) -> None:
        self.tokens, self.counts, self.rng = list(words), Counter(words), rng
        once, twice = (sum(c == n for c in self.counts.values()) for n in (1, 2))
        # The discount as Kneser and Ney (1995) have it; s such that the next word is new as often
        # as Good and Turing say, once / n.
        self.discount = once / (once + 2 * twice) if once else 0.0
        n = len(self.tokens)
        self.strength = max((once - self.discount * len(self.counts)) / (1 - (once - 0.5) / n), 0.0)

    def draw(self) -> str:
        """Return a word, which counts from now on."""
        rng, n = self.rng, len(self.tokens)
        new = self.strength + self.discount * len(self.counts)
        if rng.random() * (n + self.strength) < new:
            word = self.invented()
        else:  # a token stands for its word with probability (c - d) / c
            word = rng.choice(self.tokens)
            while rng.random() * self.counts[word] < self.discount:
                word = rng.choice(self.tokens)
        self.tokens.append(word)
        self.counts[word] += 1
        return word

    def invented(self) -> str:
        """Return a new word, of the shape and ending of another one."""
        like = self.rng.choice(self.tokens)
        for attempt in range(100):
            stem = max(len(like) - ENDING, 1)
            letters = [self.other(one) if i < stem else one for i, one in enumerate(like)]
            word = "".join(letters)
            if word not in self.counts:
                return word
            if attempt % 10 == 9:  # short words are soon used up
                like = self.rng.choice(self.tokens) + like
        return word

    def other(self, letter: str) -> str:
        """Return another letter of its kind and case."""
        for kind in LETTERS:
            if letter.lower() in kind:
                drawn = self.rng.choice(kind)
                return drawn.upper() if letter.isupper() else drawn
        return letter


def grown(source: Sequence[Sentence], n_sentences: int, seed: int) -> Iterator[Sentence]:
    """Draw sentences like those of ``source``."""
    rng, by_tag = random.Random(seed), defaultdict(list)
    for sentence in source:
        for word, tag, _ in sentence:
            by_tag[tag].append(word)
    words = {tag: Words(of_tag, rng) for tag, of_tag in by_tag.items()}
    for _ in range(n_sentences):
        yield [
            (words[tag].draw() if rng.random() < REPLACED else word, tag, chunk)
            for word, tag, chunk in rng.choice(source)
        ]


def real() -> list[Sentence]:
    """The training sentences of CoNLL-2000."""
    data = load_conll2000()
    return [
        [(word, tag, str(chunk)) for (word, tag), chunk in zip(sentence, labels, strict=True)]
        for sentence, labels in zip(data.X, data.y, strict=True)
    ]


def richness(sentences: Sequence[Sentence]) -> tuple[int, int]:
    """(different words, different pairs of neighbours)."""
    words = {word for sentence in sentences for word, _, _ in sentence}
    pairs = {(a[0], b[0]) for s in sentences for a, b in pairwise(s)}
    return len(words), len(pairs)


def check() -> None:
    """Print how rich parts of the corpus become when they are grown to its size."""
    source = real()
    print(f"{'grown':>8} {'words':>8} {'pairs':>8}")
    print("{:>8} {:>8} {:>8}".format("real", *richness(source)))
    for times in (2, 4, 8, 16):
        part = random.Random(times).sample(source, len(source) // times)
        found = richness(list(grown(part, len(source), seed=times)))
        print("{:>8} {:>8} {:>8}".format(f"{times} x", *found))


def write(folder: Path, times: int, n_shards: int, seed: int) -> None:
    """Write the corpus as gzipped columns."""
    source = real()
    folder.mkdir(parents=True, exist_ok=True)
    sentences = grown(source, times * len(source), seed)
    n_tokens, each = 0, -(-times * len(source) // n_shards)
    for shard in range(n_shards):
        with gzip.open(folder / f"part-{shard:03d}.conll.gz", "wt", compresslevel=1) as file:
            for _, sentence in zip(range(each), sentences, strict=False):
                file.writelines(f"{word} {tag} {chunk}\n" for word, tag, chunk in sentence)
                file.write("\n")
                n_tokens += len(sentence)
        print(f"shard {shard + 1} of {n_shards}: {n_tokens:,} tokens so far", file=sys.stderr)


def main() -> None:
    """Check, or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--times", type=int, default=16)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        check()
    elif options.folder is None:
        parser.error("give a folder to write to, or --check")
    else:
        write(options.folder, options.times, options.shards, options.seed)


if __name__ == "__main__":
    main()
