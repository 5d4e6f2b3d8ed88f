"""Arrays that travel together, as the kernels take them.

S samples, N nodes, C chords, T tables, k labels, d features of nodes and e of edges; where the
arrays come from: graphs/batch.py, features/, game/, optimizers/dual_variables.py. Index arrays are
intp unless they say int32.
"""

from typing import Annotated, NamedTuple

import numpy as np

from robustruct.core.declare import (
    Bytes,
    Flags,
    Floats,
    Indices,
    Ints32,
    Ints64,
    Singles,
    struct,
)

# ---------------------------------------------------------------------------------- what is given


@struct
class Structure(NamedTuple):
    """The graphs of a batch. A slot holds an edge: slot i < N that of node i, then the chords."""

    offsets: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) sample s owns nodes offsets[s] .. offsets[s+1]-1."""
    chord_offsets: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) and slots N + chord_offsets[s] .. N + chord_offsets[s+1]-1."""
    child: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) the node that an edge belongs to: i itself for slot i < N."""
    parent: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) its other end, larger than the child; -1 where there is no edge."""


@struct
class ScoreArrays(NamedTuple):
    """ψ: what a labelling is worth, node by node and edge by edge; -inf forbids."""

    unary: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k)."""
    tables: Annotated[np.ndarray, Floats["tables", "labels", "labels"]]
    """(T, k, k) [label of the child, label of the parent]."""
    table_of: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) which table scores the edge in a slot; unused where there is none."""


@struct
class JunctionTrees(NamedTuple):
    """Cliques of the triangulated graphs of a batch; see graphs/buckets.py."""

    parent: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) as in `Structure`."""
    table_of: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) as in `ScoreArrays`."""
    offsets: Annotated[np.ndarray, Indices["nodes + 1"]]
    """(N+1,) bucket i owns members offsets[i] .. offsets[i+1]-1."""
    members: Annotated[np.ndarray, Indices["members"]]
    """Later neighbours, ascending; the first is the parent of the bucket."""
    first_child: Annotated[np.ndarray, Indices["nodes"]]
    """(N,) a bucket of which this one is the parent, or -1."""
    next_child: Annotated[np.ndarray, Indices["nodes"]]
    """(N,) another bucket with the same parent, or -1."""
    chord_start: Annotated[np.ndarray, Indices["nodes + 1"]]
    """(N+1,) node i is the child of chords chord_start[i] .. chord_start[i+1]-1."""


@struct
class Rows(NamedTuple):
    """Sparse rows of features: row i has entries indptr[i] .. indptr[i+1]-1."""

    indptr: Annotated[np.ndarray, Indices["rows + 1"]]
    indices: Annotated[np.ndarray, Ints32["entries"]]
    """int32, columns."""
    data: Annotated[np.ndarray, Floats["entries"]]


@struct
class Features(NamedTuple):
    """Features of the nodes (N rows) and of the edges (rows that tables share)."""

    nodes: Rows
    edges: Rows


