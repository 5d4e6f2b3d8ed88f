"""
Train a neural tagger for the cost of a missed name
===================================================

A small convolutional network tags names in noisy text (WNUT 2017). A missed name's token costs 5,
any other mistake 1. The network is trained with cross-entropy, as a CRF and with
`robustruct.torch.ChainAGM`, on a part of the data and for a few epochs; the full comparison over
five seeds is in the page on neural taggers.

|data_note|
"""

import time
import zlib

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from corpora import load_wnut17
from robustruct.metrics import span_scores
from robustruct.torch import ChainAGM, ChainCRF

torch.set_num_threads(1)
torch.manual_seed(0)


def read(name, limit):
    """Sentences as (words, tags)."""
    data = load_wnut17(name).subset(slice(limit))
    sentences = [
        (words, ["O" if tag == "O" else f"{tag[:2]}NAME" for tag in tags.tolist()])
        for words, tags in zip(data.X, data.y, strict=True)
    ]
    return sorted(sentences, key=lambda sentence: len(sentence[0]))


train, test = read("train", 1500), read("test", 800)
labels = ["B-NAME", "I-NAME", "O"]
print(len(train), "training sentences;", " ".join(test[100][0]))

# %%
# The cost matrix
# ---------------
# Rows are true tags, columns predicted ones, as in a confusion matrix.

cost = np.array([[0, 1, 5], [1, 0, 5], [1, 1, 0]])

# %%
# The network
# -----------
# It sees a word, its first and last letters and whether it is written large, all hashed, and two
# words to either side. The last layer is all that differs.

BUCKETS = 4096


def hashed(word):
    small = word.lower()
    parts = [small, small[:3] + "<", ">" + small[-3:], word[:1].isupper() * "A" + word[1:2]]
    return [1 + zlib.crc32(part.encode()) % BUCKETS for part in parts]


def batches(sentences, size=32):
    """(hashed words (B, n, 4), tags (B, n), mask (B, n)); sentences of like length together."""
    for first in range(0, len(sentences), size):
        part = sentences[first : first + size]
        x = [torch.tensor([hashed(word) for word in words]) for words, _ in part]
        y = [torch.tensor([labels.index(tag) for tag in tags]) for _, tags in part]
        tags = nn.utils.rnn.pad_sequence(y, batch_first=True, padding_value=-100)
        yield nn.utils.rnn.pad_sequence(x, batch_first=True), tags, tags != -100


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(BUCKETS + 1, 32, padding_idx=0)
        self.near = nn.Conv1d(128, 64, 5, padding=2)
        self.out = nn.Linear(64, len(labels))

    def forward(self, x):
        rows = self.words(x).flatten(2).transpose(1, 2)
        return self.out(torch.relu(self.near(rows)).transpose(1, 2))


# %%
# Three ways to train it
# ----------------------
# ``ChainAGM`` returns what is to be minimised; ``ChainCRF``, like pytorch-crf, a log-likelihood.

EPOCHS = 3
batches_of_train = list(batches(train))


def trained(layer, loss_of):
    """The network, trained with what ``loss_of(emissions, tags, mask)`` says."""
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.Adam([*network.parameters(), *layer.parameters()], 0.01)
    start = time.process_time()
    for epoch in range(EPOCHS):
        for i in np.random.default_rng(epoch).permutation(len(batches_of_train)):
            x, tags, mask = batches_of_train[i]
            optimizer.zero_grad()
            loss_of(network(x), tags, mask).backward()
            optimizer.step()
    print(f"{type(layer).__name__:10} {(time.process_time() - start) / EPOCHS:.1f} s an epoch")
    return network.eval()


names = {"labels": labels, "constraints": "BIO", "batch_first": True}
agm, crf = ChainAGM(3, cost, temperature=1.0, **names), ChainCRF(3, cost=cost, **names)
by_agm = trained(agm, lambda e, tags, mask: agm(e, tags, mask, reduction="token_mean"))
by_crf = trained(crf, lambda e, tags, mask: -crf(e, tags, mask, reduction="token_mean"))
softmax = nn.CrossEntropyLoss(ignore_index=-100)
by_softmax = trained(softmax, lambda e, tags, mask: softmax(e.transpose(1, 2), tags))

# %%
# How they decide
# ---------------
# The AGM follows its predictor's strategy, the CRF takes the likeliest tags, or those of least
# expected cost (Bayes), as can be done with a softmax too.

price = torch.tensor(cost, dtype=torch.float32)


def of_tokens(rows, mask):
    return [row[kept].tolist() for row, kept in zip(rows, mask, strict=True)]


ways = {
    "AGM, predictor": lambda x, m: agm.decode(by_agm(x), m),
    "CRF, Bayes": lambda x, m: crf.decode(by_crf(x), m, "bayes"),
    "CRF, likeliest": lambda x, m: crf.decode(by_crf(x), m, "map"),
    "softmax, Bayes": lambda x, m: of_tokens((by_softmax(x).softmax(-1) @ price).argmin(-1), m),
    "softmax, likeliest": lambda x, m: of_tokens(by_softmax(x).argmax(-1), m),
}
truth = [np.array(tags) for _, tags in test]
results = {}
print(f"{'':20}{'cost':>6}{'F1':>7}")
for name, decide in ways.items():
    with torch.no_grad():
        rows = [row for x, _, mask in batches(test, 128) for row in decide(x, mask)]
    found = [np.array(labels)[row] for row in rows]
    true = np.concatenate([[labels.index(tag) for tag in tags] for _, tags in test])
    paid = cost[true, np.concatenate(rows)].mean()
    results[name] = paid, span_scores(truth, found)[0].f1
    print(f"{name:20}{paid:6.3f}{results[name][1]:7.1%}")

# %%
# Who decides by the cost pays less than who takes the likeliest tags. One seed and a few epochs do
# not rank the rest.

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.barh(list(results), [paid for paid, _ in results.values()], color="#1f5fbf")
axes.set(xlabel="test cost per token")
axes.invert_yaxis()
plt.show()

# %%
# How sure is it?
# ---------------
# ``predict_proba`` estimates P(tag | x), and ``risk`` the cost to expect of a sentence.

x, _, mask = next(batches(test[320:], 1))
with torch.no_grad():
    emissions = by_agm(x)
    for word, row in zip(test[320][0], agm.predict_proba(emissions, mask)[0], strict=True):
        print(f"{word:15}", " ".join(f"{p:.2f}" for p in row.tolist()))
    print("expected cost:", round(agm.risk(emissions, mask).item(), 2))
