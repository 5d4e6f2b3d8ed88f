"""How much faster than CRFsuite is the same quality on CoNLL-2000, in training and in prediction?

Run: ROBUSTRUCT_DATA=... python benchmarks/conll2000.py [--parts quality crf prediction]

8936 sentences, 22 labels, the attributes of the CRF++ chunking template; both sides start from
features in memory (ours: an encoded design; CRFsuite: after Trainer.append), and compiling is done
before. CRFsuite has one thread always. A ratio is our time over CRFsuite's, of the same run.

quality: an AGM (Hamming), stopped early at a certified gap of --tol or after --passes, against
    CRFsuite's L-BFGS (c2 = 1, its own stopping rule) and its averaged perceptron ("ap"). A ratio is
    given only where test loss and chunk F1 are as good as those of the other side. Bars: 1/30 of
    L-BFGS with one thread, 1/50 with two; ahead of "ap" in F1 in less time.
crf: our CRF until its objective is within 1e-4 of CRFsuite's final one. CRFsuite is told to use the
    features we have (a bias, and pairs of attribute and label that never occur): otherwise its
    optimum is a different one. Checked: our certified lower bound is below its objective. Bar: 1/2,
    with one thread. After the part "quality", "plain" compares with that run of CRFsuite, which has
    fewer weights: our whole time, and our time until the objective is as low as its.
prediction: best labellings of the test sentences under the weights of CRFsuite's L-BFGS, ours from
    an encoded design to lists of strings, theirs Tagger.tag on ItemSequences built before. Checked:
    the labellings score the same. Bar: 3 times the sentences a second.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite

from corpora import chunking_attributes, load_conll2000
from robustruct import AGM, CRF
from robustruct.inference import score_of
from robustruct.metrics import mean_loss, span_scores
from robustruct.objectives.adversarial import Problem
from robustruct.objectives.build import in_memory
from robustruct.optimizers import optimizer
from robustruct.optimizers.certificates import Progress, Record
from robustruct.optimizers.local_shards import LocalShards
from robustruct.validation import codes_of, in_user_form
from timing import Seconds, best_time, machine, rounded, show, timed

PARTS = ("quality", "crf", "prediction")
QUALITY_BARS = {1: 1 / 30, 2: 1 / 50}
CRF_BAR, CRF_SLACK = 1 / 2, 1e-4
PREDICTION_BAR = 3.0
C2 = 1.0
SAME_FEATURES = {"feature.possible_states": True, "feature.possible_transitions": True}


def assembled(model: Any, X: Any, y: Any) -> Problem:
    """The first half of ``fit``: checks and encoding, which the clock leaves out."""
    plan, problem = in_memory(model, X, y)
    for name, value in plan.learnt().items():
        setattr(model, name, value)
    model.decision_ = "map" if model.decision == "auto" else model.decision
    model.plan = plan
    return problem


def trained(
    model: Any, problem: Problem, watch: Callable[[Record, np.ndarray], bool] | None = None
) -> Progress:
    """The second half of ``fit``, with any other rule when to stop."""
    progress = Progress(problem, model.tol, watch)
    shards = LocalShards.of(problem)
    model._chosen_optimizer(shards, model.plan).minimise(
        optimizer.Task(shards, progress, model.max_iter, seed=0)
    )
    model.coef_ = progress.theta
    return progress


@dataclass(frozen=True)
class CRFsuite:
    """A model that CRFsuite trained."""

    seconds: Seconds
    objective: float | None
    """Σ −log p(y | x) + c2 |weights|², as it reports it; None for the perceptron."""
    n_weights: int
    file: str

    def tagger(self) -> pycrfsuite.Tagger:
        tagger = pycrfsuite.Tagger()
        tagger.open(self.file)
        return tagger


@dataclass(frozen=True)
class Task:
    """Attributes and labels to train on and to test on."""

    X: list[Any]
    y: list[np.ndarray]
    X_test: list[Any]
    y_test: list[np.ndarray]
    items: list[pycrfsuite.ItemSequence]
    """The test sentences as CRFsuite takes them."""
    folder: Path

    def by_crfsuite(
        self, algorithm: str, params: dict[str, Any], extra: Sequence[str] = ()
    ) -> CRFsuite:
        """The clock runs while CRFsuite trains; ``extra`` attributes are added to every token."""
        trainer = pycrfsuite.Trainer(algorithm, params, verbose=False)
        for sample, labels in zip(self.X, self.y, strict=True):
            tokens = [[*token, *extra] for token in sample] if extra else sample
            trainer.append(tokens, labels.tolist())
        file = str(self.folder / f"{algorithm}-{len(params)}")
        _, seconds = timed(lambda: trainer.train(file))
        log = trainer.logparser
        return CRFsuite(
            seconds, log.last_iteration.get("loss"), int(log.featgen_num_features), file
        )

    @cached_property
    def lbfgs(self) -> CRFsuite:
        """L-BFGS as users run it; several parts ask for it."""
        return self.by_crfsuite("lbfgs", {"c1": 0.0, "c2": C2})

    def tagged(self, peer: CRFsuite) -> list[np.ndarray]:
        tagger = peer.tagger()
        return [np.array(tagger.tag(items)) for items in self.items]

    def quality(self, predicted: Sequence[np.ndarray]) -> tuple[float, float]:
        """(test Hamming loss, chunk F1)."""
        classes = np.unique(np.concatenate([*self.y, *self.y_test]))
        loss = mean_loss(self.y_test, predicted, "hamming", classes=classes)
        return loss, span_scores(self.y_test, predicted)[0].f1


def compare_quality(task: Task, args: argparse.Namespace) -> list[dict[str, Any]]:
    peers = {"CRFsuite L-BFGS": task.lbfgs, "CRFsuite ap": task.by_crfsuite("ap", {})}
    reached = {name: task.quality(task.tagged(peer)) for name, peer in peers.items()}
    rows = [
        {"model": name, "threads": 1, **peer.seconds.columns(), **qualities(*reached[name])}
        for name, peer in peers.items()
    ]
    for threads in args.threads:
        model = AGM(
            alpha=args.alpha, tol=args.tol, max_iter=args.passes, n_jobs=threads, random_state=0
        )
        problem = assembled(model, task.X, task.y)
        progress, seconds = timed(lambda m=model, p=problem: trained(m, p))
        assert progress.dual <= progress.primal, (progress.dual, progress.primal)
        loss, f1 = task.quality(model.predict(task.X_test))
        row = {
            "model": "AGM",
            "threads": threads,
            **seconds.columns(),
            **qualities(loss, f1),
            "passes": progress.n_iter,
            "gap": rounded(progress.gap, 2),
        }
        for name, peer in peers.items():
            short = name.split()[1]
            as_good = loss <= reached[name][0] and f1 >= reached[name][1]
            if name == "CRFsuite ap":
                as_good = f1 > reached[name][1]
            ratios = (seconds.wall / peer.seconds.wall, seconds.cpu / peer.seconds.cpu)
            row[f"as good as {short}"] = as_good
            row[f"ratio to {short}"] = rounded(ratios[0], 3) if as_good else None
            row[f"cpu ratio to {short}"] = rounded(ratios[1], 3) if as_good else None
        row["bar to L-BFGS"] = rounded(QUALITY_BARS.get(threads, QUALITY_BARS[1]), 3)
        rows.append(row)
    return rows


def qualities(loss: float, f1: float) -> dict[str, float]:
    return {"test_loss": round(loss, 5), "chunk_F1": round(f1, 5)}


def compare_crf(task: Task, args: argparse.Namespace) -> list[dict[str, Any]]:
    theirs = task.by_crfsuite("lbfgs", {"c1": 0.0, "c2": C2, **SAME_FEATURES}, ["(bias)"])
    assert theirs.objective is not None
    n = len(task.X)
    goal = theirs.objective / n
    model = CRF(alpha=2 * C2 / n, tol=0.0, n_jobs=1)
    problem = assembled(model, task.X, task.y)
    progress, seconds = timed(
        lambda: trained(model, problem, lambda at, _: at.primal <= (1 + CRF_SLACK) * goal)
    )
    assert progress.primal <= (1 + CRF_SLACK) * goal, (progress.primal, goal)
    assert progress.dual <= goal * (1 + 1e-6), ("not the same objective", progress.dual, goal)
    rows = [
        {
            "model": "CRFsuite L-BFGS, our features",
            "threads": 1,
            **theirs.seconds.columns(),
            "objective": round(theirs.objective, 3),
            "weights": theirs.n_weights,
        },
        {
            "model": "CRF",
            "threads": 1,
            **seconds.columns(),
            "objective": round(n * progress.primal, 3),
            "weights": problem.n_weights,
            "evaluations": progress.n_iter,
            "ratio": rounded(seconds.wall / theirs.seconds.wall, 3),
            "cpu ratio": rounded(seconds.cpu / theirs.seconds.cpu, 3),
            "bar": CRF_BAR,
        },
    ]
    if "lbfgs" in vars(task):  # run for another part: fewer weights, hence a higher optimum
        plain = task.lbfgs
        assert plain.objective is not None
        passed = (at.time for at in progress.history if n * at.primal <= plain.objective)
        reached = next(passed, None)
        rows.insert(1, {"model": "CRFsuite L-BFGS", "threads": 1, **plain.seconds.columns()})
        rows[1] |= {"objective": round(plain.objective, 3), "weights": plain.n_weights}
        rows[-1]["ratio to plain"] = rounded(seconds.wall / plain.seconds.wall, 3)
        if reached is not None:
            rows[-1]["s to plain objective"] = rounded(reached, 3)
            rows[-1]["ratio there"] = rounded(reached / plain.seconds.wall, 3)
    return rows


def weights_of(model: Any, peer: CRFsuite) -> np.ndarray:
    """CRFsuite's weights in our order; what it has none for is zero."""
    k = len(model.classes_)
    code = {label: a for a, label in enumerate(model.classes_.tolist())}
    row = {name: i for i, name in enumerate(model._space.node_feature_names)}
    theta = np.zeros(len(row) * k + k * k)
    info = peer.tagger().info()
    for (name, label), weight in info.state_features.items():
        theta[row[name] * k + code[label]] = weight
    for (before, after), weight in info.transitions.items():
        theta[(len(row) + code[before]) * k + code[after]] = weight
    return theta


