"""Structs of arrays that kernels take.

S samples, N nodes, C chords, T tables, k labels, d node features and e edge features. The arrays
come from graphs/batch.py, features/, game/ and optimizers/dual_variables.py. Index arrays are intp
unless they say int32.
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

# ------------------------------------------------------------------------------------------ input


@struct
class Structure(NamedTuple):
    """Graphs of a batch. Slot i < N holds the edge of node i to its parent; chords follow."""

    offsets: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) sample s owns nodes offsets[s] .. offsets[s+1]-1."""
    chord_offsets: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) and slots N + chord_offsets[s] .. N + chord_offsets[s+1]-1."""
    child: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) the child of the edge in a slot: i itself for slot i < N."""
    parent: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) the parent, larger than the child; -1 where there is no edge."""


@struct
class ScoreArrays(NamedTuple):
    """Scores ψ of a labelling, by node and by edge; -inf forbids."""

    unary: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k)."""
    tables: Annotated[np.ndarray, Floats["tables", "labels", "labels"]]
    """(T, k, k) [label of the child, label of the parent]."""
    table_of: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) table of the edge in each slot; unused where there is none."""


@struct
class JunctionTrees(NamedTuple):
    """Cliques of the triangulated graphs of a batch; see graphs/elimination.py."""

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
    """Feature rows behind the tables of edges."""

    table_of: Annotated[np.ndarray, Indices["slots"]]
    """(N+C,) the table of each slot."""
    row: Annotated[np.ndarray, Indices["tables"]]
    """(T,) the row of edge features behind a table."""
    transposed: Annotated[np.ndarray, Indices["tables"]]
    """(T,) 1 where the table [child, parent] is the transpose of [first, second], else 0."""


@struct
class Rules(NamedTuple):
    """Forbidden labels and pairs, as scores of 0 or -inf."""

    node_kind: Annotated[np.ndarray, Indices["nodes"]]
    """(N,) row of ``unary_mask``, for both players."""
    unary_mask: Annotated[np.ndarray, Floats["kinds", "labels"]]
    """(kinds, k)."""
    pair_mask: Annotated[np.ndarray, Floats["pairs"]]
    """(k * k,) [first * k + second label]."""


@struct
class Design(NamedTuple):
    """Structure, features and rules: all that maps weights to scores."""

    features: Features
    tables: TableRows
    rules: Rules


@struct
class Weights(NamedTuple):
    """Weights θ of node and of edge features."""

    node: Annotated[np.ndarray, Floats["node_rows", "labels"]]
    """(d, k)."""
    edge: Annotated[np.ndarray, Floats["edge_rows", "pairs"]]
    """(e, k * k) [feature, first * k + second label]."""


# -------------------------------------------------------------------------------- the two players


@struct
class Predictor(NamedTuple):
    """The predictor, held near a centre p0: see core/oracle.c."""

    cost: Annotated[np.ndarray, Floats["labels", "labels"]]
    """(k, k) L, [predicted label, adversary's label]."""
    cost_t: Annotated[np.ndarray, Floats["labels", "labels"]]
    """(k, k) L transposed."""
    spread: Annotated[np.ndarray, Floats["labels", "labels"]]
    """(k, k) Σ_a (L(a, y) - L(a, w) - mean)² / mu_a, the mean with weights 1 / mu_a.

    Curvature of the dual along e_y - e_w through the predictor's answer; the mean is subtracted
    because a cost that all labels share does not change the answer.
    """
    tolerance: float
    """Cost per node that counts as rounding."""
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
        """Derive transposed cost, spread and tolerance from the cost."""
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
    """Strategies of both players."""

    p: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the predictor."""
    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the adversary's node marginals."""
    q: Annotated[np.ndarray, Floats["slots", "labels", "labels"]]
    """(slots, k, k) its edge marginals [child, parent]."""


@struct
class Effort(NamedTuple):
    """Stopping rule of a solver, and how it ended."""

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
    """Strategies of both players in a relaxed game, and multipliers of edge consistency."""

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
        """Return uninitialised arrays."""
        k = n_labels
        p, r = np.empty((2, n_nodes, k))
        return cls(p, r, np.empty((n_slots, k, k)), np.empty((n_slots, 2, k)))


@struct
class SpanningForests(NamedTuple):
    """Spanning forests that cover each sample's edges; see core/spanning.c."""

    order: Annotated[np.ndarray, Indices["nodes"]]
    """(N,) positions of each sample's nodes, children before parents in all of its forests."""
    rows: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) rows[s+1] - rows[s] is the number of nodes of sample s times that of its forests."""


@struct
class SmoothGames(NamedTuple):
    """A batch of games whose predictor may have actions behind the labels."""

    structure: Structure
    scores: ScoreArrays
    cost: Annotated[np.ndarray, Floats["actions", "labels"]]
    """(m, k) L, [predicted label or action, adversary's label]."""
    weight: Annotated[np.ndarray, Floats["nodes"]]
    """(N,) w."""


@struct
class RelaxedGibbs(NamedTuple):
    """A relaxed game with an entropy: strategies, and multipliers of the forests' agreement."""

    p: Annotated[np.ndarray, Floats["nodes", "actions"]]
    """(N, m) the predictor."""
    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the adversary's node marginals."""
    q: Annotated[np.ndarray, Floats["slots", "labels", "labels"]]
    """(slots, k, k) its edge marginals [child, parent]."""
    multipliers: Annotated[np.ndarray, Floats["rows", "labels"]]
    """(rows, k) by node in the order of the forests, then by forest; they add up to 0."""


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
    """(k,) number subtracted from each column."""
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
    """(4, k), the last row 0, 1, 2, ..."""


class Support(NamedTuple):
    """Support of the last equilibrium on a node, which the simplex method tries first."""

    rows: np.ndarray
    """(k,) bool, the predictor's."""
    columns: np.ndarray
    """(k,) bool, the adversary's."""


@struct
class Prices(NamedTuple):
    """Messages of dual decomposition, with the averages and the best point of their steps."""

    u: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) messages, by label of the parent."""
    alive: Annotated[np.ndarray, Flags["nodes", "labels"]]
    """(N, k) bool, labels that may be played."""
    size: Annotated[np.ndarray, Floats["nodes"]]
    """(N,) scale of each message, the metric of its steps."""
    p: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the predictor of the node games."""
    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) their adversary."""
    p_sum: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) sum of predictors, weighted by the lengths of their steps."""
    r_sum: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) sum of adversaries, weighted alike."""
    mass: Annotated[np.ndarray, Floats["samples"]]
    """(S,) sum of these weights."""
    p_best: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) the predictor at the least value so far."""
    g_best: Annotated[np.ndarray, Floats["samples"]]
    """(S,) that value."""