@struct
class TableRows(NamedTuple):
    """Which features score an edge."""

    table_of: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) the table of each slot."""
    row: Annotated[np.ndarray, Indices["tables"]]
    """(T,) the row of edge features behind a table."""
    transposed: Annotated[np.ndarray, Indices["tables"]]
    """(T,) 1 where the table [child, parent] is the transpose of [first, second], else 0."""


@struct
class Rules(NamedTuple):
    """What is forbidden, as scores of 0 or -inf."""

    node_kind: Annotated[np.ndarray, Indices["nodes"]]
    """(N,) row of ``unary_mask``, for both players."""
    unary_mask: Annotated[np.ndarray, Floats["kinds", "labels"]]
    """(kinds, k)."""
    pair_mask: Annotated[np.ndarray, Floats["pairs"]]
    """(k * k,) [first * k + second label]."""


@struct
class Design(NamedTuple):
    """What turns weights into scores."""

    features: Features
    tables: TableRows
    rules: Rules


@struct
class Weights(NamedTuple):
    """θ, of node and of edge features."""

    node: Annotated[np.ndarray, Floats["node_rows", "labels"]]
    """(d, k)."""
    edge: Annotated[np.ndarray, Floats["edge_rows", "pairs"]]
    """(e, k * k) [feature, first * k + second label]."""


# -------------------------------------------------------------------------------- the two players


@struct
class Predictor(NamedTuple):
    """Who answers the adversary, beside a centre p0: see core/steps.c."""

    cost: Annotated[np.ndarray, Floats["labels", "labels"]]
    """(k, k) L, [predicted label, adversary's label]."""
    cost_t: Annotated[np.ndarray, Floats["labels", "labels"]]
    """(k, k) L transposed."""
    spread: Annotated[np.ndarray, Floats["labels", "labels"]]
    """(k, k) Σ_a (L(a, y) - L(a, w) - mean)² / mu_a, the mean with weights 1 / mu_a.

    How the answer bends the dual along e_y - e_w; it ignores what all labels cost more.
    """
    tolerance: float
    """What counts as rounding, a node."""
    mu: Annotated[np.ndarray, Floats["labels"]]
    """(k,) how strongly each label is held to the centre."""
    inv_mu: Annotated[np.ndarray, Floats["labels"]]
    """(k,) 1 / mu_a; zeros hold the predictor at its centre."""
    weight: Annotated[np.ndarray, Floats["nodes"]]
    """(N,) node weights w."""
    centre: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) p0."""

    @classmethod
    def of(
        cls, cost: np.ndarray, inv_mu: np.ndarray, weight: np.ndarray, centre: np.ndarray
    ) -> "Predictor":
        """With what follows from the cost."""
        spread = np.zeros_like(cost)
        if inv_mu.any():
            mean = inv_mu @ cost / inv_mu.sum()
            for share, row in zip(inv_mu, cost - mean, strict=True):
                spread += share * np.subtract.outer(row, row) ** 2
        tolerance = 1e-10 * float(np.abs(cost).max())
        cost_t = np.ascontiguousarray(cost.T)
        mu = np.divide(1.0, inv_mu, out=np.full(len(inv_mu), np.inf), where=inv_mu > 0.0)
        return cls(cost, cost_t, spread, tolerance, mu, inv_mu, weight, centre)


@struct
class GameArrays(NamedTuple):
    """A batch of games: scores ψ, cost L and node weights w."""

    structure: Structure
    scores: ScoreArrays
    cost: Annotated[np.ndarray, Floats["labels", "labels"]]
    """(k, k) L, [predicted label, adversary's label]."""
    weight: Annotated[np.ndarray, Floats["nodes"]]
    """(N,) w."""


@struct
class Strategies(NamedTuple):
    """What both players play."""

    p: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the predictor."""
    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the adversary's node marginals."""
    q: Annotated[np.ndarray, Floats["slots", "labels", "labels"]]
    """(slots, k, k) its edge marginals [child, parent]."""


@struct
class Effort(NamedTuple):
    """When a solver stops, and how it ended."""

    allowed: Annotated[np.ndarray, Floats["samples"]]
    """(S,) the gap at which a game counts as solved."""
    max_iter: int
    check_every: int
    n_iter: Annotated[np.ndarray, Indices["samples"]]
    """(S,) out: iterations spent on each game."""
    exhausted: Annotated[np.ndarray, Flags["samples"]]
    """(S,) bool, out: True where the iterations ran out."""


@struct
class RelaxedPoint(NamedTuple):
    """What both players play in a relaxed game, and the prices of agreement on edges."""

    p: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the predictor."""
    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the adversary's node marginals."""
    q: Annotated[np.ndarray, Floats["slots", "labels", "labels"]]
    """(slots, k, k) its edge marginals [child, parent]."""
    u: Annotated[np.ndarray, Floats["slots", "*", "labels"]]
    """(slots, 2, k) multipliers of the child's and of the parent's margin of each edge."""

    @classmethod
    def empty(cls, n_nodes: int, n_slots: int, n_labels: int) -> "RelaxedPoint":
        """To be written before it is read."""
        k = n_labels
        p, r = np.empty((2, n_nodes, k))
        return cls(p, r, np.empty((n_slots, k, k)), np.empty((n_slots, 2, k)))


@struct
class CostArrays(NamedTuple):
    """A cost matrix with its closed form; see game/dual_decomposition.py."""

    kind: int
    place: Annotated[np.ndarray, Floats["labels"]]
    """(k,) places on a line (ABSOLUTE, SQUARED)."""
    order: Annotated[np.ndarray, Indices["labels"]]
    """(k,) labels by place."""
    unit: float
    """Cost of a mistake (ZERO_ONE)."""
    offset: Annotated[np.ndarray, Floats["labels"]]
    """(k,) what each column has been lowered by."""
    cost: Annotated[np.ndarray, Floats["labels", "labels"]]
    """(k, k) the matrix itself."""


class NodeScratch(NamedTuple):
    """Memory for the game on a node."""

    lines: np.ndarray
    """(3, k)."""
    payoff: np.ndarray
    """(k, k)."""
    tableau: np.ndarray
    """(k+1, k+1)."""
    square: np.ndarray
    """(k, k+1)."""
    labels: np.ndarray
    """(4, k) the last row of which is 0, 1, 2, ..."""


class Support(NamedTuple):
    """The labels that carried the last equilibrium on a node, tried first by the simplex method."""

    rows: np.ndarray
    """(k,) bool, the predictor's."""
    columns: np.ndarray
    """(k,) bool, the adversary's."""


@struct
class Prices(NamedTuple):
    """Dual decomposition: messages that price agreement, and what their steps have gathered."""

    u: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the messages, by the label of the parent."""
    alive: Annotated[np.ndarray, Flags["nodes", "labels"]]
    """(N, k) bool, labels that may be played at all."""
    size: Annotated[np.ndarray, Floats["nodes"]]
    """(N,) how far a message may sensibly move: the metric of its steps."""
    p: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the predictor of the node games."""
    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) their adversary."""
    p_sum: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) predictors weighted by the lengths of their steps."""
    r_sum: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) adversaries weighted alike."""
    mass: Annotated[np.ndarray, Floats["samples"]]
    """(S,) the weights in these sums."""
    p_best: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the predictor at the least value so far."""
    g_best: Annotated[np.ndarray, Floats["samples"]]
    """(S,) that value."""


