"""What torch expects of a layer: autocast, other devices, compilation, several processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_cases import ASYMMETRIC

from robustruct.torch import ChainAGM, ChainCRF, adversarial_loss

KINDS = pytest.mark.parametrize("kind", [ChainAGM, ChainCRF])


class Tagger(torch.nn.Module):
    """A linear network with a layer on top."""

    def __init__(self, kind, **options) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 3)
        self.layer = kind(3, batch_first=True, **options)

    def forward(self, x, tags, mask=None):
        loss = self.layer(self.linear(x), tags, mask, reduction="mean")
        return loss if isinstance(self.layer, ChainAGM) else -loss


def batch(size: int = 4, time: int = 6):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, time, 5, generator=generator)
    tags = torch.randint(0, 3, (size, time), generator=generator)
    mask = torch.arange(time) < torch.tensor([6, 2, 4, 1])[:size, None]
    return x, tags, mask


def tagger(kind, **options) -> Tagger:
    torch.manual_seed(0)
    return Tagger(kind, **options)


@KINDS
def test_autocast_to_bfloat16_stays_close_and_finite(kind) -> None:
    model = tagger(kind, cost=ASYMMETRIC)
    x, tags, mask = batch()
    exact = model(x, tags, mask)
    with torch.autocast("cpu", torch.bfloat16):
        assert model.linear(x).dtype == torch.bfloat16
        loss = model(100 * x, tags, mask)
        near = model(x, tags, mask)
    assert near.dtype == torch.float32
    assert near.item() == pytest.approx(exact.item(), rel=0.02)
    loss.backward()
    for parameter in model.parameters():
        assert torch.isfinite(parameter.grad).all()


@KINDS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_layers_of_any_precision(kind, dtype) -> None:
    model = tagger(kind, cost=ASYMMETRIC + 0.1 - 0.1 * torch.eye(3).numpy()).to(dtype)
    x, tags, mask = batch()
    model(x.to(dtype), tags, mask).backward()
    assert model.layer.transitions.grad.dtype == dtype
    assert torch.isfinite(model.layer.transitions.grad).all()
    assert model.layer.cost[1, 0] == 5.1  # costs are not rounded with the weights
    assert model.layer.predict_proba(model.linear(x.to(dtype)), mask).dtype == dtype


@KINDS
def test_a_device_without_values_sees_only_shapes(kind) -> None:
    """No value is looked at on the way, so any device of torch will do."""
    model = tagger(kind, cost=ASYMMETRIC).to("meta")
    x, tags, mask = (value.to("meta") for value in batch())
    loss = model(x, tags, mask)
    assert loss.shape == ()
    assert loss.device.type == "meta"
    loss.backward()
    assert model.layer.transitions.grad.shape == (3, 3)
    tree = torch.zeros(6, dtype=torch.long, device="meta")
    unary, table = model.linear(x), model.layer.transitions
    assert adversarial_loss(unary, table, tree, tags, reduction="none").shape == (4,)


def test_the_operation_obeys_the_rules_of_torch() -> None:
    """Shapes without values, gradients and schema, by torch's own tests of operations."""
    unary, table = torch.randn(2, 3, 3), torch.randn(3, 3)
    unary, table = unary.requires_grad_(), table.requires_grad_()
    alive, tags = torch.ones(2, 3, dtype=torch.bool), torch.zeros(2, 3, dtype=torch.long)
    cost, weight = torch.tensor(ASYMMETRIC), torch.ones(2, 3)
    for parents in (None, torch.tensor([[-1, 0, 0], [-1, 0, 1]])):
        torch.library.opcheck(
            torch.ops.robustruct.structured_loss.default,
            (unary, table, parents, alive, tags, cost, weight, "game", 1.0, 1e-3, 50),
            test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
        )


def test_gradients_flow_into_a_network_that_learns() -> None:
    model = tagger(ChainAGM, cost=ASYMMETRIC)
    x, _, _ = batch()
    tags = (x[:, :, 0] > 0).long() + (x[:, :, 1] > 1).long()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = model(x, tags)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
@pytest.mark.filterwarnings("ignore")
@KINDS
def test_compiled_layers_give_the_same_without_a_graph_break(kind) -> None:
    model = tagger(kind, cost=ASYMMETRIC)
    x, tags, mask = batch()
    expected = model(x, tags, mask)
    expected.backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    torch.compiler.reset()
    found = torch.compile(model, fullgraph=True)(x, tags, mask)
    found.backward()
    torch.testing.assert_close(found, expected)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


IN_EACH_PROCESS = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from test_torch_habits import batch, tagger
from robustruct.torch import ChainAGM

torch.set_num_threads(1)
place, rank = "file://" + sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
model = DistributedDataParallel(tagger(ChainAGM))
x, tags, mask = (part.chunk(2)[dist.get_rank()] for part in batch())
model(x, tags, mask).backward()
if dist.get_rank() == 0:
    torch.save([p.grad for p in model.module.parameters()], sys.argv[3])
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    meeting, result = str(tmp_path / "meeting"), str(tmp_path / "gradients")
    here = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", IN_EACH_PROCESS, meeting, str(rank), result], env=environment
        )
        for rank in range(2)
    ]
    assert [process.wait(120) for process in started] == [0, 0]
    alone = tagger(ChainAGM)
    alone(*batch()).backward()
    for found, parameter in zip(torch.load(result), alone.parameters(), strict=True):
        torch.testing.assert_close(found, parameter.grad, rtol=1e-4, atol=1e-5)