@struct
class StepRule(NamedTuple):
    """Step lengths of the subgradient method."""

    n_steps: int
    polyak: bool
    """step (g - target) / |slope|² if True, else step / |slope|."""
    step: Annotated[np.ndarray, Floats["samples"]]
    """(S,)."""
    longest: Annotated[np.ndarray, Floats["samples"]]
    """(S,) most that a step may change the messages."""
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
    """(N, capacity) mass of each pair."""
    count: Annotated[np.ndarray, Ints32["nodes"]]
    """(N,) int32, number of pairs."""


@struct
class Mixtures(NamedTuple):
    """The adversary of samples with cycles: a list of labellings with masses for each sample."""

    r: Annotated[np.ndarray, Floats["nodes", "labels"]]
    """(N, k) node marginals."""
    labelling: Annotated[np.ndarray, Indices["room", "nodes"]]
    """(capacity, N) labels: sample s has columns offsets[s] .. offsets[s+1]-1."""
    mass: Annotated[np.ndarray, Floats["samples", "room"]]
    """(S, capacity) mass of each labelling."""
    count: Annotated[np.ndarray, Indices["samples"]]
    """(S,) number of labellings."""


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
    """(n, k) its logarithm, with the scale added."""


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
    """Scratch of the K best labellings on cliques: lists of scores with back pointers."""

    lists: np.ndarray
    """(k, K) the best scores with each label, descending."""
    sums: np.ndarray
    """(K,)."""
    left: np.ndarray
    """(children, k, K) entry of the list so far that was added."""
    right: np.ndarray
    """(children, k, K) entry of the child's message that was added."""
    label: np.ndarray
    """(K,) the label of each entry of the lists merged."""
    rank: np.ndarray
    """(K,) its place in the list of that label."""
    pointer: np.ndarray
    """(max(k, K),)."""


# --------------------------------------------------------------------------------------- training


@struct
class Products(NamedTuple):
    """Gram matrices of the feature rows of every sample; of length 0 if not computed."""

    node_start: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) where the products of a sample's nodes begin."""
    table_start: Annotated[np.ndarray, Indices["samples + 1"]]
    """(S+1,) where the products of its tables begin."""
    nodes: Annotated[np.ndarray, Floats["kept"]]
    tables: Annotated[np.ndarray, Floats["*"]]

    @classmethod
    def none(cls, n_samples: int) -> "Products":
        """Return empty products."""
        starts = np.zeros(n_samples + 1, np.intp)
        return cls(starts, starts, np.empty(0), np.empty(0))