@struct
class StepRule(NamedTuple):
    """How long subgradient steps are."""

    n_steps: int
    polyak: bool
    """step (g - target) / |slope|² if True, else step / |slope|."""
    step: Annotated[np.ndarray, Floats["samples"]]
    """(S,)."""
    longest: Annotated[np.ndarray, Floats["samples"]]
    """(S,) the most by which a step may change the messages."""
    target: Annotated[np.ndarray, Floats["samples"]]
    """(S,)."""


@struct
class Marginals(NamedTuple):
    """The adversary of forests: node marginals and, for the edge of each node, a list of pairs."""

    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) node marginals."""
    pair: Annotated[np.ndarray, Ints32["nodes", "room"]]
    """(N, capacity) int32, codes child label * k + parent label."""
    mass: Annotated[np.ndarray, Floats["nodes", "room"]]
    """(N, capacity) what the pairs carry."""
    count: Annotated[np.ndarray, Ints32["nodes"]]
    """(N,) int32, how many pairs there are."""


@struct
class Mixtures(NamedTuple):
    """The adversary of samples with cycles: a list of labellings with masses for each sample."""

    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) node marginals."""
    labelling: Annotated[np.ndarray, Indices["room", "nodes"]]
    """(capacity, N) labels: sample s has columns offsets[s] .. offsets[s+1]-1."""
    mass: Annotated[np.ndarray, Floats["samples", "room"]]
    """(S, capacity) what the labellings carry."""
    count: Annotated[np.ndarray, Indices["samples"]]
    """(S,) how many labellings there are."""


