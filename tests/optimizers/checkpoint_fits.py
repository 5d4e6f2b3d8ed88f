"""A process that fits models in forks of itself, for the tests of checkpoints to kill.

It reads one JSON object a line: the model, its parameters, where the outcome goes, and what is to
go wrong. For each it forks, answers with the fork's id, and with its status once it is over. So
every fit has a process of its own, and compiled code is loaded once for all.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import warnings
from typing import Any

from robustruct import AGM, CRF, SSVM, Checkpoint
from robustruct.datasets import make_chains
from robustruct.formats import container

MODELS = {"AGM": AGM, "CRF": CRF, "SSVM": SSVM}


def outcome(model: Any) -> dict[str, Any]:
    """All that two equal fits have in common, in numbers that JSON keeps exactly."""
    records = [[at.n_iter, at.primal, at.dual, at.gap] for at in model.history_]
    return {
        "coef": model.coef_.tolist(),
        "objective": model.objective_,
        "gap": model.duality_gap_,
        "history": records,
    }


def at_write(number: int, action: Any) -> None:
    """Have ``action`` happen in the given write, when the file is complete but has no name yet."""
    plain, written = container._flush, 0

    def flush(path: str) -> None:
        nonlocal written
        written += 1
        plain(path)
        if written == number:
            action()

    container._flush = flush


def die() -> None:
    """As if the power failed."""
    os.kill(os.getpid(), signal.SIGKILL)


def fill_the_disk() -> None:
    """From now on no file may be longer than 1000 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, LIMITS[1]))


def samples(n_samples: int) -> tuple[Any, Any]:
    """From 200 samples on, there is enough work for two threads."""
    found = make_chains(n_samples=n_samples, n_nodes=20, n_features=6)
    return found.X, found.y


def fit(
    model: str,
    parameters: dict[str, Any],
    checkpoint: dict[str, Any] | None,
    n_samples: int,
    out: str,
    fault: list[Any] | None,
) -> None:
    """Fit, and write the outcome or the error."""
    X, y = samples(n_samples)
    if fault is not None:
        at_write(fault[1], {"die": die, "fill_the_disk": fill_the_disk}[fault[0]])
    try:
        kept = checkpoint and Checkpoint(**checkpoint)
        found = outcome(MODELS[model](**parameters).fit(X, y, checkpoint=kept))
    except OSError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, LIMITS)
        found = {"error": str(error)}
    with open(out, "w") as file:
        json.dump(found, file)


def serve() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")  # few passes, no small gap
    for model in MODELS.values():
        model(alpha=0.1, max_iter=2).fit(*samples(10))
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            fit(**json.loads(line))
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    LIMITS = resource.getrlimit(resource.RLIMIT_FSIZE)
    serve()