@struct
class Visits(NamedTuple):
    """Settings of visits, and what they report."""

    inner: int
    """Most steps of a visit."""
    rate: Annotated[np.ndarray, Floats["samples"]]
    """(S,) share of the sample divided by alpha; 0 holds θ still."""
    products: Products
    gap: Annotated[np.ndarray, Floats["samples"]]
    """(S,) regret of the adversary against the predictor."""
    predictor_regret: Annotated[np.ndarray, Floats["samples"]]
    """(S,) regret of the predictor; both sum to the sample's part of the duality gap."""


@struct
class Move(NamedTuple):
    """A move of mass from one labelling of a sample to another."""

    best: Annotated[np.ndarray, Indices["at_once", "longest"]]
    """(n,) labels."""
    worst: Annotated[np.ndarray, Indices["at_once", "longest"]]
    """(n,) labels."""
    cost_margin: Annotated[np.ndarray, Floats["at_once", "longest"]]
    """(n,) difference that costs make to the scores of best and worst."""


@struct
class PendingMoves(NamedTuple):
    """Moves of the next ``at_once`` samples, shared by threads."""

    counters: Annotated[np.ndarray, Ints64["*"]]
    """(3,) int64: samples taken, samples answered, samples that may be taken."""
    moves: Annotated[np.ndarray, Flags["at_once"]]
    """(at_once,) bool, whether a sample has a move."""
    move: Move
    """(at_once, longest) the move of each."""

    @classmethod
    def empty(cls, at_once: int, longest: int) -> "PendingMoves":
        """Allocate for samples of up to ``longest`` nodes."""
        best, worst = np.empty((2, at_once, longest), np.intp)
        move = Move(best, worst, np.empty((at_once, longest)))
        return cls(np.zeros(3, np.int64), np.empty(at_once, np.bool_), move)

    def begin(self, n_samples: int) -> "None":
        """Reset the counters for n_samples samples."""
        self.counters[:] = 0, 0, min(len(self.moves), n_samples)


@struct
class KeptRows(NamedTuple):
    """Rows of θ before their first change, so that steps can be undone."""

    place: Annotated[np.ndarray, Ints32["rows"]]
    """(d,) int32, index of each saved row, -1 if unchanged; (0,) if rows are not saved."""
    values: Annotated[np.ndarray, Floats["rows", "columns"]]
    """(d, columns of θ) saved rows."""
    count: Annotated[np.ndarray, Indices["*"]]
    """(1,) number of saved rows."""

    @classmethod
    def none(cls, n_rows: int, n_columns: int) -> "KeptRows":
        """Allocate for changes of up to ``n_rows`` rows of θ."""
        values = np.empty((n_rows, n_columns))  # the system provides pages as they are filled
        return cls(np.full(n_rows, -1, np.int32), values, np.zeros(1, np.intp))


@struct
class WeightChange(NamedTuple):
    """A sparse change of θ, one line per changed row; no line is in use between steps."""

    line_of: Annotated[np.ndarray, Ints32["rows"]]
    """(d,) int32, line of each row of θ, -1 without one."""
    row_of: Annotated[np.ndarray, Ints32["lines"]]
    """(lines,) int32, the row of each line."""
    values: Annotated[np.ndarray, Floats["lines", "columns"]]
    """(lines, columns of θ), zero where none is in use."""
    kept: KeptRows
    pace: Annotated[np.ndarray, Floats["paced"]]
    """(d,) factor of the steps of each row; (0,) if it is 1 for all."""

    @classmethod
    def none(cls, n_rows: int, lines: int, n_columns: int) -> "WeightChange":
        """Allocate for changes of up to ``lines`` rows of θ (n_rows, n_columns)."""
        lines = min(n_rows, lines)
        line_of, row_of = np.full(n_rows, -1, np.int32), np.empty(lines, np.int32)
        values, kept = np.zeros((lines, n_columns)), KeptRows.none(0, n_columns)
        return cls(line_of, row_of, values, kept, np.empty(0))


