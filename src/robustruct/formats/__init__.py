"""Files: text formats of samples, feature templates, costs; models as safetensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustruct._lazy import names_from

if TYPE_CHECKING:
    from robustruct.formats.corpus import Corpus, read_corpus
    from robustruct.formats.sample import Format, Sample
    from robustruct.formats.shards import Shard

__all__ = ["Corpus", "Format", "Sample", "Shard", "read_corpus"]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "Corpus": "robustruct.formats.corpus",
        "Format": "robustruct.formats.sample",
        "Sample": "robustruct.formats.sample",
        "Shard": "robustruct.formats.shards",
        "read_corpus": "robustruct.formats.corpus",
    },
)
