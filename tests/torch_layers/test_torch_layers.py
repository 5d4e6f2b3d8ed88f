"""Layers: pytorch-crf's behaviour, masks, decisions, rules, files and exported models."""

import io
import warnings

import numpy as np
import pytest
import torch
from torch_cases import ASYMMETRIC, chain_edges, game, gibbs_by_enumeration, mean_mistake

import robustruct
from robustruct import Constraints
from robustruct.errors import IncompatibleError, InvalidInputError, InvalidTypeError
from robustruct.torch import ChainAGM, ChainCRF

TAGS = ["O", "B-X", "I-X"]


def batch(seed: int = 0, time: int = 7, size: int = 4, k: int = 3):
    """(emissions (size, time, k), tags, mask) of various lengths."""
    generator = torch.Generator().manual_seed(seed)
    emissions = 2 * torch.randn(size, time, k, generator=generator)
    tags = torch.randint(0, k, (size, time), generator=generator)
    lengths = torch.tensor([time, 1, 3, 5][:size])
    return emissions, tags, torch.arange(time) < lengths[:, None]


def layer(kind=ChainAGM, *args, seed: int = 0, **options):
    torch.manual_seed(seed)
    made = kind(3, *args, batch_first=True, **options)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


def scores(made, emissions: torch.Tensor):
    """(unary with starts and ends, edges, tables) of one sequence (n, k)."""
    unary = emissions.detach().double().numpy().copy()
    unary[0] += made.start_transitions.detach().double().numpy()
    unary[-1] += made.end_transitions.detach().double().numpy()
    edges = chain_edges(len(unary))
    table = made.transitions.detach().double().numpy()
    return unary, edges, np.stack([table] * max(len(edges), 1))[: len(edges)]


# ------------------------------------------------------------------------------ pytorch-crf


