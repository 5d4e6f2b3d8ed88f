"""Values and gradients of the losses, held against enumeration and certified games."""

import numpy as np
import pytest
import torch
from torch_cases import (
    ASYMMETRIC,
    chain_edges,
    game,
    gibbs_by_enumeration,
    mean_mistake,
    random_chain,
    tree_edges,
)

from robustruct.errors import InvalidInputError
from robustruct.testing.oracles import all_labellings, full_game_value, labelling_score
from robustruct.torch import adversarial_loss, crf_loss, ssvm_loss

HAMMING = 1.0 - np.eye(3)
TIGHT = {"tol": 1e-9, "max_iter": 20_000}
PARENTS = [2, 2, -1, 2, 3, -1]  # two trees, nodes in no order


def gradients(loss: torch.Tensor, *inputs: torch.Tensor) -> list[np.ndarray]:
    return [found.numpy() for found in torch.autograd.grad(loss, inputs)]


def one_hot(tags: np.ndarray, k: int) -> np.ndarray:
    return np.eye(k)[tags]


def test_crf_loss_and_gradient_are_those_of_enumeration() -> None:
    unary, table, tags = random_chain(0)
    unary.requires_grad_()
    table.requires_grad_()
    loss = crf_loss(unary[None], table, None, tags[None])
    by_unary, by_table = gradients(loss, unary, table)
    edges, y = chain_edges(5), tags.numpy()
    tables = [table.detach().numpy()] * 4
    log_z, nodes, pairs = gibbs_by_enumeration(unary.detach().numpy(), edges, tables)
    truth = labelling_score(unary.detach().numpy(), edges, tables, y)
    assert loss.item() == pytest.approx(log_z - truth, abs=1e-10)
    np.testing.assert_allclose(by_unary, nodes - one_hot(y, 3), atol=1e-10)
    true_pairs = sum(np.outer(one_hot(y, 3)[i], one_hot(y, 3)[j]) for i, j in edges)
    np.testing.assert_allclose(by_table, pairs.sum(0) - true_pairs, atol=1e-10)


@pytest.mark.parametrize("shared", [True, False])
def test_trees_with_nodes_in_any_order(shared: bool) -> None:
    n, k = len(PARENTS), 3
    unary, table, tags = random_chain(1, n, k)
    pairwise = table if shared else torch.randn(1, n, k, k, dtype=torch.float64)
    unary.requires_grad_()
    pairwise.requires_grad_()
    loss = crf_loss(unary[None], pairwise, torch.tensor(PARENTS), tags[None])
    by_unary, by_pairwise = gradients(loss, unary, pairwise)
    edges, y = tree_edges(PARENTS), tags.numpy()
    values = pairwise.detach().numpy()
    tables = [values if shared else values[0, child] for _, child in edges]
    log_z, nodes, pairs = gibbs_by_enumeration(unary.detach().numpy(), edges, tables)
    truth = labelling_score(unary.detach().numpy(), edges, tables, y)
    assert loss.item() == pytest.approx(log_z - truth, abs=1e-10)
    np.testing.assert_allclose(by_unary, nodes - one_hot(y, k), atol=1e-10)
    for (parent, child), pair in zip(edges, pairs, strict=True):
        pair[y[parent], y[child]] -= 1
        if not shared:
            np.testing.assert_allclose(by_pairwise[0, child], pair, atol=1e-10)
    if shared:
        np.testing.assert_allclose(by_pairwise, pairs.sum(0), atol=1e-10)


@pytest.mark.parametrize("cost", [HAMMING, ASYMMETRIC], ids=["hamming", "asymmetric"])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("form", ["chain", "tree"])
def test_smooth_games_are_the_certified_ones(
    cost: np.ndarray, temperature: float, form: str
) -> None:
    n = 6
    unary, table, tags = random_chain(2, n)
    parents = torch.tensor(PARENTS) if form == "tree" else None
    edges = tree_edges(PARENTS) if form == "tree" else chain_edges(n)
    weight = torch.linspace(0.5, 2.0, n, dtype=torch.float64)
    unary.requires_grad_()
    table.requires_grad_()
    loss = adversarial_loss(
        unary[None], table, parents, tags[None], cost, weight[None], None, temperature, **TIGHT
    )
    by_unary, by_table = gradients(loss, unary, table)
    scores, tables = unary.detach().numpy(), np.stack([table.detach().numpy()] * len(edges))
    t = temperature * mean_mistake(cost)
    solution = game(scores, edges, tables, cost, t, weight.numpy())
    truth = labelling_score(scores, edges, tables, tags.numpy())
    assert loss.item() == pytest.approx(solution.value - truth, abs=1e-6)
    found = by_unary + one_hot(tags.numpy(), 3)
    np.testing.assert_allclose(found, solution.adversary_nodes, atol=2e-4)
    y = tags.numpy()
    true_pairs = sum(np.outer(one_hot(y, 3)[i], one_hot(y, 3)[j]) for i, j in edges)
    np.testing.assert_allclose(by_table + true_pairs, solution.adversary_edges.sum(0), atol=5e-4)