def compare_prediction(task: Task, args: argparse.Namespace) -> list[dict[str, Any]]:
    peer = task.lbfgs
    model = CRF(decision="map")
    problem = assembled(model, task.X, task.y)
    model.coef_ = weights_of(model, peer)
    assert len(model.coef_) == problem.n_weights
    design = model._space.encode(task.X_test)

    def labelled() -> list[np.ndarray]:
        codes = model._decide(model._scores(design))
        return in_user_form(model.classes_[codes], design.batch, False)

    def scored(labels: list[np.ndarray]) -> np.ndarray:
        codes = design.batch.from_user(codes_of(labels, model.classes_))
        return score_of(model._scores(design), codes)

    best, tagged = scored(labelled()), scored(task.tagged(peer))
    np.testing.assert_allclose(best, tagged, rtol=1e-9, atol=1e-9)
    tagger, n = peer.tagger(), len(task.items)
    rows: list[dict[str, Any]] = []

    def measure(name: str, threads: int, work: Callable[[], object]) -> None:
        rate = n / best_time(work, args.repeat)
        row = {"model": name, "threads": threads, "sentences per second": round(rate)}
        if rows:
            row["times as fast"] = rounded(rate / rows[0]["sentences per second"], 3)
            row["bar"] = PREDICTION_BAR
        rows.append(row)

    measure("CRFsuite", 1, lambda: [tagger.tag(items) for items in task.items])
    for threads in args.threads:
        model.n_jobs = threads
        measure("robustruct", threads, labelled)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--limit", type=int, help="train on the first so many sentences only")
    parser.add_argument("--alpha", type=float, default=3e-4, help="penalty of the AGM")
    parser.add_argument("--tol", type=float, default=0.2, help="gap at which the AGM stops")
    parser.add_argument("--passes", type=int, default=8, help="passes after which the AGM stops")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of our side")
    parser.add_argument("--repeat", type=int, default=7, help="predictions, the fastest counts")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of tables")
    args = parser.parse_args()
    about = machine("python-crfsuite")
    train, test = (load_conll2000(split) for split in ("train", "test"))
    train = train.subset(slice(args.limit))
    X, X_test = ([chunking_attributes(s) for s in data.X] for data in (train, test))
    for threads in {1, *args.threads}:  # compiles
        for model in (AGM(tol=0.5, n_jobs=threads), CRF(tol=0.5, n_jobs=threads)):
            model.fit(X[:200], train.y[:200]).predict(X_test[:10])
    with tempfile.TemporaryDirectory() as folder:
        items = [pycrfsuite.ItemSequence(sample) for sample in X_test]
        task = Task(X, train.y, X_test, test.y, items, Path(folder))
        compare = {
            "quality": compare_quality,
            "crf": compare_crf,
            "prediction": compare_prediction,
        }
        for part in [name for name in PARTS if name in args.parts]:
            rows = [{"part": part, **row} for row in compare[part](task, args)]
            show(rows, {**about, "sentences": len(X)}, args.json)


if __name__ == "__main__":
    main()