@pytest.mark.filterwarnings("ignore:where received a uint8")
@pytest.mark.parametrize("reduction", ["sum", "mean", "token_mean", "none"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_crf_is_that_of_pytorch_crf(reduction: str, batch_first: bool) -> None:
    torchcrf = pytest.importorskip("torchcrf")
    emissions, tags, mask = batch()
    if not batch_first:
        emissions, tags, mask = (x.transpose(0, 1) for x in (emissions, tags, mask))
    peer, own = torchcrf.CRF(3, batch_first), ChainCRF(3, batch_first)
    own.load_state_dict(peer.state_dict())
    results = []
    for crf in (peer, own):
        inputs = emissions.clone().requires_grad_()
        value = crf(inputs, tags, mask, reduction=reduction)
        weights = [inputs, *crf.parameters()]
        results.append([value, *torch.autograd.grad(value.sum(), weights)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert own.decode(emissions, mask) == peer.decode(emissions, mask)
    assert own.decode(emissions) == peer.decode(emissions)
    assert set(own.state_dict()) - {"_extra_state"} == set(peer.state_dict())
    assert set(own.state_dict()) == set(ChainAGM(3).state_dict())


def test_agm_is_minimised_and_crf_maximised() -> None:
    emissions, tags, mask = batch()
    assert layer(ChainAGM)(emissions, tags, mask).item() > 0
    assert layer(ChainCRF)(emissions, tags, mask).item() < 0


# ------------------------------------------------------------------------------ masks


@pytest.mark.parametrize("kind", [ChainAGM, ChainCRF])
def test_padding_gaps_and_order_of_sequences_change_nothing(kind) -> None:
    made = layer(kind, cost=ASYMMETRIC)
    emissions, tags, mask = batch()
    plain = [
        made(emissions[i : i + 1, :n], tags[i : i + 1, :n])
        for i, n in enumerate(mask.sum(1).tolist())
    ]
    padded = made(emissions, tags, mask, reduction="none")
    torch.testing.assert_close(padded, torch.stack(plain), rtol=1e-4, atol=1e-4)
    order = torch.tensor([2, 0, 3, 1])
    permuted = made(emissions[order], tags[order], mask[order], reduction="none")
    torch.testing.assert_close(permuted, padded[order], rtol=1e-4, atol=1e-4)
    # Sub-word tokens: every token twice, the second one masked, with anything in its place.
    wide = torch.full((4, 14, 3), float("nan"))
    wide[:, ::2] = emissions
    inner = torch.zeros(4, 14, dtype=torch.bool)
    inner[:, ::2] = mask
    wide_tags = torch.full((4, 14), -100)
    wide_tags[:, ::2] = tags
    gaps = made(wide.requires_grad_(), wide_tags, inner, reduction="none")
    torch.testing.assert_close(gaps, padded)
    gaps.sum().backward()
    assert torch.isfinite(wide.grad).all()
    assert not wide.grad[~inner].any()
    assert made.decode(wide, inner) == made.decode(emissions, mask)
    found = made.predict_proba(wide, inner)
    torch.testing.assert_close(found[:, ::2], made.predict_proba(emissions, mask))
    assert not found[:, 1::2].any()


# ------------------------------------------------------------------------------ answers


def test_marginals_and_probabilities_are_those_of_enumeration_and_games() -> None:
    emissions, _, mask = batch(1)
    crf, agm = layer(ChainCRF), layer(ChainAGM, ASYMMETRIC, 0.7, tol=1e-8)
    t = 0.7 * mean_mistake(ASYMMETRIC)
    assert agm.absolute_temperature == pytest.approx(t)
    for i, n in enumerate(mask.sum(1).tolist()):
        unary, edges, tables = scores(crf, emissions[i, :n])
        _, nodes, _ = gibbs_by_enumeration(unary, edges, tables)
        found = crf.marginals(emissions, mask)[i, :n]
        np.testing.assert_allclose(found.numpy(), nodes, atol=1e-5)
        unary, edges, tables = scores(agm, emissions[i, :n])
        _, nodes, _ = gibbs_by_enumeration(unary / t, edges, tables / t)
        np.testing.assert_allclose(agm.marginals(emissions, mask)[i, :n], nodes, atol=1e-5)
        solution = game(unary, edges, tables, ASYMMETRIC, t)
        found = agm.predict_proba(emissions, mask)[i, :n]
        np.testing.assert_allclose(found, solution.adversary_nodes, atol=1e-3)
        tags = agm.decode(emissions, mask, "predictor")[i]
        assert tags == solution.predictor.argmax(1).tolist()
        cost = solution.adversary_nodes @ ASYMMETRIC
        expected = cost[np.arange(n), tags].sum()
        assert agm.risk(emissions, mask)[i].item() == pytest.approx(expected, abs=1e-2)


def test_bayes_takes_the_least_expected_cost() -> None:
    emissions, _, mask = batch(2)
    for made in (layer(ChainCRF, cost=ASYMMETRIC), layer(ChainAGM, ASYMMETRIC)):
        expected = (made.marginals(emissions, mask).double() @ made.cost).argmin(-1)
        tags = [row[kept].tolist() for row, kept in zip(expected, mask, strict=True)]
        assert made.decode(emissions, mask, "bayes") == tags


def test_auto_is_what_suits_the_layer_and_map_for_equal_costs_where_that_is_right() -> None:
    emissions, _, mask = batch(3)
    for made, meant in (
        (layer(ChainAGM), "predictor"),
        (layer(ChainAGM, temperature=0.0), "map"),
        (layer(ChainCRF), "map"),
        (layer(ChainAGM, ASYMMETRIC), "predictor"),
        (layer(ChainCRF, cost=ASYMMETRIC), "bayes"),
        (layer(ChainAGM, ASYMMETRIC, float("inf")), "bayes"),
    ):
        assert made.decode(emissions, mask) == made.decode(emissions, mask, meant)


def test_temperature_0_decides_by_the_exact_game_and_has_no_probabilities() -> None:
    emissions, tags, mask = batch(4)
    made = layer(ChainAGM, ASYMMETRIC, 0.0)
    assert made(emissions.requires_grad_(), tags, mask).item() > 0
    unary, edges, tables = scores(made, emissions[3, :5])
    solution = game(unary, edges, tables, ASYMMETRIC, 0.0)
    loss = made(emissions[3:, :5], tags[3:, :5]).item()
    truth = unary[range(5), tags[3, :5]].sum()
    truth += sum(tables[0][tags[3, i], tags[3, j]] for i, j in edges)
    assert loss == pytest.approx(solution.value - truth, abs=1e-3)
    assert made.predict_proba(emissions, mask).sum(-1)[mask].numpy() == pytest.approx(1.0)
    for ask in (made.marginals, made.risk, lambda *x: made.decode(*x, "bayes")):
        with pytest.raises(IncompatibleError, match="temperature above 0"):
            ask(emissions, mask)


def test_node_weights_weigh_costs() -> None:
    emissions, tags, _ = batch(5)
    weight = torch.rand(4, 7) + 0.5
    made = layer(ChainAGM, ASYMMETRIC, 0.5, tol=1e-7)
    losses = made(emissions, tags, None, weight, reduction="none")
    for i in range(4):
        unary, edges, tables = scores(made, emissions[i])
        t = 0.5 * mean_mistake(ASYMMETRIC)
        solution = game(unary, edges, tables, ASYMMETRIC, t, weight[i].double().numpy())
        truth = unary[range(7), tags[i]].sum()
        truth += sum(tables[0][tags[i, a], tags[i, b]] for a, b in edges)
        assert losses[i].item() == pytest.approx(solution.value - truth, abs=1e-3)


# ------------------------------------------------------------------------------ rules


@pytest.mark.parametrize("decision", ["map", "bayes", "predictor"])
@pytest.mark.parametrize("kind", [ChainAGM, ChainCRF])
def test_decisions_keep_the_rules(kind, decision: str) -> None:
    made = layer(kind, cost=ASYMMETRIC, labels=TAGS, constraints="BIO")
    emissions, _, mask = batch(6)
    emissions[:, :, 2] += 3.0  # I-X wherever it may stand
    for tags in made.decode(emissions, mask, decision):
        for before, after in zip([0, *tags], tags, strict=False):
            assert not (after == 2 and before == 0)
    probabilities = made.predict_proba(emissions, mask)
    assert not probabilities[:, 0, 2].any()
    torch.testing.assert_close(probabilities.sum(-1)[mask], torch.ones(int(mask.sum())))


def test_training_goes_on_under_rules_and_refuses_tags_that_break_them() -> None:
    made = layer(ChainAGM, ASYMMETRIC, labels=TAGS, constraints="BIO")
    emissions, _, _ = batch(7)
    tags = torch.tensor([[1, 2, 2, 0, 0, 1, 1]]).expand(4, 7)
    loss = made(emissions.requires_grad_(), tags)
    loss.backward()
    assert torch.isfinite(emissions.grad).all()
    assert torch.isfinite(made.transitions.grad).all()
    assert made.transitions.grad[0, 2] == 0
    bad = tags.clone()
    bad[2, 3:5] = torch.tensor([0, 2])
    with pytest.raises(InvalidInputError, match=r"'I-X' may not stand .*sequence 2, token 4"):
        made(emissions, bad)


# ------------------------------------------------------------------------------ files and models


def test_state_dicts_make_the_round_trip() -> None:
    made, other = layer(ChainAGM, ASYMMETRIC), layer(ChainAGM, ASYMMETRIC, seed=1)
    emissions, tags, mask = batch(8)
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other(emissions, tags, mask) == made(emissions, tags, mask)


@pytest.mark.parametrize(
    "other", [{"cost": "absolute"}, {"cost": ASYMMETRIC.T}, {"temperature": 2.0}, {}]
)
def test_another_cost_or_temperature_than_that_of_the_file_is_said(other: dict) -> None:
    """They decide as much as weights do, and weights fit layers with any."""
    whole = torch.nn.Sequential(layer(ChainAGM, **{"cost": ASYMMETRIC, **other}))
    saved = torch.nn.Sequential(layer(ChainAGM, ASYMMETRIC)).state_dict()
    assert all(isinstance(value, torch.Tensor) for value in saved.values())  # as safetensors asks
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole.load_state_dict(saved)
    assert [w.category for w in caught] == [UserWarning] * bool(other)
    for warning in caught:
        assert all(name in str(warning.message) for name in other)
        assert "temperature=1" in str(warning.message) or "temperature" not in other
    emissions, _, mask = batch(8)
    own = whole[0].cost.clone()
    whole[0].decode(emissions, mask)
    assert torch.equal(whole[0].cost, own)  # loading weights does not change what a layer is for


def test_files_without_costs_load_as_those_of_pytorch_crf_do() -> None:
    made = torch.nn.Sequential(layer(ChainAGM, ASYMMETRIC))
    old = {name: value for name, value in made.state_dict().items() if "extra" not in name}
    assert made.load_state_dict(old).missing_keys == []
    del old["0.transitions"]
    with pytest.raises(RuntimeError, match=r"0\.transitions"):
        made.load_state_dict(old)


def test_layers_show_what_they_are_for() -> None:
    assert repr(ChainAGM(3)) == "ChainAGM(num_tags=3, cost='hamming', temperature=1)"
    assert repr(ChainCRF(2, cost=[[0, 1], [5, 0]])) == (
        "ChainCRF(num_tags=2, cost=[[0, 1], [5, 0]], temperature=inf)"
    )
    wide = 1.0 - np.eye(9)
    wide[0, 1] = 2.5
    assert "cost=(9, 9) matrix of 0 to 2.5" in repr(ChainAGM(9, wide, 0.3))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_masks_of_0_and_1_are_those_of_tokenizers(dtype: torch.dtype) -> None:
    made = layer(ChainAGM, ASYMMETRIC)
    emissions, tags, mask = batch()
    assert made(emissions, tags, mask.to(dtype)) == made(emissions, tags, mask)
    assert made.decode(emissions, mask.to(dtype)) == made.decode(emissions, mask)
    with pytest.raises(InvalidInputError, match=r"mask of shape \(4, 7\) holds 2"):
        made(emissions, tags, 2 * mask.to(dtype))


@pytest.mark.parametrize("kind", [ChainAGM, ChainCRF])
@pytest.mark.parametrize(
    "constraints", [None, "BIO", [("O", "I-X")], Constraints("BIO", [("O", "O")])]
)
def test_exported_models_predict_the_same(kind, constraints, tmp_path) -> None:
    made = layer(kind, cost=ASYMMETRIC, labels=TAGS, constraints=constraints)
    made.tol = 1e-6
    emissions, _, mask = batch(9)
    X = made.export_samples(emissions, mask)
    for decision in ("map", "bayes", "predictor"):
        model = made.export(decision)
        tags = made.decode(emissions, mask, decision)
        assert [row.tolist() for row in model.predict(X)] == [
            [TAGS[a] for a in row] for row in tags
        ]
    found, expected = made.predict_proba(emissions, mask), model.predict_proba(X)
    if kind is ChainAGM:
        games = model.predict_games(X, tol=1e-7)
        assert games[0].gap <= 1e-4
        expected = [game.adversary_nodes for game in games]
    for i, rows in enumerate(expected):
        np.testing.assert_allclose(found[i, : len(rows)], rows, atol=1e-3)
    model.save(tmp_path / "model")
    loaded = robustruct.load(tmp_path / "model")
    assert [row.tolist() for row in loaded.predict(X)] == [row.tolist() for row in model.predict(X)]
    (best, score), *_ = model.predict_k_best(X[:1], 2)[0]
    assert best.tolist() == [TAGS[a] for a in made.decode(emissions, mask, "map")[0]]
    assert np.isfinite(score)


# ------------------------------------------------------------------------------ bad input


def test_errors_name_the_argument_and_its_shape() -> None:
    made = layer()
    emissions, tags, mask = batch()
    outside = tags.clone()
    outside[2, 1] = 3
    with pytest.raises(
        InvalidInputError, match=r"tags of shape \(4, 7\) holds 3 \(sequence 2, pos"
    ):
        made(emissions, outside)
    with pytest.raises(InvalidTypeError, match=r"tags is torch.float32"):
        made(emissions, tags.float())
    with pytest.raises(InvalidTypeError, match=r"mask is torch.float32; .*mask.bool\(\)"):
        made(emissions, tags, mask.float())
    with pytest.raises(InvalidInputError, match=r"mask has shape \(4, 6\); expected \(4, 7\)"):
        made(emissions, tags, mask[:, 1:])
    empty = mask.clone()
    empty[3] = False
    with pytest.raises(InvalidInputError, match=r"mask of shape \(4, 7\) .*sequence 3") as caught:
        made(emissions, tags, empty)
    assert caught.value.sample == 3
    broken = emissions.clone()
    broken[1, 0, 2] = torch.inf
    with pytest.raises(InvalidInputError, match=r"emissions of shape \(4, 7, 3\) holds inf"):
        made(broken, tags)
    with pytest.raises(InvalidInputError, match=r"emissions has shape \(4, 7, 2\); .*, 3\)"):
        made(emissions[:, :, :2], tags)
    with pytest.raises(InvalidInputError, match=r"node_weight of shape \(4, 7\) holds -1"):
        made(emissions, tags, None, torch.full((4, 7), -1.0))
    with pytest.raises(InvalidInputError, match="reduction='median' is not known"):
        made(emissions, tags, reduction="median")
    with pytest.raises(InvalidInputError, match="decision='best' is not known"):
        made.decode(emissions, decision="best")


def test_errors_of_what_a_layer_is_made_of() -> None:
    with pytest.raises(InvalidInputError, match=r"cost has shape \(2, 2\); expected \(3, 3\)"):
        ChainAGM(3, np.eye(2))
    with pytest.raises(InvalidInputError, match="temperature=-1"):
        ChainAGM(3, temperature=-1)
    with pytest.raises(InvalidInputError, match="right answer must cost no more"):
        ChainAGM(3, np.eye(3))
    with pytest.raises(InvalidInputError, match=r"pass labels=\[...\]"):
        ChainAGM(3, constraints="BIO")
    with pytest.raises(InvalidInputError, match="labels holds 2 names"):
        ChainAGM(3, labels=["a", "b"])
    with pytest.raises(InvalidInputError, match="num_tags=0"):
        ChainAGM(0)
