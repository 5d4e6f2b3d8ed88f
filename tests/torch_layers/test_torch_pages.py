"""What the page on neural taggers shows of other libraries, run where these are installed."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_tiny_transformer_is_trained_as_the_page_says() -> None:
    transformers = pytest.importorskip("transformers")
    section = PAGE.read_text(encoding="utf-8").partition("## Hugging Face")[2]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, num_labels=3,
    )  # fmt: skip
    encoder = transformers.AutoModelForTokenClassification.from_config(config)
    model = names["Tagger"](encoder, [[0, 1, 1], [5, 0, 1], [5, 1, 0]])
    ids = torch.randint(0, 50, (4, 9))
    labels = (ids % 3).masked_fill(torch.arange(9) % 4 == 0, -100)  # [CLS] and second sub-words
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=labels)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    logits = model(input_ids=ids)["logits"]
    assert [len(row) for row in model.layer.decode(logits, labels != -100)] == [6] * 4
