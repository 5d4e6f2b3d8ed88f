"""The public way to solve games: check the input, let a solver play, certify what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from robustruct.arrays import as_floats
from robustruct.errors import IncompatibleError, InvalidInputError, shown
from robustruct.game.game import Game, Play
from robustruct.game.rectangular import padded, without_twins
from robustruct.game.solver import GameSolver
from robustruct.game.solvers import as_solver
from robustruct.graphs import Batch, checked_edges
from robustruct.inference import best_labelling, without_impossible
from robustruct.losses import predicted_first
from robustruct.scores import Scores
from robustruct.status import Status

LARGEST = 1e100  # beyond it, squares and sums of scores and costs come near the end of float64


@dataclass(frozen=True, eq=False)
class GameSolution:
    """Equilibrium of one game, with the proof of how good it is.

    ``lower <= V <= upper`` always holds: both bounds are recomputed from the strategies returned.
    """

    value: float
    """Midpoint of the bounds."""
    lower: float
    upper: float
    predictor: np.ndarray
    """(n, k) distribution over labels on each node; with further actions in the cost (n, m)."""
    adversary_nodes: np.ndarray
    """(n, k) the adversary's node marginals."""
    adversary_edges: np.ndarray
    """(m, k, k) its edge marginals, [edge, label of edges[e, 0], label of edges[e, 1]]."""
    status: Status
    n_iter: int
    solver: str
    """Name of the solver that ran."""
    relaxed: bool = False
    """True for ``solver="relaxed"``: the bounds are those of the relaxed game, whose value is at
    least that of the exact one; ``upper`` holds for both."""

    @property
    def gap(self) -> float:
        return self.upper - self.lower


def solve_game(
    unary: Any,
    edges: Any,
    pairwise: Any,
    cost: Any,
    node_weight: Any = None,
    solver: str | GameSolver = "auto",
    tol: float = 1e-6,
    *,
    temperature: float = 0.0,
    warm_start: GameSolution | None = None,
) -> GameSolution:
    """Solve one game between a predictor and an adversary.

    Neither player plays a label that cannot occur at a node: one that is in no labelling without
    scores of -inf. (On a graph too wide for exact inference, one whose own score is -inf.)

    Parameters
    ----------
    unary : array-like of shape (n, k)
        Score of each label of each node; -inf forbids a label.
    edges : array-like of shape (m, 2)
        Pairs of nodes. With cycles, time and memory grow as k^(treewidth + 1).
    pairwise : array-like of shape (m, k, k)
        Score of [label of edges[e, 0], label of edges[e, 1]]; -inf forbids a pair.
    cost : array-like of shape (k, k) or (k, m)
        Any finite numbers; rows: true label, which is the adversary's, columns: predicted label.
        Columns behind the k labels are further actions of the predictor, open to it at every node,
        such as asking a person.
    node_weight : array-like of shape (n,), optional
        Weight of each node's cost; 1 by default.
    solver : str or GameSolver
        "auto", "interior_point", "pairwise", "dual_decomposition" or "linear_program", or a solver
        object with its own options. On graphs with cycles "auto", "pairwise" and "linear_program",
        and "relaxed" where these would take too much memory: it lets the adversary play edge
        marginals that agree on every node but need not belong to one distribution.
    tol : float
        Gap at which to stop, relative to the range of the cost: (max - min of ``cost``) times the
        sum of the node weights.
    temperature : float
        Weight T of the adversary's entropy, in the units of the cost: above 0 the game is about the
        cost plus T times the log loss of a forecast, its value is smooth in the scores and the
        adversary unique. A model has the T of its games in
        ``absolute_temperature_``.
    warm_start : GameSolution, optional
        Solution of a similar game on the same graph.

    Examples
    --------
    Two labels, a mistake on the second costs more:

    >>> solution = solve_game([[0.0, 0.0]], [], [], [[0, 1], [3, 0]])
    >>> print(round(solution.value, 6), solution.predictor.round(3))
    0.75 [[0.25 0.75]]
    """
    starts = None if warm_start is None else [warm_start]
    weights = None if node_weight is None else [node_weight]
    return solve_games(
        [unary], [edges], [pairwise], cost, weights, solver, tol, temperature=temperature,
        warm_start=starts,
    )[0]  # fmt: skip


def solve_games(
    unary: Sequence[Any],
    edges: Sequence[Any],
    pairwise: Sequence[Any],
    cost: Any,
    node_weight: Sequence[Any] | None = None,
    solver: str | GameSolver = "auto",
    tol: float = 1e-6,
    *,
    temperature: float = 0.0,
    warm_start: Sequence[GameSolution] | None = None,
    n_jobs: int | None = -1,
) -> list[GameSolution]:
    """Solve many games with one cost matrix; arguments as in `solve_game`, one item per game."""
    game = _checked_game(unary, edges, pairwise, cost, node_weight)
    _check_number(temperature, "temperature", "the weight of the adversary's entropy", " (0: none)")
    if temperature > 0:
        _check_temperature(game, temperature)
        return smooth_solutions(game, temperature, solver, tol, n_jobs)
    play = solve_batch(
        game, solver, tol, None if warm_start is None else _as_play(game, warm_start), n_jobs
    )
    return solutions(game, play, tol, n_jobs)