@struct
class WeightChanges(NamedTuple):
    """Scratch of a step: changes of the weights of node and of edge features."""

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
    """(m,) index of each slot's table among the distinct ones."""
    distinct: Annotated[np.ndarray, Indices["several", "tables"]]
    """(distinct tables,) their numbers among the tables of all samples."""

    @classmethod
    def empty(
        cls, n_samples: int, n_nodes: int, n_slots: int, n_tables: int, n_labels: int
    ) -> "SampleScores":
        """Allocate for ``n_samples`` samples of at most these sizes."""
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
        """Allocate for samples of up to ``n_slots`` slots."""
        of_node, of_edge, items = np.empty((3, n_slots), np.intp)
        start, number = np.empty(n_slots + 2, np.intp), np.zeros(1, np.intp)
        return cls(of_node, of_edge, items, start, np.empty(n_slots), number)


class Scratch(NamedTuple):
    """Scratch of a thread, reused for one sample after the other."""

    sample: Sample
    """Its structure."""
    place_of: np.ndarray
    """(T,) -1 before and after `gather_scores`."""
    messages: np.ndarray
    """(n, k)."""
    components: Components

    @classmethod
    def empty(cls, n_nodes: int, n_slots: int, n_tables: int, n_labels: int) -> "Scratch":
        """Allocate for samples of at most these sizes."""
        return cls(
            Sample(0, 0, *np.empty((3, n_slots), np.intp)),
            np.full(n_tables, -1, np.intp),
            np.empty((n_nodes, n_labels)),
            Components.empty(n_slots),
        )


@struct
class Ascent(NamedTuple):
    """Arguments of visits, without the adversary."""

    structure: Structure
    design: Design
    weights: Weights
    predictor: Predictor
    visits: Visits
    pending: PendingMoves
    scores: SampleScores
    """Scores of the samples that are processed together; of each thread if a visit is one step."""
    changes: WeightChanges


# ------------------------------------------------------------------------- smooth training (T > 0)
#
# Rows over labels are padded to ``width``, a multiple of eight, so that loops over labels use whole
# vectors. Forbidden labels and padding score FORBIDDEN: a finite number that absorbs whatever is
# added to it, so that differences of scores are 0 there and never NaN.
#
# A sample has one table per distinct row of edge features on its edges: its own tables, numbered
# from table_start[s]; they are indexed [label of the first node, label of the second], as users
# list edges. ``n`` counts the nodes of one sample, ``m`` its own tables.

FORBIDDEN = -1e30  # far below any score; float32 holds sums of a hundred million of them

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
    """(slots,) own table of the edge in each slot."""
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
    """Masks for both players: 0 or FORBIDDEN, to be added to scores."""

    node_kind: Annotated[np.ndarray, Indices["nodes"]]
    """(N,) the row of ``unary_mask`` for each node."""
    unary_mask: Annotated[np.ndarray, Singles["kinds", "width"]]
    """(kinds, width)."""
    pair_mask: Annotated[np.ndarray, Singles["labels", "width"]]
    """(k, width) [first, second label]."""


@struct
class SmoothProblem(NamedTuple):
    """Samples of smooth training, without weights and costs."""

    samples: LabelledGraphs
    features: Features
    rules: PaddedRules
    trees: JunctionTrees
    """Junction trees of samples with cycles; empty without any."""
    n_node_features: int


@struct
class PaddedWeights(NamedTuple):
    """Copy of θ in float32 for visits."""

    rows: Annotated[np.ndarray, Singles["rows", "width"]]
    """(d + k e, width): a row per node feature, then k per edge feature, by first label."""
    d: int


@struct
class PaddedCosts(NamedTuple):
    """The cost matrix L and its transpose, and node weights."""

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
    """Costs for certificates, in float64."""

    of_predictor: Annotated[np.ndarray, Floats["labels", "width"]]
    weight: Annotated[np.ndarray, Floats["nodes"]]
    p0: Annotated[np.ndarray, Singles["*", "width"]]


@struct
class SmoothSettings(NamedTuple):
    """Scalar settings of one pass."""

    temperature: float
    inv_mu: float
    """1 / mu of the predictor's centre."""
    player: int
    """NOBODY, TRUTH or FREE."""


@struct
class GibbsAdversary(NamedTuple):
    """Gibbs distributions of all samples: natural parameters, marginals and entropies.

    Rows of a sample: one per node, then k per own table, one for each first label.
    """

    natural: Annotated[np.ndarray, Singles["rows", "width"]]
    """(N + k tables, width) natural parameters."""
    marginals: Annotated[np.ndarray, Singles["rows", "width"]]
    """(N + k tables, width) marginals of nodes, and of edges summed by own table."""
    entropy: Annotated[np.ndarray, Floats["samples"]]
    """(S,)."""
    gamma: Annotated[np.ndarray, Singles["samples"]]
    """(S,) length of the last step, the first trial of the next."""