def test_temperature_0_is_the_exact_game() -> None:
    unary, table, tags = random_chain(3, 4)
    unary.requires_grad_()
    table.requires_grad_()
    edges = chain_edges(4)
    loss = adversarial_loss(unary[None], table, None, tags[None], ASYMMETRIC, temperature=0.0)
    tables = [table.detach().numpy()] * 3
    scores = unary.detach().numpy()
    value = full_game_value(scores, edges, tables, ASYMMETRIC)
    truth = labelling_score(scores, edges, tables, tags.numpy())
    assert loss.item() == pytest.approx(value - truth, abs=1e-5)
    by_unary, by_table = gradients(loss, unary, table)
    # A subgradient: the loss lies above the tangent.
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        step = torch.randn(4, 3, generator=generator, dtype=torch.float64)
        tilt = torch.randn(3, 3, generator=generator, dtype=torch.float64)
        moved = adversarial_loss(
            (unary.detach() + step)[None], table.detach() + tilt, None, tags[None], ASYMMETRIC,
            temperature=0.0,
        )  # fmt: skip
        tangent = loss.item() + (by_unary * step.numpy()).sum() + (by_table * tilt.numpy()).sum()
        assert moved.item() >= tangent - 1e-4


def test_temperature_0_of_masked_trees_and_chains() -> None:
    unary, table, tags = random_chain(4, 6)
    mask = torch.tensor([True, True, True, False, True, True])
    kept = mask.numpy()
    loss = adversarial_loss(
        unary[None], table, torch.tensor(PARENTS), tags[None], HAMMING, None, mask[None], 0.0
    )
    edges = [(2, 0), (2, 1), (2, 3)]  # node 4 hangs on 2 when 3 is masked; 5 is a root
    scores, y = unary.numpy()[kept], tags.numpy()[kept]
    tables = [table.numpy()] * 3
    truth = labelling_score(scores, edges, tables, y)
    value = full_game_value(scores, edges, tables, HAMMING)
    assert loss.item() == pytest.approx(value - truth, abs=1e-5)
    chain = adversarial_loss(unary[None], table, None, tags[None], HAMMING, None, mask[None], 0.0)
    tables = [table.numpy()] * 4
    value = full_game_value(scores, chain_edges(5), tables, HAMMING)
    truth = labelling_score(scores, chain_edges(5), tables, y)
    assert chain.item() == pytest.approx(value - truth, abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_hinges_are_those_of_enumeration(temperature: float) -> None:
    unary, table, tags = random_chain(5, 4)
    loss = ssvm_loss(unary[None], table, None, tags[None], ASYMMETRIC, temperature=temperature)
    edges, tables, y = chain_edges(4), [table.numpy()] * 3, tags.numpy()
    everything = all_labellings(4, 3)
    scores = np.array([labelling_score(unary.numpy(), edges, tables, one) for one in everything])
    scores = scores + ASYMMETRIC[y, everything].sum(1)
    t = temperature * mean_mistake(ASYMMETRIC)
    value = scores.max() if t == 0 else t * np.logaddexp.reduce(scores / t)
    truth = labelling_score(unary.numpy(), edges, tables, y)
    assert loss.item() == pytest.approx(value - truth, abs=1e-9)


@pytest.mark.parametrize("loss", [adversarial_loss, ssvm_loss, crf_loss])
def test_losses_take_the_same_arguments(loss) -> None:
    unary, table, tags = random_chain(6, 4)
    weight, mask = torch.ones(1, 4), torch.ones(1, 4, dtype=torch.bool)
    value = loss(unary[None], table, None, tags[None], HAMMING, weight, mask, 1.0)
    assert value.item() > 0
    each = loss(unary[None], table, None, tags[None], HAMMING, weight, mask, 1.0, reduction="none")
    assert each.shape == (1,)


def test_infinite_temperature_is_the_crf() -> None:
    unary, table, tags = random_chain(7)
    expected = crf_loss(unary[None], table, None, tags[None])
    for loss in (adversarial_loss, ssvm_loss):
        found = loss(unary[None], table, None, tags[None], ASYMMETRIC, temperature=float("inf"))
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("pairwise", ["shared", "by edge"])
def test_gradients_are_those_of_finite_differences(pairwise: str) -> None:
    unary, table, tags = random_chain(8, 4, scale=1.0)
    if pairwise == "by edge":
        table = torch.randn(1, 4, 3, 3, dtype=torch.float64)
    unary, table = unary[None].requires_grad_(), table.requires_grad_()

    def smooth(u, t):
        return adversarial_loss(u, t, None, tags[None], ASYMMETRIC, tol=1e-13, max_iter=20_000)

    def margin(u, t):
        return ssvm_loss(u, t, None, tags[None], ASYMMETRIC, temperature=1.0)

    def likelihood(u, t):
        return crf_loss(u, t, None, tags[None])

    assert torch.autograd.gradcheck(smooth, (unary, table), atol=1e-4, rtol=1e-3)
    assert torch.autograd.gradcheck(margin, (unary, table))
    assert torch.autograd.gradcheck(likelihood, (unary, table))


@pytest.mark.parametrize("parents", [None, torch.tensor(PARENTS)], ids=["chain", "tree"])
@pytest.mark.parametrize("size", [1e1, 1e2, 1e4])
def test_scores_of_any_size(size: float, parents: torch.Tensor | None) -> None:
    """Also beyond what exp can take."""
    unary, table, tags = random_chain(9, 6)
    unary, table = (size * unary).requires_grad_(), size * table
    loss = crf_loss(unary[None], table, parents, tags[None])
    (by_unary,) = gradients(loss, unary)
    edges = chain_edges(6) if parents is None else tree_edges(PARENTS)
    scores, tables = unary.detach().numpy(), [table.numpy()] * len(edges)
    log_z, nodes, _ = gibbs_by_enumeration(scores, edges, tables)
    truth = labelling_score(scores, edges, tables, tags.numpy())
    assert loss.item() == pytest.approx(log_z - truth, rel=1e-9)
    np.testing.assert_allclose(by_unary, nodes - one_hot(tags.numpy(), 3), atol=1e-6)


def test_long_chains_between_rules_and_far_scores() -> None:
    """A label that is e^290 less likely than others, and the only one from which to go on."""
    unary = torch.zeros(1, 3, 3, dtype=torch.float64)
    unary[0, 0] = torch.tensor([0.0, -140.0, -140.0])
    unary[0, 2] = torch.tensor([-140.0, -140.0, 0.0])
    table = torch.zeros(3, 3, dtype=torch.float64)
    table[0, 1:] = table[1, [0, 2]] = -torch.inf
    tags = torch.tensor([[0, 0, 0]])
    tables = [table.numpy()] * 2
    log_z, _, _ = gibbs_by_enumeration(unary[0].numpy(), chain_edges(3), tables)
    loss = crf_loss(unary, table, None, tags)
    assert loss.item() == pytest.approx(log_z + 140.0, abs=1e-9)


def test_forbidden_pairs_are_played_by_nobody() -> None:
    unary, table, tags = random_chain(10, 4)
    table[0, 1] = table[1, 1] = -torch.inf
    tags = torch.tensor([1, 2, 1, 0])
    edges, tables = chain_edges(4), np.stack([table.numpy()] * 3)
    unary.requires_grad_()
    loss = adversarial_loss(unary[None], table, None, tags[None], ASYMMETRIC, **TIGHT)
    (by_unary,) = gradients(loss, unary)
    scores, t = unary.detach().numpy(), mean_mistake(ASYMMETRIC)
    solution = game(scores, edges, tables, ASYMMETRIC, t)
    truth = labelling_score(scores, edges, tables, tags.numpy())
    assert loss.item() == pytest.approx(solution.value - truth, abs=1e-6)
    np.testing.assert_allclose(
        by_unary + one_hot(tags.numpy(), 3), solution.adversary_nodes, atol=2e-4
    )


def test_cycles_and_impossible_samples_are_errors() -> None:
    unary, table, tags = random_chain(11, 3)
    with pytest.raises(InvalidInputError, match="sample 0 form a cycle"):
        crf_loss(unary[None], table, torch.tensor([1, 2, 0]), tags[None])
    barred = torch.full((3, 3), -torch.inf, dtype=torch.float64)
    for loss in (crf_loss, adversarial_loss):
        with pytest.raises(InvalidInputError, match="sample 0: no labelling"):
            loss(unary[None], barred, None, tags[None])