# ------------------------------------------------------------------------------------ sum-product


@struct
class Exponentials(NamedTuple):
    """Scores as exp relative to the largest: unary = top + log(exp), and so for tables."""

    unary: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k), the largest of each row 1."""
    top: Annotated[np.ndarray, Floats["nodes"]]
    """(N,)."""
    tables: Annotated[np.ndarray, Floats["tables", "labels", "labels"]]
    """(T, k, k), the largest of each table 1."""
    table_top: Annotated[np.ndarray, Floats["tables"]]
    """(T,)."""


class Messages(NamedTuple):
    """Scratch: messages from children to parents, for the nodes of a sample counted from 0."""

    inside: np.ndarray
    """(n, k) log-sum over labellings of a node's subtree with each label at the node."""
    relative: np.ndarray
    """(n, k) exp(inside - the largest of the row)."""
    total: np.ndarray
    """(n, k) relative times the exponentials of the table, or -1 where too small to trust."""
    message: np.ndarray
    """(n, k) its logarithm, with what was left out."""


@struct
class Gibbs(NamedTuple):
    """Out: the distribution exp(score) / Z of every sample, by its marginals."""

    log_partition: Annotated[np.ndarray, Floats["samples"]]
    """(S,) log Z; -inf where every labelling is forbidden."""
    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) node marginals."""
    q: Annotated[np.ndarray, Floats["slots", "labels", "labels"]]
    """(slots, k, k) edge marginals [child, parent], zero at roots; of length 0 if not wanted."""
    table_sums: Annotated[np.ndarray, Floats["tables", "labels", "labels"]]
    """(T, k, k) edge marginals times the share of their sample, added up by table."""


class BestLists(NamedTuple):
    """Scratch of the K best labellings on cliques: lists of scores and how they were made."""

    lists: np.ndarray
    """(k, K) the best scores with each label, descending."""
    sums: np.ndarray
    """(K,)."""
    left: np.ndarray
    """(children, k, K) which entry of the list before was added up."""
    right: np.ndarray
    """(children, k, K) with which entry of the child's message."""
    label: np.ndarray
    """(K,) the label of each entry of the lists merged."""
    rank: np.ndarray
    """(K,) its place in the list of that label."""
    pointer: np.ndarray
    """(the larger of k and K,)."""


# --------------------------------------------------------------------------------------- training


@struct
class Products(NamedTuple):
    """<row, row'> of the feature rows of every sample; of length 0 where they are not kept."""

    node_start: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) where the products of a sample's nodes begin."""
    table_start: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) and those of its tables."""
    nodes: Annotated[np.ndarray, Floats["kept"]]
    tables: Annotated[np.ndarray, Floats["*"]]

    @classmethod
    def none(cls, n_samples: int) -> "Products":
        """Not kept."""
        starts = np.zeros(n_samples + 1, np.intp)
        return cls(starts, starts, np.empty(0), np.empty(0))


@struct
class Visits(NamedTuple):
    """How samples are visited, and what the visits saw."""

    inner: int
    """Most steps of a visit."""
    rate: Annotated[np.ndarray, Floats["samples"]]
    """(S,) weight of the sample in the objective, divided by the penalty: 0 holds θ still."""
    products: Products
    gap: Annotated[np.ndarray, Floats["samples"]]
    """(S,) how far the adversary is from its best answer to the predictor."""
    predictor_regret: Annotated[np.ndarray, Floats["samples"]]
    """(S,) what the predictor gives away; both add up to the sample's share of the duality gap."""


@struct
class Move(NamedTuple):
    """Mass may go from one labelling of a sample to another."""

    best: Annotated[np.ndarray, Indices["at_once", "longest"]]
    """(n,) labels."""
    worst: Annotated[np.ndarray, Indices["at_once", "longest"]]
    """(n,) labels."""
    cost_margin: Annotated[np.ndarray, Floats["at_once", "longest"]]
    """(n,) what costs add to the score of best over that of worst."""


