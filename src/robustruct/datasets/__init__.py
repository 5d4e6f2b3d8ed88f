"""Data: an embedded set, generators with a known truth, and readers of real data sets.

`load_counter` and the ``make_`` functions need nothing else. The other loaders read files below the
folder named by the environment variable ``ROBUSTRUCT_DATA`` or the argument ``data_home``.
"""

from robustruct.datasets.conll2000 import chunking_attributes, load_conll2000
from robustruct.datasets.counter import load_counter
from robustruct.datasets.dataset import Dataset
from robustruct.datasets.emotion import emotion_splits, load_emotion, position_weights
from robustruct.datasets.ewt import load_ewt_pos, word_attributes
from robustruct.datasets.multilabel import SCENE_LABELS, load_multilabel
from robustruct.datasets.ocr import load_ocr
from robustruct.datasets.srl import ROLES, PrunedTree, load_srl
from robustruct.datasets.sst import load_sst
from robustruct.datasets.synthetic import (
    MarkovModel,
    SyntheticDataset,
    make_chains,
    make_grids,
    make_trees,
)
from robustruct.datasets.wnut17 import load_wnut17, name_attributes

__all__ = [
    "ROLES",
    "SCENE_LABELS",
    "Dataset",
    "MarkovModel",
    "PrunedTree",
    "SyntheticDataset",
    "chunking_attributes",
    "emotion_splits",
    "load_conll2000",
    "load_counter",
    "load_emotion",
    "load_ewt_pos",
    "load_multilabel",
    "load_ocr",
    "load_srl",
    "load_sst",
    "load_wnut17",
    "make_chains",
    "make_grids",
    "make_trees",
    "name_attributes",
    "position_weights",
    "word_attributes",
]