@struct
class Grams(NamedTuple):
    """Gram matrices of a sample's feature rows: of nodes (n, n) and of own tables (m, m).

    Samples with many nodes have no Gram matrix of nodes, but numbers for the columns they use.
    """

    node_start: Annotated[np.ndarray, Indices["samples + 1"]]
    nodes: Annotated[np.ndarray, Singles["*"]]
    table_start: Annotated[np.ndarray, Indices["samples + 1"]]
    tables: Annotated[np.ndarray, Singles["*"]]
    local: Annotated[np.ndarray, Ints32["*"]]
    """(entries,) number of each entry's column in its sample; empty if not needed."""
    n_columns: Annotated[np.ndarray, Indices["samples"]]
    """(S,) number of columns that a sample without a Gram matrix uses, else 0."""


@struct
class VisitStats(NamedTuple):
    """Reports of visits, by sample."""

    gap: Annotated[np.ndarray, Floats["samples"]]
    """(S,) T KL(q | Gibbs distribution of the scores)."""
    predictor_regret: Annotated[np.ndarray, Floats["samples"]]
    """(S,) regret of the predictor, Σ_i w_i (p'L r − min L r)."""
    regret: Annotated[np.ndarray, Floats["samples"]]
    """(S,) T log Z((θ·Φ + w L'p) / T) − θ·Φ(truth), the sample's part of the primal."""


@struct
class GibbsChanges(NamedTuple):
    """Changes of θ by samples visited under the same θ, to be applied in order."""

    rows: Annotated[np.ndarray, Singles["rows", "width"]]
    """(at once * most rows, width): nodes, then own tables."""
    moved: Annotated[np.ndarray, Flags["at_once"]]
    """(at once,) whether the sample changes θ."""


@struct
class SmoothCall(NamedTuple):
    """Arguments of the visits of smooth training."""

    problem: SmoothProblem
    weights: PaddedWeights
    costs: PaddedCosts
    settings: SmoothSettings
    rates: Annotated[np.ndarray, Floats["samples"]]
    """(S,) share of the sample divided by alpha."""
    adversary: GibbsAdversary
    grams: Grams
    changes: GibbsChanges
    stats: VisitStats


# ------------------------------------------------------------------------------ column files


@struct
class ColumnRules(NamedTuple):
    """Parsing rules of a column file."""

    most: int
    """Number of columns."""
    least: int
    """Other allowed number of columns of a sentence."""
    only_tabs: bool
    """Whether single tabs separate columns, and nothing else."""
    has_comments: bool
    comment: Annotated[np.ndarray, Bytes["mark"]]
    """Prefix of comment lines, which have no tab."""


@struct
class ColumnArrays(NamedTuple):
    """Tokens of some sentences, as offsets into a text."""

    begins: Annotated[np.ndarray, Indices["tokens", "columns"]]
    ends: Annotated[np.ndarray, Indices["tokens", "columns"]]
    """Equal to ``begins`` where a column is missing."""
    lines: Annotated[np.ndarray, Indices["tokens"]]
    """Line numbers from 1."""
    offsets: Annotated[np.ndarray, Indices["sentences + 1"]]
    """Sentence s owns tokens offsets[s] .. offsets[s+1]-1."""
    widths: Annotated[np.ndarray, Indices["sentences"]]
    """Number of columns."""
    spans: Annotated[np.ndarray, Indices["sentences", "bounds"]]
    """(S, 2) where the lines of a sentence, comments included, begin and end in the text."""


@struct
class TemplateArrays(NamedTuple):
    """Lines of a template, and the texts that macros read at each token."""

    texts: Annotated[np.ndarray, Bytes["bytes"]]
    """All texts, literal ones and values of macros, one after the other."""
    offsets: Annotated[np.ndarray, Indices["texts + 1"]]
    """Text i is texts[offsets[i]:offsets[i+1]]."""
    codes: Annotated[np.ndarray, Ints32["macros", "tokens"]]
    """Text that each macro reads at each token."""
    pieces: Annotated[np.ndarray, Ints32["pieces"]]
    """Pieces of lines: i >= 0 is text i, i < 0 is macro -1-i."""
    line_offsets: Annotated[np.ndarray, Indices["lines + 1"]]
    """Line l consists of pieces line_offsets[l] .. line_offsets[l+1]-1."""
