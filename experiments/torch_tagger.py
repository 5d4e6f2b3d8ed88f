"""A neural tagger with seven losses: names in noisy text (WNUT 2017), a missed one costs 1 or 5.

The network is the same for all: hashed words, shapes, prefixes and suffixes, two convolutions over
three tokens, a linear layer. On top are `robustruct.torch.ChainAGM`, `ChainCRF`, pytorch-crf's CRF,
or a softmax with plain or class-weighted cross-entropy. Each is trained with Adam for the same
number of epochs; for every way to decide, the epoch is chosen by the cost on the development file.
Names of all types are one, 2,000 sentences are for training, 500 for development and all 1,287 for
the test: a size that ten minutes of processor time allow. Costs are per token, F1 is that of whole
names. Means over seeds with 95 % t-intervals.
"""

from __future__ import annotations

import functools
import time
import warnings
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor, nn
from torchcrf import CRF as TorchCRF

from corpora import load_wnut17
from protocol import Experiment, Key, Result, options
from robustruct.metrics import span_scores
from robustruct.torch import ChainAGM, ChainCRF
from tables import Table

EPOCHS, BATCH, RATE, SEEDS = 4, 32, 1e-2, 5
SENTENCES = {"train": 2000, "dev": 500, "test": None}
BUCKETS = 2**12
SIZES = {"word": 32, "shape": 8, "prefix": 12, "suffix": 12}
HIDDEN = 64
LABELS = ["B-NAME", "I-NAME", "O"]
MISSED = (1, 5)
FITS = {
    "ChainAGM, temperature 1, for cost 1": ("agm", 1, 1.0),
    "ChainAGM, temperature 1, for cost 5": ("agm", 5, 1.0),
    "ChainAGM, temperature 10, for cost 5": ("agm", 5, 10.0),
    "ChainCRF": ("crf", 5, 0.0),
    "pytorch-crf": ("torchcrf", 5, 0.0),
    "cross-entropy": ("softmax", 1, 0.0),
    "cross-entropy, names weigh 5": ("softmax", 5, 0.0),
}


# ------------------------------------------------------------------------------------------- data

Sentence = tuple[list[str], list[str]]


def read(name: str, limit: int | None = None) -> list[Sentence]:
    """Sentences of data/wnut17 as (words, tags); names of all types are one."""
    data = load_wnut17(name).subset(slice(limit))
    return [
        (list(words), ["O" if tag == "O" else f"{tag[:2]}NAME" for tag in tags.tolist()])
        for words, tags in zip(data.X, data.y, strict=True)
    ]


def attributes(word: str) -> list[str]:
    """What the network sees of a word."""
    shape = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c
                    for c in word)  # fmt: skip
    small = word.lower()
    return [small, shape[:1] + shape[-1:] + shape[1:3], small[:3], small[-3:]]


def encoded(sentences: Sequence[Sentence], labels: Sequence[str]) -> list[tuple[Tensor, Tensor]]:
    """Hashed attributes (n, 4) and tags (n,) of every sentence."""
    place = {label: a for a, label in enumerate(labels)}
    return [
        (
            torch.tensor(
                [[1 + zlib.crc32(a.encode()) % BUCKETS for a in attributes(w)] for w in words]
            ),
            torch.tensor([place[tag] for tag in tags]),
        )
        for words, tags in sentences
    ]


def by_length(data: Sequence[tuple[Tensor, Tensor]], places: np.ndarray) -> np.ndarray:
    """Sentences of like length together, so that little is padded."""
    return places[np.argsort([len(data[i][1]) for i in places], kind="stable")]


def shuffled(data: Sequence[tuple[Tensor, Tensor]], rng: np.random.Generator) -> list[np.ndarray]:
    """Batches of an epoch: sentences in random order, those of eight batches by their length."""
    order, pool = rng.permutation(len(data)), 8 * BATCH
    pools = [by_length(data, order[i : i + pool]) for i in range(0, len(order), pool)]
    parts = [part[i : i + BATCH] for part in pools for i in range(0, len(part), BATCH)]
    return [parts[i] for i in rng.permutation(len(parts))]