@struct
class PendingMoves(NamedTuple):
    """What threads share about the samples that step next, ``at_once`` of them."""

    counters: Annotated[np.ndarray, Ints64["*"]]
    """(3,) int64: samples taken, samples answered, samples that may be taken."""
    moves: Annotated[np.ndarray, Flags["at_once"]]
    """(at_once,) bool, whether a sample has a move."""
    move: Move
    """(at_once, longest) the move of each."""

    @classmethod
    def empty(cls, at_once: int, longest: int) -> "PendingMoves":
        """For samples of up to ``longest`` nodes."""
        best, worst = np.empty((2, at_once, longest), np.intp)
        move = Move(best, worst, np.empty((at_once, longest)))
        return cls(np.zeros(3, np.int64), np.empty(at_once, np.bool_), move)

    def begin(self, n_samples: int) -> "None":
        """Nobody has taken any of so many samples."""
        self.counters[:] = 0, 0, min(len(self.moves), n_samples)


@struct
class KeptRows(NamedTuple):
    """Rows of θ as they were before steps changed them, for whoever wants to undo that."""

    place: Annotated[np.ndarray, Ints32["rows"]]
    """(d,) int32, where each row is kept, -1 where it has not changed; (0,) if none are kept."""
    values: Annotated[np.ndarray, Floats["rows", "columns"]]
    """(d, columns of θ) by place."""
    count: Annotated[np.ndarray, Indices["*"]]
    """(1,) how many there are."""

    @classmethod
    def none(cls, n_rows: int, n_columns: int) -> "KeptRows":
        """For changes of up to ``n_rows`` rows of θ."""
        values = np.empty((n_rows, n_columns))  # takes memory as it is filled
        return cls(np.full(n_rows, -1, np.int32), values, np.zeros(1, np.intp))


@struct
class WeightChange(NamedTuple):
    """A change of θ in which few rows take part; all lines are free before and after a step."""

    line_of: Annotated[np.ndarray, Ints32["rows"]]
    """(d,) int32, the line of each row of θ, -1 where it has none."""
    row_of: Annotated[np.ndarray, Ints32["lines"]]
    """(lines,) int32, the row of each line."""
    values: Annotated[np.ndarray, Floats["lines", "columns"]]
    """(lines, columns of θ), zero where none is in use."""
    kept: KeptRows
    pace: Annotated[np.ndarray, Floats["paced"]]
    """(d,) how many times as far as a step says each row moves; (0,) if that is 1 for all."""

    @classmethod
    def none(cls, n_rows: int, lines: int, n_columns: int) -> "WeightChange":
        """For changes of up to ``lines`` rows of θ (n_rows, n_columns)."""
        lines = min(n_rows, lines)
        line_of, row_of = np.full(n_rows, -1, np.int32), np.empty(lines, np.int32)
        values, kept = np.zeros((lines, n_columns)), KeptRows.none(0, n_columns)
        return cls(line_of, row_of, values, kept, np.empty(0))


@struct
class WeightChanges(NamedTuple):
    """Scratch of a step: how it changes the weights of node and of edge features."""

    node: WeightChange
    edge: WeightChange


# ------------------------------------------------------------- one sample, counted from its node 0


class Sample(NamedTuple):
    """The structure of a sample: n nodes and m >= n slots, chords behind its nodes."""

    n: int
    m: int
    child: np.ndarray
    """(m,)."""
    parent: np.ndarray
    """(m,) -1 where there is no edge."""
    table_of: np.ndarray
    """(m,) the table of each slot, among those of all samples."""


