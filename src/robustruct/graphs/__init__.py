"""What is connected: graphs, and batches of them as flat arrays."""

from robustruct.graphs.batch import Batch
from robustruct.graphs.elimination import treewidth
from robustruct.graphs.graph import Graph, chain_edges, checked_edges, n_rows

__all__ = [
    "Batch",
    "Graph",
    "chain_edges",
    "checked_edges",
    "n_rows",
    "treewidth",
]
