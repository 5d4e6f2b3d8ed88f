"""Layers of robustruct.torch beside pytorch-crf: forward and backward, time and peak memory.

Run: python benchmarks/torch_layers.py [--json] [--threads 2]. Needs the extra torch, and
pytorch-crf. Every layer has the same weights; values and gradients of ChainCRF are compared with
pytorch-crf's, those of ChainAGM with the games that its exported model certifies, before anything
is timed. Layers are timed in turn, so that whatever else the machine does slows all of them alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torchcrf import CRF

from robustruct.torch import ChainAGM, ChainCRF
from timing import machine, rounded, show

BATCH, TIME, TAGS = 32, 50, 20
ROUNDS, THREADS = 20, 2


def sample(scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Emissions and tags; the larger the scale, the surer the emissions are of the tags."""
    generator = torch.Generator().manual_seed(0)
    tags = torch.randint(0, TAGS, (TIME, BATCH), generator=generator)
    noise = torch.randn(TIME, BATCH, TAGS, generator=generator)
    return noise + scale * torch.nn.functional.one_hot(tags, TAGS), tags


def layers() -> dict[str, torch.nn.Module]:
    torch.manual_seed(0)
    peer = CRF(TAGS)
    missed = 1.0 - np.eye(TAGS)
    missed[1:, 0] = 5.0
    found: dict[str, torch.nn.Module] = {
        "pytorch-crf": peer,
        "ChainCRF": ChainCRF(TAGS),
        "ChainAGM, temperature 1": ChainAGM(TAGS),
        "ChainAGM, temperature 1, a miss costs 5": ChainAGM(TAGS, missed),
        "ChainAGM, temperature 0.3": ChainAGM(TAGS, temperature=0.3),
    }
    for layer in found.values():
        layer.load_state_dict(peer.state_dict())
    return found


def step(layer: torch.nn.Module, emissions: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
    """One forward and one backward pass; the loss."""
    layer.zero_grad()
    emissions.grad = None
    loss = layer(emissions, tags)
    loss = loss if isinstance(layer, ChainAGM) else -loss
    loss.backward()
    return loss.detach()


def check(found: dict[str, torch.nn.Module], emissions: torch.Tensor, tags: torch.Tensor) -> None:
    """Wrong answers are not timed."""
    gradients = {}
    for name in ("pytorch-crf", "ChainCRF"):
        loss = step(found[name], emissions, tags)
        weights = [parameter.grad.clone() for parameter in found[name].parameters()]
        gradients[name] = [loss, emissions.grad.clone(), *weights]
    for one, other in zip(*gradients.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    for layer in found.values():
        if not isinstance(layer, ChainAGM):
            continue
        model = layer.export()
        X = layer.export_samples(emissions)
        games = model.predict_games(X, tol=1e-5)
        truth = model.log_score(X, list(tags.T.numpy()))
        expected = np.array([game.lower for game in games]) - truth
        with torch.no_grad():
            losses = layer(emissions, tags, reduction="none").double().numpy()
        spread = float(layer.cost.max()) * TIME
        excess = (losses - expected) / spread
        assert excess.min() > -1e-4, excess.min()
        assert excess.max() < layer.tol + 1e-4, excess.max()


def peak_memory(call: Callable[[], Any]) -> int:
    """The most bytes that tensors take at once, beyond those at the start."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        call()
    now = most = 0
    for event in sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


def rows(scale: float) -> list[dict[str, Any]]:
    found = layers()
    emissions, tags = sample(scale)
    emissions.requires_grad_()
    check(found, emissions, tags)
    times: dict[str, list[float]] = {name: [] for name in found}
    busy: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(ROUNDS):
        for name, layer in found.items():
            start, cpu = time.perf_counter(), time.process_time()
            step(layer, emissions, tags)
            times[name].append(time.perf_counter() - start)
            busy[name].append(time.process_time() - cpu)
    base = times["pytorch-crf"]
    memory = {
        name: peak_memory(lambda layer=layer: step(layer, emissions, tags))
        for name, layer in found.items()
    }
    return [
        {
            "emissions lead by": scale,
            "layer": name,
            "best ms": rounded(1e3 * min(taken), 3),
            "median ms": rounded(1e3 * statistics.median(taken), 3),
            "of pytorch-crf, best": rounded(min(taken) / min(base), 2),
            "of pytorch-crf, median": rounded(
                statistics.median(t / b for t, b in zip(taken, base, strict=True)), 2
            ),
            "cpu ms": rounded(1e3 * min(busy[name]), 3),
            "peak MB": rounded(memory[name] / 1e6, 3),
        }
        for name, taken in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=THREADS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="where received a uint8 condition")
    torch.set_num_threads(arguments.threads)
    about = {**machine("torch", "pytorch-crf"), "threads": arguments.threads}
    about["batch x time x tags"] = f"{BATCH} x {TIME} x {TAGS}"
    show([row for scale in (0.0, 3.0) for row in rows(scale)], about, arguments.json)


if __name__ == "__main__":
    main()