def batches(data: Sequence[tuple[Tensor, Tensor]], parts: Sequence[np.ndarray]) -> Iterator[Any]:
    """(attributes (B, n, 4), tags (B, n), mask (B, n)) of each part."""
    for part in parts:
        chosen = [data[i] for i in part]
        x = nn.utils.rnn.pad_sequence([x for x, _ in chosen], batch_first=True)
        tags = nn.utils.rnn.pad_sequence([y for _, y in chosen], batch_first=True)
        lengths = torch.tensor([len(y) for _, y in chosen])
        yield x, tags, torch.arange(tags.shape[1]) < lengths[:, None]


def cost_matrix(labels: Sequence[str], missed: float) -> np.ndarray:
    """Rows true tags, columns predicted ones: to take a name's token for O costs ``missed``."""
    costs = 1.0 - np.eye(len(labels))
    outside = list(labels).index("O")
    costs[:, outside] *= missed
    return costs


# ------------------------------------------------------------------------------------------ model


class Tagger(nn.Module):
    """Emissions by two convolutions, and one of the output layers on top."""

    def __init__(self, kind: str, labels: Sequence[str], missed: float, temperature: float) -> None:
        super().__init__()
        k, cost = len(labels), cost_matrix(labels, missed)
        self.tables = nn.ModuleList(
            nn.Embedding(BUCKETS + 1, size, padding_idx=0) for size in SIZES.values()
        )
        self.first = nn.Conv1d(sum(SIZES.values()), HIDDEN, 3, padding=1)
        self.second = nn.Conv1d(HIDDEN, HIDDEN, 3, padding=1)
        self.out = nn.Linear(HIDDEN, k)
        self.dropout = nn.Dropout(0.2)
        self.kind, self.decision = kind, "map" if missed == 1 else "predictor"
        self.cost = torch.as_tensor(cost, dtype=torch.float32)
        self.layer: Any = None
        if kind == "agm":
            self.layer = ChainAGM(k, cost, temperature, batch_first=True)
        elif kind == "crf":
            self.layer = ChainCRF(k, batch_first=True, cost=cost)
        elif kind == "torchcrf":
            self.layer = TorchCRF(k, batch_first=True)
        weights = torch.full((k,), float(missed))
        weights[list(labels).index("O")] = 1.0
        self.weights = weights

    def emissions(self, x: Tensor) -> Tensor:
        """(B, n, k)"""
        rows = torch.cat([table(x[:, :, a]) for a, table in enumerate(self.tables)], -1)
        rows = self.dropout(rows).transpose(1, 2)
        rows = self.dropout(torch.relu(self.first(rows)))
        rows = self.dropout(torch.relu(self.second(rows)))
        return self.out(rows.transpose(1, 2))

    def loss(self, x: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """What is minimised, per token."""
        scores = self.emissions(x)
        if self.kind == "softmax":
            return nn.functional.cross_entropy(scores[mask], tags[mask], self.weights)
        loss = self.layer(scores, tags, mask, reduction="token_mean")
        return loss if self.kind == "agm" else -loss

    def decisions(self, x: Tensor, mask: Tensor) -> dict[str, list[list[int]]]:
        """Tags by every way to decide that suits the loss."""
        scores = self.emissions(x)
        if self.kind == "agm":
            return {self.decision: self.layer.decode(scores, mask, self.decision)}
        if self.kind == "crf":
            return {d: self.layer.decode(scores, mask, d) for d in ("map", "bayes")}
        if self.kind == "torchcrf":
            return {"map": self.layer.decode(scores, mask)}
        found = {"likeliest": scores.argmax(-1)}
        if bool((self.weights == 1).all()):
            found["bayes"] = (scores.softmax(-1) @ cost_of(5, self.cost)).argmin(-1)
        return {
            name: [row[kept].tolist() for row, kept in zip(tags, mask, strict=True)]
            for name, tags in found.items()
        }


def cost_of(missed: float, like: Tensor) -> Tensor:
    """The other cost, for a network that was trained for none; O is the last tag."""
    costs = 1.0 - torch.eye(len(like))
    costs[:, -1] *= missed
    return costs


# ----------------------------------------------------------------------------------------- a fit


def judged(
    model: Tagger, data: Sequence[tuple[Tensor, Tensor]], labels: Sequence[str]
) -> dict[str, dict[str, float]]:
    """For each decision its mean cost per token, at both costs, and its F1."""
    model.eval()
    found: dict[str, list[list[int]]] = {}
    with torch.no_grad():
        order = by_length(data, np.arange(len(data)))
        for x, _, mask in batches(data, np.split(order, range(128, len(order), 128))):
            for name, rows in model.decisions(x, mask).items():
                found.setdefault(name, []).extend(rows)
    names = np.array(labels)
    tags = [data[i][1].numpy() for i in order]
    truth, flat = [names[row] for row in tags], np.concatenate(tags)
    results = {}
    for name, rows in found.items():
        guess = np.concatenate([np.array(row) for row in rows])
        spans, _ = span_scores(truth, [names[row] for row in rows])
        results[name] = {
            f"cost {missed}": float(cost_matrix(labels, missed)[flat, guess].mean())
            for missed in MISSED
        } | {"f1": spans.f1}
    return results


def solve(settings: dict[str, Any], key: Key) -> Result:
    """Train one network; its results on the epochs that the development file chose."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="where received a uint8 condition")
    torch.manual_seed(key["seed"])
    rng = np.random.default_rng(key["seed"])
    train, dev, test = (
        encoded(read(name, settings["limit"] or size), LABELS) for name, size in SENTENCES.items()
    )
    labels = LABELS
    model = Tagger(FITS[key["fit"]][0], labels, *FITS[key["fit"]][1:])
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    best: dict[str, dict[str, float]] = {}
    seconds = []
    for epoch in range(1, settings["epochs"] + 1):
        model.train()
        start = time.process_time()
        for batch in batches(train, shuffled(train, rng)):
            optimizer.zero_grad()
            loss = model.loss(*batch)
            loss.backward()
            optimizer.step()
        seconds.append(time.process_time() - start)
        found = judged(model, dev, labels)
        better = [
            (name, missed)
            for name, costs in found.items()
            for missed in MISSED
            if costs[f"cost {missed}"] < best.get(f"{name}, {missed}", {"dev": np.inf})["dev"]
        ]
        tested = judged(model, test, labels) if better else {}
        for name, missed in better:
            best[f"{name}, {missed}"] = {
                "dev": found[name][f"cost {missed}"],
                "cost": tested[name][f"cost {missed}"],
                "f1": tested[name]["f1"],
                "epoch": epoch,
            }
    return {"chosen": best, "epoch_cpu_seconds": float(np.mean(seconds))}


# ----------------------------------------------------------------------------------------- report

ROWS = {
    1: [
        ("ChainAGM, temperature 1, for cost 1", "map"),
        ("ChainCRF", "map"),
        ("pytorch-crf", "map"),
        ("cross-entropy", "likeliest"),
    ],
    5: [
        ("ChainAGM, temperature 1, for cost 5", "predictor"),
        ("ChainAGM, temperature 10, for cost 5", "predictor"),
        ("ChainCRF", "map"),
        ("ChainCRF", "bayes"),
        ("pytorch-crf", "map"),
        ("cross-entropy", "likeliest"),
        ("cross-entropy", "bayes"),
        ("cross-entropy, names weigh 5", "likeliest"),
    ],
}


def interval(values: Sequence[float], digits: int) -> str:
    """Mean and half the width of its 95 % interval."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return f"{mean:.{digits}f}"
    half = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def tables(results: Sequence[Result]) -> list[Table]:
    """A table for each cost of a missed name."""
    found = []
    for missed, rows in ROWS.items():
        cells = []
        for fit, decision in rows:
            own = [result for result in results if result["fit"] == fit]
            chosen = [result["chosen"][f"{decision}, {missed}"] for result in own]
            cells.append(
                [
                    fit,
                    decision,
                    interval([one["cost"] for one in chosen], 4),
                    interval([100 * one["f1"] for one in chosen], 1),
                    f"{np.median([result['epoch_cpu_seconds'] for result in own]):.1f}",
                ]
            )
        title = f"WNUT 2017, a missed name's token costs {missed}"
        columns = ["trained with", "decision", "test cost per token", "F1, %", "s / epoch"]
        found.append(Table(title, columns, cells, "Seconds are of the processor, one thread."))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("torch_tagger", __doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args(arguments)
    settings = {"limit": args.limit, "epochs": args.epochs, "rate": RATE, "batch": BATCH}
    settings["sentences"] = SENTENCES
    experiment = Experiment(args, settings)
    keys = [{"fit": fit, "seed": seed} for seed in range(args.seeds) for fit in FITS]
    results = experiment.run(functools.partial(solve, settings), keys, "taggers")
    experiment.report(tables(results), results)


if __name__ == "__main__":
    main()