@struct
class SampleScores(NamedTuple):
    """Scratch: the scores of a sample under θ, and with costs added."""

    unary: Annotated[np.ndarray, Floats["several", "nodes", "labels"]]
    """(n, k)."""
    augmented: Annotated[np.ndarray, Floats["several", "nodes", "labels"]]
    """(n, k) unary + w L'p."""
    tables: Annotated[np.ndarray, Floats["several", "tables", "labels", "labels"]]
    """(distinct tables, k, k) [child, parent]."""
    place: Annotated[np.ndarray, Indices["several", "slots"]]
    """(m,) which of the distinct tables scores a slot."""
    distinct: Annotated[np.ndarray, Indices["several", "tables"]]
    """(distinct tables,) their numbers among the tables of all samples."""

    @classmethod
    def empty(
        cls, n_samples: int, n_nodes: int, n_slots: int, n_tables: int, n_labels: int
    ) -> "SampleScores":
        """For several samples of up to so many nodes, slots and tables; the sample comes first."""
        k, n_tables = n_labels, min(n_slots, n_tables)
        return cls(
            np.empty((n_samples, n_nodes, k)),
            np.empty((n_samples, n_nodes, k)),
            np.empty((n_samples, n_tables, k, k)),
            np.empty((n_samples, n_slots), np.intp),
            np.empty((n_samples, n_tables), np.intp),
        )


class Components(NamedTuple):
    """Scratch: the connected components of the nodes where best and worst differ."""

    of_node: np.ndarray
    """(m,) the component of a node, -1 where both labellings agree, and behind the nodes."""
    of_edge: np.ndarray
    """(m,) the component that changes the edge in a slot, or -1."""
    items: np.ndarray
    """(m,) component by component the slots whose node or edge it changes."""
    start: np.ndarray
    """(components + 1,) where they begin in ``items``."""
    step: np.ndarray
    """(components,) how much mass each has moved."""
    number: np.ndarray
    """(1,) how many components there are."""

    @classmethod
    def empty(cls, n_slots: int) -> "Components":
        """For samples of up to so many slots."""
        of_node, of_edge, items = np.empty((3, n_slots), np.intp)
        start, number = np.empty(n_slots + 2, np.intp), np.zeros(1, np.intp)
        return cls(of_node, of_edge, items, start, np.empty(n_slots), number)


class Scratch(NamedTuple):
    """What a thread needs to work on a sample: made once, used for one sample after the other."""

    sample: Sample
    """Its structure."""
    place_of: np.ndarray
    """(T,) -1 before and after `gather_scores`."""
    messages: np.ndarray
    """(n, k)."""
    components: Components

    @classmethod
    def empty(cls, n_nodes: int, n_slots: int, n_tables: int, n_labels: int) -> "Scratch":
        """For samples of up to so many nodes and slots."""
        return cls(
            Sample(0, 0, *np.empty((3, n_slots), np.intp)),
            np.full(n_tables, -1, np.intp),
            np.empty((n_nodes, n_labels)),
            Components.empty(n_slots),
        )


@struct
class Ascent(NamedTuple):
    """What visits of samples work on, but for the adversary."""

    structure: Structure
    design: Design
    weights: Weights
    predictor: Predictor
    visits: Visits
    pending: PendingMoves
    scores: SampleScores
    """Of the samples that are worked on together, or of every thread's if a visit is one step."""
    changes: WeightChanges


# ------------------------------------------------------------------------- smooth training (T > 0)
#
# Rows over labels are padded to ``width``, a multiple of eight, so that loops over labels are whole
# vectors. A label that is forbidden, or that only pads, scores FORBIDDEN: a finite number that
# swallows whatever is added to it, so that differences of scores are 0 there and never NaN.
#
# A sample keeps one table per different row of edge features on its edges: its own tables, numbered
# from table_start[s]; they are indexed [label of the first node, label of the second], as users
# list edges. ``n`` counts the nodes of one sample, ``m`` its own tables.

FORBIDDEN = -1e30

NOBODY, TRUTH, FREE = 0, 1, 2  # who the predictor is


