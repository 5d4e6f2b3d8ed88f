"""Table 1 of the paper: emotion intensity, six losses, twenty splits; AGM, CRF and SSVM.

Needs the environment variable ROBUSTRUCT_DATA. All three models have the same features and node
weights (of sum 1 in each sequence, equal or growing with the position). Penalty and decision are
chosen for each loss and model on the 120 training sequences of split 1 alone: by five-fold
cross-validation, four times with other folds, or (--selection holdout, as in the paper) by the loss
on the last 36 of them after training on the first 84. Penalties run over half-decades from 1000
down, for all models until two decades have brought no improvement. An AGM may decide by MAP or by
its probabilistic predictor, a CRF by the Bayes rule or by MAP, an SSVM by MAP alone. Beside the
three are AGM and CRF with either decision, each with the penalty that suits it.

Two options go past the paper, for all models alike. --features shared: weights for each kind of
emotion, as in the paper, and beside them weights that all kinds share. --ordered: what is known
about the labels, that the intensity never decreases, becomes a rule of every model.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corpora import emotion_splits, load_emotion
from protocol import (
    KINDS,
    SIGNIFICANCE,
    Experiment,
    Key,
    Result,
    best_or_as_good,
    certificate,
    mean_and_error,
    options,
    wilcoxon_p,
    worst_gaps,
)
from robustruct import Graph
from robustruct.datasets import Dataset, position_weights
from robustruct.metrics import mean_loss
from tables import LOOK, MODELS, Table, bold, new_figure, save

LOSSES = tuple(
    (loss, weights)
    for weights in ("equal", "position")
    for loss in ("hamming", "absolute", "squared")
)
NAMES = {"hamming": "zero-one", "equal": "unweighted", "position": "weighted"}
PAPER = dict(
    zip(
        LOSSES,
        [
            {"AGM": 0.34, "CRF": 0.32, "SSVM": 0.37},
            {"AGM": 0.33, "CRF": 0.34, "SSVM": 0.40},
            {"AGM": 0.38, "CRF": 0.38, "SSVM": 0.40},
            {"AGM": 0.28, "CRF": 0.32, "SSVM": 0.29},
            {"AGM": 0.29, "CRF": 0.36, "SSVM": 0.29},
            {"AGM": 0.36, "CRF": 0.40, "SSVM": 0.33},
        ],
        strict=True,
    )
)
STRONGEST, PATIENCE = 1000.0, 4  # half-decades without improvement that end a search
DECISIONS = {"AGM": ("map", "predictor"), "CRF": ("bayes", "map"), "SSVM": ("map",)}
VARIANTS = {model: (model, decisions) for model, decisions in DECISIONS.items()} | {
    "AGM MAP": ("AGM", ("map",)),
    "AGM predictor": ("AGM", ("predictor",)),
    "CRF Bayes": ("CRF", ("bayes",)),
    "CRF MAP": ("CRF", ("map",)),
}
Choice = tuple[float, str]
"""A penalty and a decision."""
FIT_SHARE = 0.7  # 84 sequences to fit, 36 to validate
N_FOLDS, N_REPEATS = 5, 4
FEATURES = ("paper", "shared")
N_EMOTIONS = 6
DECREASES = ((2, 1), (3, 1), (3, 2))
TOL = {"AGM": 0.01, "CRF": 1e-4, "SSVM": 0.01}
MAX_ITER = 10_000


@functools.cache
def data(features: str = "paper") -> Dataset:
    """The sequences, loaded once in each process."""
    found = load_emotion()
    if features == "paper":
        return found
    return replace(found, X=[with_shared(graph) for graph in found.X])


def with_shared(graph: Graph) -> Graph:
    """The sequence with all measurements once more, in columns for all kinds of emotion."""
    return Graph(_shared(graph.node_features), graph.edges, _shared(graph.edge_features))


def _shared(rows: np.ndarray) -> np.ndarray:
    own = rows.reshape(len(rows), N_EMOTIONS, -1).sum(axis=1)  # other kinds' columns are zero
    return np.hstack([rows, own[:, :-1]])  # the last is constant; every model has a constant


def node_weights(y: Any, weights: str) -> list[np.ndarray]:
    """Weights of sum 1 in each sequence."""
    if weights == "position":
        return position_weights(y)
    return [np.full(len(labels), 1 / len(labels)) for labels in y]


def new_model(key: Key, **options: Any) -> Any:
    """A model of the key's kind and loss."""
    name = key["model"]
    options |= {"tol": TOL[name], "max_iter": MAX_ITER, "random_state": 0, "standardize": False}
    if key["ordered"]:
        options["constraints"] = DECREASES
    return KINDS[name](key["loss"], **options)


