# SPDX-License-Identifier: Apache-2.0
"""The sums of an epoch, against a count by hand and against autograd."""

import math

import numpy as np
import pytest
import torch

from noiseproof.losses import available, create
from noiseproof.training.meters import QUANTILES, EpochMeters, part_names, strongest_pull

CPU = torch.device("cpu")
ONE = torch.tensor(1.0)


def meters_of(name="anl-ce", samples=8, classes=3, spread=False, **parameters):
    return EpochMeters(create(name, **parameters), samples, classes, CPU, spread)


def logits_for(predicted, classes=3, confidence=4.0):
    return confidence * torch.nn.functional.one_hot(torch.tensor(predicted), classes).float()


def add(meters, step, indices, logits, given, flipped, norm=ONE):
    given, flipped = torch.tensor(given), torch.tensor(flipped)
    loss = meters.loss(logits, given)
    meters.add(step, torch.tensor(indices), logits, given, flipped, loss[None], norm[None])
    return loss.item()


def test_clean_and_flipped_samples_are_counted_apart():
    meters = meters_of("ce")
    # Given label, predicted, known to be wrong: three of five clean right, one of three flipped right.
    losses = [
        add(
            meters,
            0,
            [0, 1, 2, 3],
            logits_for([0, 1, 2, 0]),
            [0, 1, 0, 1],
            [False, False, False, True],
            ONE * 2,
        ),
        add(
            meters,
            1,
            [4, 5, 6, 7],
            logits_for([2, 2, 1, 1]),
            [2, 0, 1, 0],
            [False, False, True, True],
            ONE * 6,
        ),
    ]
    metrics = meters.metrics(torch.zeros(8, dtype=torch.bool))
    assert metrics["clean_accuracy"] == pytest.approx(60.0)
    assert metrics["flipped_accuracy"] == pytest.approx(100 / 3)
    assert metrics["train_accuracy"] == pytest.approx(50.0)
    assert metrics["loss"] == pytest.approx(np.mean(losses))
    assert (metrics["gradient_norm"], metrics["largest_gradient_norm"]) == (4.0, 6.0)
    assert metrics["loss_parts"] == {}
    mean = torch.cat([logits_for([0, 1, 2, 0]), logits_for([2, 2, 1, 1])]).softmax(1).mean(0)
    assert metrics["predicted_marginals"] == pytest.approx(mean.tolist(), abs=1e-5)


def test_ignored_samples_count_nowhere():
    meters, plain = meters_of("anl-ce", ignore_index=2), meters_of("anl-ce")
    logits = logits_for([0, 1, 2, 0, 2])
    add(meters, 0, [0, 1, 2, 3, 4], logits, [0, 0, 2, 1, 2], [False, False, False, True, True])
    add(plain, 0, [0, 1, 3], logits[[0, 1, 3]], [0, 0, 1], [False, False, True])
    flipped = torch.zeros(8, dtype=torch.bool)
    found, expected = meters.metrics(flipped), plain.metrics(flipped)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name
    assert (found["train_accuracy"], found["clean_accuracy"]) == (pytest.approx(100 / 3), 50.0)


@pytest.mark.parametrize(("flipped", "absent"), [(False, "flipped_accuracy"), (True, "clean_accuracy")])
def test_an_accuracy_over_no_samples_is_absent_and_not_zero(flipped, absent):
    meters = meters_of("ce")
    add(meters, 0, [0, 1], logits_for([0, 1]), [0, 0], [flipped, flipped])
    metrics = meters.metrics(torch.zeros(8, dtype=torch.bool))
    assert metrics[absent] is None
    assert metrics["train_accuracy"] == 50.0


def weights_of(loss):
    return [weight for weight, _ in loss.term.parts]


@pytest.mark.parametrize("options", [{}, {"weight": [1.0, 2.0, 0.5, 0.0, 3.0], "ignore_index": 1}])
@pytest.mark.parametrize("name", available())
def test_parts_weighted_and_added_are_the_loss(name, options):
    """For every loss of the catalogue that has parts, ANL-CE's regulariser among them."""
    meters = meters_of(name, samples=32, classes=5, **options)
    random = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(32, 5, generator=random)
    given = torch.randint(5, (32,), generator=random)
    loss = add(meters, 0, list(range(32)), logits, given.tolist(), [False] * 32)
    metrics = meters.metrics(torch.zeros(32, dtype=torch.bool))
    assert metrics["loss"] == pytest.approx(loss)
    names = part_names(meters.loss)
    assert len(set(names)) == len(names)
    assert tuple(metrics["loss_parts"]) == names
    if names:
        total = sum(
            w * v for w, v in zip(weights_of(meters.loss), metrics["loss_parts"].values(), strict=True)
        )
        assert total == pytest.approx(loss, rel=1e-5)