def solve_batch(
    game: Game,
    solver: str | GameSolver = "auto",
    tol: float = 1e-6,
    start: Play | None = None,
    n_jobs: int | None = -1,
) -> Play:
    """Feasible strategies for every game of a batch."""
    _check_tol(tol)
    chosen, square = as_solver(solver), game.square
    reason = chosen.refusal(square)
    if reason is not None:
        raise IncompatibleError(f"solver {chosen.name!r} cannot take this game: {reason}.")
    if square is not game and start is not None:
        r, q = padded(start.r, start.q, len(game.cost))
        start = replace(start, r=r, q=q)
    play = chosen.play(square, tol, start, n_jobs)
    play.repair(square, n_jobs)
    return play if square is game else without_twins(game, play)


def smooth_solutions(
    game: Game,
    temperature: float,
    solver: str | GameSolver = "auto",
    tol: float = 1e-6,
    n_jobs: int | None = -1,
) -> list[GameSolution]:
    """Solutions of the smooth games, T > 0."""
    from robustruct.game.relaxed_smooth import play_relaxed_smooth
    from robustruct.game.smooth import play_smooth

    if solver not in ("auto", "relaxed"):
        raise IncompatibleError(
            f"solver={solver!r} solves games of temperature 0; for temperature={temperature:g} "
            "leave solver at 'auto', or use 'relaxed' on graphs with cycles."
        )
    _check_tol(tol)
    batch = game.scores.batch
    wide = batch.n_chords > 0 and not batch.buckets.fit(game.scores.n_labels).all()
    playing = play_relaxed_smooth if wide or solver == "relaxed" else play_smooth
    play, lower, upper = playing(game, temperature, tol, n_jobs)
    return _as_solutions(game, play, lower, upper, tol)


def _check_tol(tol: Any) -> None:
    """Nothing is ever within NaN: solvers would go on to the last of their steps."""
    _check_number(tol, "tol", "the gap at which to stop, relative to the range of the cost")


def _check_number(value: Any, name: str, meaning: str, note: str = "") -> None:
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not (known and 0 <= value < np.inf):
        raise InvalidInputError(
            f"{name}={shown(value)}; it is {meaning}, a finite number >= 0{note}."
        )


def solutions(game: Game, play: Play, tol: float, n_jobs: int | None = -1) -> list[GameSolution]:
    """The strategies of each game in the user's order, with the bounds they prove."""
    return _as_solutions(game, play, *play.bounds(game, n_jobs), tol)


def _as_solutions(
    game: Game, play: Play, lower: np.ndarray, upper: np.ndarray, tol: float
) -> list[GameSolution]:
    batch = game.scores.batch
    p, r = batch.split_nodes(batch.to_user(play.p)), batch.split_nodes(batch.to_user(play.r))
    q = batch.split_edges(batch.edges_to_user(play.q))
    solved = upper - lower <= game.allowed_gap(tol)
    solutions = []
    for s in range(batch.n_samples):
        if solved[s]:
            status = Status.CONVERGED
        else:
            status = Status.MAX_ITER if play.exhausted[s] else Status.STALLED
        solutions.append(
            GameSolution(
                value=float(lower[s] + upper[s]) / 2,
                lower=float(lower[s]),
                upper=float(upper[s]),
                predictor=p[s],
                adversary_nodes=r[s],
                adversary_edges=q[s],
                status=status,
                n_iter=int(play.n_iter[s]),
                solver=play.solver,
                relaxed=play.relaxed_bounds is not None,
            )
        )
    return solutions


def _as_play(game: Game, solutions: Sequence[GameSolution]) -> Play:
    batch = game.scores.batch
    for solution in solutions:
        if not isinstance(solution, GameSolution):
            raise InvalidInputError(f"warm_start={shown(solution)}; give a GameSolution.")
    p = batch.from_user(np.concatenate([s.predictor for s in solutions]))
    r = batch.from_user(np.concatenate([s.adversary_nodes for s in solutions]))
    edges = np.concatenate([s.adversary_edges for s in solutions])
    if p.shape != (batch.n_nodes, len(game.cost)) or len(edges) != batch.n_edges:
        raise InvalidInputError(
            "warm_start comes from a game of another shape; pass the solution of a game with the "
            "same nodes, edges and labels."
        )
    n_samples = batch.n_samples
    return Play(
        p.copy(),
        r.copy(),
        batch.edges_from_user(edges),
        np.zeros(n_samples, np.intp),
        np.zeros(n_samples, bool),
        "warm start",
    )


