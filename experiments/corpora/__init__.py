"""Readers of the research corpora on which the experiments, benchmarks and examples run.

They read files below the folder named by the environment variable ``ROBUSTRUCT_DATA`` or the
argument ``data_home``. The folder ``experiments`` has to be on the path of Python.
"""

from corpora.citations import load_citations
from corpora.conll2000 import chunking_attributes, load_conll2000
from corpora.emotion import emotion_splits, load_emotion
from corpora.ewt import load_ewt_pos, word_attributes
from corpora.multilabel import SCENE_LABELS, load_multilabel
from corpora.ocr import load_ocr
from corpora.snakes import load_snakes
from corpora.srl import ROLES, PrunedTree, load_srl
from corpora.sst import load_sst
from corpora.wnut17 import load_wnut17, name_attributes

__all__ = [
    "ROLES",
    "SCENE_LABELS",
    "PrunedTree",
    "chunking_attributes",
    "emotion_splits",
    "load_citations",
    "load_conll2000",
    "load_emotion",
    "load_ewt_pos",
    "load_multilabel",
    "load_ocr",
    "load_snakes",
    "load_srl",
    "load_sst",
    "load_wnut17",
    "name_attributes",
    "word_attributes",
]