@struct
class LabelledGraphs(NamedTuple):
    """The graphs of all samples, with their own tables and the truth."""

    offsets: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) as in `Structure`, like the next three."""
    chord_offsets: Annotated[np.ndarray, Indices["samples + 1"]]
    child: Annotated[np.ndarray, Indices["slots"]]
    parent: Annotated[np.ndarray, Indices["slots"]]
    table: Annotated[np.ndarray, Indices["slots"]]
    """(slots,) which of the sample's own tables scores the edge in the slot."""
    transposed: Annotated[np.ndarray, Indices["slots"]]
    """(slots,) 1 where the edge was listed as (parent, child)."""
    table_start: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,)."""
    row: Annotated[np.ndarray, Indices["own_tables"]]
    """(tables,) the row of edge features behind each own table."""
    labels: Annotated[np.ndarray, Indices["nodes"]]
    """(N,) the truth."""


@struct
class PaddedRules(NamedTuple):
    """What is forbidden, to either player: 0 or FORBIDDEN, to be added."""

    node_kind: Annotated[np.ndarray, Indices["nodes"]]
    """(N,) the row of ``unary_mask`` for each node."""
    unary_mask: Annotated[np.ndarray, Singles["kinds", "width"]]
    """(kinds, width)."""
    pair_mask: Annotated[np.ndarray, Singles["labels", "width"]]
    """(k, width) [first, second label]."""


@struct
class SmoothProblem(NamedTuple):
    """The samples of smooth training, whatever the weights and the costs."""

    samples: LabelledGraphs
    features: Features
    rules: PaddedRules
    trees: JunctionTrees
    """Of samples with cycles; empty if there are none."""
    n_node_features: int


@struct
class PaddedWeights(NamedTuple):
    """θ for the time of visits, in float32."""

    rows: Annotated[np.ndarray, Singles["rows", "width"]]
    """(d + k e, width) of the features of nodes, then k of each of edges, by first label."""
    d: int


@struct
class PaddedCosts(NamedTuple):
    """The cost matrix L both ways, and the weights of the nodes."""

    of_labels: Annotated[np.ndarray, Singles["labels", "width"]]
    """(k, width) L transposed: Σ_b r_b of_labels[b] = L r."""
    of_predictor: Annotated[np.ndarray, Singles["labels", "width"]]
    """(k, width) L: Σ_a p_a of_predictor[a] = L'p."""
    weight: Annotated[np.ndarray, Singles["nodes"]]
    """(N,) w."""
    p0: Annotated[np.ndarray, Singles["*", "width"]]
    """(N, width) centre of the predictor; unused unless it is free."""


@struct
class ExactCosts(NamedTuple):
    """The same for certificates, in float64."""

    of_predictor: Annotated[np.ndarray, Floats["labels", "width"]]
    weight: Annotated[np.ndarray, Floats["nodes"]]
    p0: Annotated[np.ndarray, Singles["*", "width"]]


@struct
class SmoothSettings(NamedTuple):
    """Numbers of one pass."""

    temperature: float
    inv_mu: float
    """1 / mu of the predictor's centre."""
    player: int
    """NOBODY, TRUTH or FREE."""


@struct
class GibbsAdversary(NamedTuple):
    """Gibbs distributions of all samples: natural parameters, and what they amount to.

    Of each sample come rows of its nodes, then those of its own tables, one for each first label.
    """

    natural: Annotated[np.ndarray, Singles["rows", "width"]]
    """(N + k tables, width) natural parameters."""
    marginals: Annotated[np.ndarray, Singles["rows", "width"]]
    """(N + k tables, width) of nodes, and of edges added up by own table."""
    entropy: Annotated[np.ndarray, Floats["samples"]]
    """(S,)."""
    gamma: Annotated[np.ndarray, Singles["samples"]]
    """(S,) length of the last step, which the next one tries first."""