def _checked_game(
    unary: Sequence[Any],
    edges: Sequence[Any],
    pairwise: Sequence[Any],
    cost: Any,
    node_weight: Sequence[Any] | None,
) -> Game:
    if not len(unary):
        raise InvalidInputError("no game given; unary is an empty list.")
    for field, items in (("edges", edges), ("pairwise", pairwise), ("node_weight", node_weight)):
        if items is not None and len(items) != len(unary):
            raise InvalidInputError(
                f"{field} has {len(items)} items but unary has {len(unary)}; give one per game."
            )
    costs, least, most = _numbers(cost, "cost")
    k = costs.shape[0] if costs.ndim else 0
    dearest = max(-least, most)
    if costs.ndim != 2 or k == 0 or costs.shape[1] < k or dearest == np.inf:
        raise InvalidInputError(
            f"cost has shape {costs.shape}; it must be a matrix of finite numbers with a row for "
            "each label and a column for each, and for further actions of the predictor."
        )
    structures, nodes, tables, weights, forbids = [], [], [], [], False
    for g in range(len(unary)):
        where = f"game {g}: "
        u, worst, _ = _numbers(unary[g], where + "unary")
        if u.ndim != 2 or u.shape[1] != k or len(u) == 0:
            raise InvalidInputError(
                f"{where}unary has shape {u.shape}; expected (n_nodes, {k}), as cost has {k} rows."
            )
        try:
            e = checked_edges(edges[g], len(u))
        except InvalidInputError as error:
            raise error.at(f"game {g}", sample=g, field="edges") from None
        b, worst_pair, _ = _numbers(pairwise[g], where + "pairwise")
        forbids = forbids or min(worst, worst_pair) == -np.inf
        b = b.reshape(0, k, k) if b.size == 0 else b
        if b.shape != (len(e), k, k):
            raise InvalidInputError(
                f"{where}pairwise has shape {b.shape}; expected ({len(e)}, {k}, {k}): one table "
                "per edge."
            )
        if node_weight is not None:
            w, lightest, _ = _numbers(node_weight[g], where + "node_weight")
            if w.shape != (len(u),) or not lightest >= 0:
                raise InvalidInputError(
                    f"{where}node_weight must hold {len(u)} finite numbers >= 0, one per node."
                )
            _check_size(w * dearest, where + "node_weight times cost")
            weights.append(w)
        structures.append((len(u), e))
        nodes.append(u)
        tables.append(b)
    batch = Batch.build(structures)
    scores = Scores.arranged(batch, _joined(nodes), _joined(tables))
    if forbids:
        _check_some_labelling_is_allowed(scores)
        scores = without_impossible(scores)
    weight = np.ones(batch.n_nodes)
    if node_weight is not None:
        weight = np.ascontiguousarray(batch.from_user(_joined(weights)))
    return Game(scores, predicted_first(costs), weight)


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _check_some_labelling_is_allowed(scores: Scores) -> None:
    b = scores.batch
    if b.n_chords and not b.buckets.fit(scores.n_labels).all():
        # Only a relaxed solver can take it, whose lower bound may then be -inf.
        owner = np.searchsorted(b.node_offsets, b.child, side="right") - 1
        barred = (scores.unary == -np.inf).all(axis=1)
        barred_edge = (scores.tables == -np.inf).all(axis=(1, 2))[scores.table_of]
        value = np.zeros(b.n_samples)
        value[owner[: b.n_nodes][barred]] = -np.inf
        value[owner[barred_edge & (b.parent >= 0)]] = -np.inf
    else:
        value = best_labelling(scores)[1]
    if (value == -np.inf).any():
        raise InvalidInputError(
            f"game {int(value.argmin())}: every labelling is forbidden by scores of -inf; allow at "
            "least one."
        )


def _check_size(values: np.ndarray, field: str) -> None:
    size = np.abs(values[values > -np.inf]).max(initial=0.0)
    if size > LARGEST:
        raise InvalidInputError(
            f"{field} holds numbers as large as {size:.3g}, whose sums and squares may overflow; "
            f"at most {LARGEST:g} is accepted. Divide scores and costs by a common factor: the "
            "value of the game is then divided by it too."
        )


def _check_temperature(game: Game, temperature: float) -> None:
    scores, tables = game.scores.unary, game.scores.tables
    sizes = [np.abs(some[some > -np.inf]).max(initial=0.0) for some in (scores, tables)]
    size = max(*sizes, float(np.abs(game.cost).max() * game.weight.max()))
    if size > LARGEST * temperature:
        raise InvalidInputError(
            f"temperature={temperature:g} is too small for scores and costs as large as {size:.3g}:"
            f" these may be {LARGEST:g} times the temperature at most. Use temperature=0, which is "
            "as good as that."
        )


def _numbers(values: Any, field: str) -> tuple[np.ndarray, float, float]:
    """An array of float64 with the least and the largest number in it, 0 if there are none."""
    array = as_floats(values, field)
    if not array.size:
        return array, 0.0, 0.0
    least = float(np.minimum.reduce(array, axis=None))
    most = float(np.maximum.reduce(array, axis=None))
    # NaN is in no range; -inf is outside of this one, but may be all right.
    if not (least >= -LARGEST and most <= LARGEST):
        if np.isnan(array).any() or (array == np.inf).any():
            raise InvalidInputError(
                f"{field} holds NaN or +inf; scores are finite, or -inf to forbid."
            )
        _check_size(array, field)
    return array, least, most