def fit_and_test(model: Any, key: Key, train: np.ndarray, test: np.ndarray) -> Result:
    """One fit, from the last one if there is any: its certificate, and what each decision loses."""
    sequences = data(key["features"])
    known, new = sequences.subset(train), sequences.subset(test)
    weights = node_weights(known.y, key["weights"])
    model.fit(known.X, known.y, node_weight=weights, warm_start=True)
    weights = node_weights(new.y, key["weights"])
    losses = {}
    for decision in DECISIONS[key["model"]]:
        labels = model.set_params(decision=decision).predict(new.X, weights)
        losses[decision] = mean_loss(new.y, labels, model.loss, weights, average="sample")
    return {"losses": losses} | certificate(model)


# ------------------------------------------------------------------------------- pieces of work


def folds(selection: str, limit: int | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Parts to fit and to validate on, out of the training sequences of split 1 alone."""
    sequences = emotion_splits()[0][0][:limit]
    if selection == "holdout":
        n_fit = round(FIT_SHARE * len(sequences))
        return [(sequences[:n_fit], sequences[n_fit:])]
    fold_of = np.arange(len(sequences)) % N_FOLDS
    orders = [np.random.default_rng(seed).permutation(fold_of) for seed in range(N_REPEATS)]
    return [(sequences[o != f], sequences[o == f]) for o in orders for f in range(N_FOLDS)]


def penalty(step: int) -> float:
    """Half-decades down from the strongest penalty, rounded to one digit."""
    return float(f"{STRONGEST / 10 ** (step / 2):.1g}")


def neighbours(alpha: float) -> tuple[float, float]:
    """The penalties half a decade stronger and weaker."""
    step = round(2 * np.log10(STRONGEST / alpha))
    return penalty(step - 1), penalty(step + 1)


def validated(key: Key) -> Result:
    """Mean validation loss of one penalty after the other, from strong to weak.

    The search ends when no decision has improved for ``PATIENCE`` half-decades: the best is then
    not the weakest. Each fit starts from the weights before.
    """
    parts = folds(key["selection"], key["limit"])
    models = [new_model(key) for _ in parts]
    decisions = DECISIONS[key["model"]]
    tried: list[Result] = []
    best, waited, step = dict.fromkeys(decisions, np.inf), 0, 0
    while waited < PATIENCE:
        alpha = penalty(step)
        fits = [
            fit_and_test(model.set_params(alpha=alpha), key, *part)
            for model, part in zip(models, parts, strict=True)
        ]
        losses = {d: float(np.mean([fit["losses"][d] for fit in fits])) for d in decisions}
        tried.append(max(fits, key=lambda fit: fit["gap"]) | {"losses": losses})
        improved = any(losses[d] < best[d] for d in decisions)
        best = {d: min(best[d], losses[d]) for d in decisions}
        waited, step = 0 if improved else waited + 1, step + 1
    return {"path": tried}


def tested(key: Key) -> Result:
    """Test losses of one penalty on one split, of all decisions."""
    train, test = emotion_splits()[key["split"] - 1]
    return fit_and_test(new_model(key, alpha=key["alpha"]), key, train[: key["limit"]], test)


def choices_of(validation: list[Result]) -> dict[tuple[str, str], dict[str, Choice]]:
    """For each loss and variant what has the least validation loss; the strongest among equals."""
    paths = {(r["loss"], r["weights"], r["model"]): r["path"] for r in validation}
    chosen: dict[tuple[str, str], dict[str, Choice]] = {place: {} for place in LOSSES}
    for place in LOSSES:
        for variant, (model, decisions) in VARIANTS.items():
            tried = [(fit, decision) for fit in paths[*place, model] for decision in decisions]
            fit, decision = min(tried, key=lambda pair: pair[0]["losses"][pair[1]])
            chosen[place][variant] = fit["alpha"], decision
    return chosen


# --------------------------------------------------------------------------------------- report


def losses_of(
    tests: list[Result], place: tuple[str, str], model: str, choice: Choice
) -> list[float]:
    """Test losses of a model with a penalty and a decision, in the order of the splits."""
    alpha, decision = choice
    found = {
        r["split"]: r["losses"][decision]
        for r in tests
        if (r["loss"], r["weights"]) == place and (r["model"], r["alpha"]) == (model, alpha)
    }
    return [found[split] for split in sorted(found)]


def test_losses(
    tests: list[Result], choices: dict
) -> dict[tuple[str, str], dict[str, list[float]]]:
    """For each loss and variant the test losses of the splits."""
    return {
        place: {
            variant: losses_of(tests, place, model, choices[place][variant])
            for variant, (model, _) in VARIANTS.items()
        }
        for place in LOSSES
    }


def shown(place: tuple[str, str]) -> str:
    loss, weights = place
    return f"{NAMES.get(loss, loss)}, {NAMES[weights]}"


def table_of_losses(losses: dict, task: Key, caption: str) -> Table:
    """The paper's table, its numbers beside ours."""
    beyond = {"shared features": task["features"] == "shared", "ordered labels": task["ordered"]}
    also = "".join(f", {name}" for name, used in beyond.items() if used)
    n_splits = len(losses[LOSSES[0]]["AGM"])
    rows, wins = [], dict.fromkeys(MODELS, 0)
    for place in LOSSES:
        winners = best_or_as_good({name: losses[place][name] for name in MODELS})
        for name in winners:
            wins[name] += 1
        cells = []
        for name in VARIANTS:
            mean, error = mean_and_error(losses[place][name])
            cells.append(bold(f"{mean:.3f} ± {error:.3f}", name in winners))
        paper = [f"{PAPER[place][name]:.2f}" for name in MODELS]
        rows.append([shown(place), *cells, " / ".join(paper)])
    average = [np.mean([losses[place][name] for place in LOSSES]) for name in VARIANTS]
    paper = [np.mean([PAPER[place][name] for place in LOSSES]) for name in MODELS]
    rows.append(["average", *(f"{v:.3f}" for v in average), " / ".join(f"{v:.2f}" for v in paper)])
    others = [""] * (len(VARIANTS) - len(MODELS))
    rows.append(["in bold", *(str(wins[name]) for name in MODELS), *others, "4 / 2 / 2"])
    columns = ["loss", *VARIANTS, "paper: " + " / ".join(MODELS)]
    title = f"Mean test loss over {n_splits} splits ± standard error{also}"
    return Table(title, columns, rows, caption)


def table_of_choices(losses: dict, choices: dict) -> Table:
    """Penalties and decisions chosen, and the tests of the AGM against the others."""
    rows = []
    for place in LOSSES:
        agm = losses[place]["AGM"]
        found = [choices[place][name] for name in VARIANTS]
        row = [shown(place), ", ".join(f"{alpha:g} {decision}" for alpha, decision in found[:3])]
        row.append(" / ".join(f"{alpha:g}" for alpha, _ in found[3:]))
        for other in ("CRF", "SSVM"):
            p = wilcoxon_p(agm, losses[place][other])
            difference = float(np.mean(agm) - np.mean(losses[place][other]))
            row.append(bold(f"{difference:+.3f}, p = {p:.2g}", p < SIGNIFICANCE))
        rows.append(row)
    three, others = list(VARIANTS)[:3], list(VARIANTS)[3:]
    columns = ["loss", ", ".join(three), "alpha: " + " / ".join(others), "AGM − CRF", "AGM − SSVM"]
    caption = "In bold: significant at 0.05 (Wilcoxon signed-rank test over splits, two-sided)."
    return Table("Penalties and decisions chosen, and differences", columns, rows, caption)


def table_of_neighbours(tests: list[Result], choices: dict) -> Table:
    """What the penalties next to those chosen would have given: how sharp the choice is."""
    rows = []
    for place in LOSSES:
        row = [shown(place)]
        for name in MODELS:
            alpha, decision = choices[place][name]
            chosen = np.array(losses_of(tests, place, name, (alpha, decision)))
            for other in neighbours(alpha):
                beside = losses_of(tests, place, name, (other, decision))
                difference, error = mean_and_error(np.array(beside) - chosen)
                row.append(f"{difference:+.3f} ± {error:.3f}")
        rows.append(row)
    columns = ["loss"] + [f"{name}, {side}" for name in MODELS for side in ("stronger", "weaker")]
    caption = (
        "Difference of test loss to the penalty chosen ± standard error over splits. Looked at "
        "after all choices were made, to know how much of a difference between models they explain."
    )
    return Table("The penalties half a decade beside those chosen", columns, rows, caption)


def verdict(losses: dict, choices: dict) -> dict[str, Any]:
    """How the AGM compares with the two others, and whether the search was wide enough."""
    worse, better, clearly_better = [], [], []
    for place in LOSSES:
        agm, others = losses[place]["AGM"], [losses[place][name] for name in ("CRF", "SSVM")]
        tests = [(np.mean(agm) - np.mean(o), wilcoxon_p(agm, o) < SIGNIFICANCE) for o in others]
        if any(difference > 0 and significant for difference, significant in tests):
            worse.append(shown(place))
        if all(difference < 0 for difference, _ in tests):
            better.append(shown(place))
        if all(difference < 0 and significant for difference, significant in tests):
            clearly_better.append(shown(place))
    return {
        "AGM_average": float(np.mean([losses[place]["AGM"] for place in LOSSES])),
        "AGM_significantly_worse_than_one": worse,
        "AGM_better_than_both": better,
        "AGM_significantly_better_than_both": clearly_better,
        "chose_the_strongest_penalty": [
            f"{shown(place)}: {variant}"
            for place, chosen in choices.items()
            for variant, (alpha, _) in chosen.items()
            if alpha == STRONGEST
        ],
    }


def draw(losses: dict, file: Any) -> None:
    """Every split as a dot, means with standard errors, the paper's means as diamonds."""
    figure, axes = new_figure(2, 3, sharey=True)
    rng = np.random.default_rng(0)
    for panel, place in zip(axes.flat, LOSSES, strict=True):
        for x, name in enumerate(MODELS):
            values, color = losses[place][name], LOOK[name]["color"]
            spread = x + rng.uniform(-0.15, 0.15, len(values))
            panel.plot(spread, values, ".", color=color, alpha=0.3, markersize=4)
            mean, error = mean_and_error(values)
            panel.errorbar(x, mean, error, color=color, marker=LOOK[name]["marker"], capsize=3)
            paper = PAPER[place][name]
            panel.plot(x + 0.3, paper, "D", markerfacecolor="none", color="0.4", markersize=5)
        panel.set_title(shown(place), fontsize=9)
        panel.set_xticks(range(len(MODELS)), MODELS)
    for panel in axes[:, 0]:
        panel.set_ylabel("test loss", fontsize=8)
    figure.suptitle("Emotion intensity: dots are splits, diamonds the paper's means", fontsize=9)
    save(figure, file)


def task_of(args: argparse.Namespace) -> Key:
    """What all pieces of a run have in common."""
    return {name: getattr(args, name) for name in ("features", "ordered", "limit")}


def run_choice(experiment: Experiment) -> list[Result]:
    """Search a penalty for every loss and model; nothing if one is given."""
    args = experiment.args
    if args.alpha is not None:
        return []
    keys = [
        {"task": "choose", "selection": args.selection, "model": name}
        | {"loss": loss, "weights": weights}
        | task_of(args)
        for name in MODELS
        for loss, weights in LOSSES
    ]
    return experiment.run(validated, keys, "choosing alpha on split 1")


def run_tests(experiment: Experiment, choices: dict) -> list[Result]:
    """Fit with the penalties chosen, on all splits; with --neighbours also with those beside."""
    args = experiment.args
    wanted = {
        (alpha, loss, weights, VARIANTS[variant][0])
        for (loss, weights), chosen in choices.items()
        for variant, (alpha, _) in chosen.items()
    }
    if args.neighbours:
        wanted |= {
            (alpha, loss, weights, name)
            for (loss, weights), chosen in choices.items()
            for name in MODELS
            for alpha in neighbours(chosen[name][0])
        }
    keys = [
        {"task": "test", "split": split, "model": name, "alpha": alpha}
        | {"loss": loss, "weights": weights}
        | task_of(args)
        for alpha, loss, weights, name in sorted(wanted)  # the longest fits first
        for split in range(1, args.splits + 1)
    ]
    return experiment.run(tested, keys, "training and testing")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("emotion", __doc__)
    parser.add_argument("--splits", type=int, default=20, help="the first N of the 20 splits")
    parser.add_argument(
        "--selection", choices=("cv", "holdout"), default="cv", help="how alpha is chosen"
    )
    parser.add_argument("--features", choices=FEATURES, default="paper")
    parser.add_argument("--ordered", action="store_true", help="labels may not decrease")
    parser.add_argument("--alpha", type=float, help="one penalty for all models: a quick look")
    parser.add_argument(
        "--neighbours", action="store_true", help="test also half a decade beside the choices"
    )
    args = parser.parse_args(arguments)
    search = {"folds": [N_FOLDS, N_REPEATS], "strongest": STRONGEST, "patience": PATIENCE}
    experiment = Experiment(args, {"tol": TOL, "max_iter": MAX_ITER} | search)

    validation = run_choice(experiment)
    if validation:
        choices = choices_of(validation)
    else:
        first = {name: (args.alpha, decisions[0]) for name, (_, decisions) in VARIANTS.items()}
        choices = dict.fromkeys(LOSSES, first)
    tests = run_tests(experiment, choices)
    losses = test_losses(tests, choices)
    draw(losses, experiment.figure_file)

    tried = [fit | {"model": r["model"]} for r in validation for fit in r["path"]]
    caption = (
        "In bold: the best of AGM, CRF and SSVM and what is not significantly worse. "
        f"Certified, final fits: {worst_gaps(tests)}. Choice of alpha: {worst_gaps(tried)}."
    )
    found = verdict(losses, choices)
    tables = [table_of_losses(losses, task_of(args), caption), table_of_choices(losses, choices)]
    if args.neighbours:
        tables.append(table_of_neighbours(tests, choices))
    experiment.report(
        tables,
        {
            "verdict": found,
            "choices": {shown(place): chosen for place, chosen in choices.items()},
            "test_losses": {shown(place): values for place, values in losses.items()},
            "validation": validation,
            "tests": tests,
        },
    )
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