@struct
class Grams(NamedTuple):
    """Products of a sample's rows of features: of nodes (n, n) and of own tables (m, m).

    Samples with many nodes have no products of nodes, but numbers for the columns that they use.
    """

    node_start: Annotated[np.ndarray, Indices["samples + 1"]]
    nodes: Annotated[np.ndarray, Singles["*"]]
    table_start: Annotated[np.ndarray, Indices["samples + 1"]]
    tables: Annotated[np.ndarray, Singles["*"]]
    local: Annotated[np.ndarray, Ints32["*"]]
    """(entries,) the number of each entry's column in its sample; empty if nobody needs it."""
    n_columns: Annotated[np.ndarray, Indices["samples"]]
    """(S,) how many columns a sample without products uses, else 0."""


@struct
class VisitStats(NamedTuple):
    """What visits report, sample by sample."""

    gap: Annotated[np.ndarray, Floats["samples"]]
    """(S,) T KL(q | Gibbs distribution of the scores)."""
    predictor_regret: Annotated[np.ndarray, Floats["samples"]]
    """(S,) what the predictor gives away, Σ_i w_i (p'L r − min L r)."""
    regret: Annotated[np.ndarray, Floats["samples"]]
    """(S,) T log Z((θ·Φ + w L'p) / T) − θ·Φ(truth), the sample's part of the primal."""


@struct
class GibbsChanges(NamedTuple):
    """How the samples visited under the same θ change it, until this is applied in their order."""

    rows: Annotated[np.ndarray, Singles["rows", "width"]]
    """(at once * most rows, width) of nodes, then of own tables."""
    moved: Annotated[np.ndarray, Flags["at_once"]]
    """(at once,) whether there is a change."""


@struct
class SmoothCall(NamedTuple):
    """What the visits of smooth training take."""

    problem: SmoothProblem
    weights: PaddedWeights
    costs: PaddedCosts
    settings: SmoothSettings
    rates: Annotated[np.ndarray, Floats["samples"]]
    """(S,) weight of the sample in the objective, divided by the penalty."""
    adversary: GibbsAdversary
    grams: Grams
    changes: GibbsChanges
    stats: VisitStats


# ------------------------------------------------------------------------------ column files


@struct
class ColumnRules(NamedTuple):
    """How the lines of a column file are to be read."""

    most: int
    """Number of columns."""
    least: int
    """Another number that all tokens of a sentence may have."""
    only_tabs: bool
    """Whether each tab separates, and nothing else."""
    has_comments: bool
    comment: Annotated[np.ndarray, Bytes["mark"]]
    """What a line starts with that is no token, as it has no tab."""


@struct
class ColumnArrays(NamedTuple):
    """The tokens of some sentences, as places in a text."""

    begins: Annotated[np.ndarray, Indices["tokens", "columns"]]
    ends: Annotated[np.ndarray, Indices["tokens", "columns"]]
    """Equal to ``begins`` where a column is missing."""
    lines: Annotated[np.ndarray, Indices["tokens"]]
    """From 1."""
    offsets: Annotated[np.ndarray, Indices["sentences + 1"]]
    """Sentence s owns tokens offsets[s] .. offsets[s+1]-1."""
    widths: Annotated[np.ndarray, Indices["sentences"]]
    """Number of columns."""
    spans: Annotated[np.ndarray, Indices["sentences", "bounds"]]
    """(S, 2) where the lines of a sentence, comments included, begin and end in the text."""


@struct
class TemplateArrays(NamedTuple):
    """The lines of a template, and what their macros read at each token."""

    texts: Annotated[np.ndarray, Bytes["bytes"]]
    """All texts, literal ones and values of macros, one after the other."""
    offsets: Annotated[np.ndarray, Indices["texts + 1"]]
    """Text i is texts[offsets[i]:offsets[i+1]]."""
    codes: Annotated[np.ndarray, Ints32["macros", "tokens"]]
    """Which text each macro reads."""
    pieces: Annotated[np.ndarray, Ints32["pieces"]]
    """What lines consist of: i >= 0 is text i, i < 0 is macro -1-i."""
    line_offsets: Annotated[np.ndarray, Indices["lines + 1"]]
    """Line l consists of pieces line_offsets[l] .. line_offsets[l+1]-1."""