def test_the_parts_of_the_papers_loss_have_its_names():
    assert part_names(create("anl-ce*")) == ("normalized(ce)", "normalizednegative(ce)", "marginalentropy")


def negative_normalised_ce(p, y, p_min=1e-7):
    """NNCE as a function of p alone, written from the paper."""
    heights = p.log() - np.log(p_min)
    return 1 - heights.gather(1, y[:, None]).squeeze(1) / heights.sum(1)


def test_the_strongest_pull_is_the_gradient_of_nnce_in_p():
    random = torch.Generator().manual_seed(0)
    p = (2 * torch.randn(64, 6, generator=random, dtype=torch.float64)).softmax(1).requires_grad_()
    y = torch.randint(6, (64,), generator=random)
    (gradient,) = torch.autograd.grad(negative_normalised_ce(p, y).sum(), p)
    others = gradient.scatter(1, y[:, None], -torch.inf)
    found = strongest_pull(p.detach().log(), y)
    assert found.numpy() == pytest.approx(others.amax(1).numpy(), rel=1e-10)
    # The paper's closed form: (A + log p_y) / (p_j S²), largest where p_j is smallest.
    height, whole = np.log(1e7) + p.log(), (np.log(1e7) + p.log()).sum(1)
    least = p.scatter(1, y[:, None], torch.inf).amin(1)
    closed = height.gather(1, y[:, None]).squeeze(1) / (least * whole.square())
    assert found.numpy() == pytest.approx(closed.detach().numpy(), rel=1e-10)


def test_classes_below_p_min_do_not_pull_and_hopeless_labels_are_not_pulled():
    log_p = torch.tensor([[0.3, 0.7 - 1e-8, 1e-8], [0.5, 0.5 - 1e-9, 1e-9]], dtype=torch.float64).log()
    found = strongest_pull(log_p, torch.tensor([0, 2]))
    p = log_p[:1].exp().clamp(min=1e-7).requires_grad_()
    (gradient,) = torch.autograd.grad(negative_normalised_ce(p, torch.tensor([0])).sum(), p)
    assert found[0].item() == pytest.approx(gradient[0, 1].item(), rel=1e-6)
    assert found[1].item() == 0.0


def test_the_formula_goes_on_where_training_has_no_gradient():
    """Surely learned: both others are below p_min. Training pulls no more; by the formula nothing pulls harder."""
    height = -np.log(1e-7)
    p = torch.tensor([[1.0, 1e-9, 1e-12], [0.0, 1.0, 0.0]], dtype=torch.float64)
    log_p, y = p.clamp(min=1e-300).log(), torch.tensor([0, 0])
    assert strongest_pull(log_p, y).tolist() == [0.0, 0.0]
    by_formula = strongest_pull(log_p, y, cut_off=False)
    assert by_formula.tolist() == pytest.approx([1 / (1e-7 * height), 0.0])  # the second's label is hopeless


def test_above_p_min_both_are_the_same():
    logits = torch.randn(32, 5, generator=torch.Generator().manual_seed(0))
    y = torch.arange(32) % 5
    assert torch.equal(
        strongest_pull(logits.log_softmax(1), y), strongest_pull(logits.log_softmax(1), y, cut_off=False)
    )


def test_quantiles_are_of_clean_and_flipped_samples_and_of_those_seen():
    meters = meters_of("ce", samples=201, classes=4, spread=True)
    random = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(200, 4, generator=random)
    given = torch.randint(4, (200,), generator=random)
    flipped = torch.rand(201, generator=random) < 0.4
    add(meters, 0, list(range(200)), logits, given.tolist(), flipped[:200].tolist())
    found = meters.metrics(flipped)["strongest_pull"]
    assert found["quantiles"] == list(QUANTILES)
    log_p = logits.log_softmax(1)
    assert (log_p < math.log(1e-7)).any()
    for spread, cut_off in ((found, True), (found["floored"], False)):
        pulls = strongest_pull(log_p, given, cut_off=cut_off).numpy()
        for name, which in (("clean", ~flipped[:200].numpy()), ("flipped", flipped[:200].numpy())):
            expected = np.quantile(pulls[which], QUANTILES, method="nearest")
            assert spread[name] == pytest.approx(expected.tolist())
            assert min(spread[name]) > -1  # sample 200 was left out
            assert spread[f"{name}_mean"] == pytest.approx(pulls[which].mean(dtype=np.float64))
    assert found["floored"]["clean_mean"] > found["clean_mean"]


def test_an_epoch_that_an_earlier_version_began_has_no_floored_pulls():
    """They would be those of its last samples alone."""
    begun = meters_of("ce", samples=4, spread=True)
    add(begun, 0, [0, 1], logits_for([0, 1]), [0, 1], [False, True])
    state = {name: value for name, value in begun.state.items() if name != "floored_pulls"}
    resumed = meters_of("ce", samples=4, spread=True)
    resumed.restore(state)
    add(resumed, 1, [2, 3], logits_for([0, 1]), [0, 1], [False, True])
    found = resumed.metrics(torch.tensor([False, True, False, True]))["strongest_pull"]
    assert "floored" not in found
    assert found["clean"] is not None
    whole = meters_of("ce", samples=4, spread=True)
    whole.restore(begun.state)
    add(whole, 1, [2, 3], logits_for([0, 1]), [0, 1], [False, True])
    floored = whole.metrics(torch.tensor([False, True, False, True]))["strongest_pull"]["floored"]
    assert floored["clean"] == found["clean"], "nothing is below p_min here"


def test_no_flipped_samples_no_quantiles():
    meters = meters_of("ce", samples=2, spread=True)
    add(meters, 0, [0, 1], logits_for([0, 1]), [0, 1], [False, False])
    found = meters.metrics(torch.zeros(2, dtype=torch.bool))["strongest_pull"]
    for spread in (found, found["floored"]):
        assert spread["flipped"] is None
        assert spread["flipped_mean"] is None


class TestTrouble:
    def test_none_while_all_is_finite(self):
        meters = meters_of()
        add(meters, 0, [0, 1], logits_for([0, 1]), [0, 1], [False, False])
        assert meters.trouble() is None

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_a_gradient_alone(self, bad):
        meters = meters_of()
        add(meters, 0, [0, 1], logits_for([0, 1]), [0, 1], [False, False])
        add(meters, 1, [2, 3], logits_for([0, 1]), [0, 1], [False, False], torch.tensor(bad))
        assert meters.trouble() == "at step 2, in the gradient, though the loss itself was finite"

    def test_the_first_bad_step_counts_however_late_one_looks(self):
        """On a GPU one looks every fifty steps, when everything has long been lost."""
        meters = meters_of("anl-ce")
        add(meters, 0, [0, 1], logits_for([0, 1]), [0, 1], [False, False])
        add(meters, 1, [2, 3], logits_for([0, 1]), [0, 1], [False, False], torch.tensor(torch.nan))
        add(
            meters, 2, [4, 5], logits_for([0, 1]) * torch.nan, [0, 1], [False, False], torch.tensor(torch.nan)
        )
        assert meters.trouble() == "at step 2, in the gradient, though the loss itself was finite"

    def test_a_loss_without_parts(self):
        meters = meters_of("ce")
        add(meters, 4, [0, 1], logits_for([0, 1]) * torch.nan, [0, 1], [False, False])
        assert meters.trouble() == "at step 5, in the loss"

    def test_the_part_that_is_to_blame(self):
        meters = meters_of("sce", alpha=1.0, beta=1.0)  # CE of a probability 0 is infinite, RCE is not
        logits = torch.tensor([[0.0, -torch.inf, 0.0]])
        add(meters, 0, [0], logits, [1], [False])
        first, *_ = part_names(meters.loss)
        assert meters.trouble() == f"at step 1, in the part {first} of the loss"


@pytest.mark.parametrize("name", ["ce", "anl-ce", "anl-ce*", "sce"])
def test_many_steps_at_once_are_the_steps_one_by_one(name):
    """As a captured epoch adds them: three whole batches and a smaller last one."""
    random = torch.Generator().manual_seed(2)
    logits, given = torch.randn(28, 5, generator=random), torch.randint(5, (28,), generator=random)
    flipped, indices = torch.rand(28, generator=random) < 0.4, torch.randperm(28, generator=random)
    losses, norms = torch.rand(4, generator=random), torch.rand(4, generator=random)
    norms[2] = torch.inf
    single, together = (meters_of(name, samples=28, classes=5, spread=True) for _ in range(2))
    for step in range(4):
        rows = slice(8 * step, 8 * step + 8)
        one = slice(step, step + 1)
        single.add(step, indices[rows], logits[rows], given[rows], flipped[rows], losses[one], norms[one])
    together.add(0, indices, logits, given, flipped, losses, norms, batch_size=8)
    assert (
        together.trouble()
        == single.trouble()
        == ("at step 3, in the gradient, though the loss itself was finite")
    )
    for key, value in single.state.items():
        assert together.state[key].numpy() == pytest.approx(value.numpy(), rel=1e-6), key


def test_a_state_restored_goes_on_where_it_was():
    whole, first, second = (meters_of("anl-ce*", spread=True) for _ in range(3))
    steps = [
        (0, [0, 1], logits_for([0, 1]), [0, 2], [False, True]),
        (1, [2, 3], logits_for([2, 1]), [2, 2], [False, True]),
    ]
    for step in steps:
        add(whole, *step)
    add(first, *steps[0])
    second.restore({name: value.clone() for name, value in first.state.items()})
    add(second, *steps[1])
    flipped = torch.tensor([False, True] * 4)
    assert whole.metrics(flipped) == second.metrics(flipped)
