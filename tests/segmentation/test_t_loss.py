# SPDX-License-Identifier: Apache-2.0
"""T-Loss against SciPy's log-gamma, mpmath's Student-t and finite differences; large images; learning ν."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

from noiseproof import losses
from noiseproof.losses import TLoss, t_loss


def reference(errors, nu, published=False):
    """The formula of one image, term by term, with SciPy's log-gamma."""
    errors = np.asarray(errors, dtype=np.float64).ravel()
    count, freedom = errors.size, math.exp(nu) + 1e-8
    squares = (errors**2).sum() * (math.e if published else 1.0)
    value = -special.gammaln((freedom + count) / 2) + special.gammaln(freedom / 2)
    value += count / 2 * math.log(math.pi) + count / 2 * nu
    value += (freedom + count) / 2 * math.log(1 + squares / freedom)
    return value - (count / 2 if published else 0.0)


def some_images(classes=2, count=3, size=(6, 5), dtype=torch.float64, seed=0):
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, classes, *size, generator=random, dtype=torch.float64)
    target = torch.randint(max(2, classes), (count, *size), generator=random)
    return logits.to(dtype), target


def errors_of(logits, target):
    """Foreground errors of each image, by NumPy's own softmax or sigmoid."""
    z, mask = logits.double().numpy(), target.numpy()
    if z.shape[1] == 1:
        return special.expit(z[:, 0]) - mask
    p = special.softmax(z, axis=1)
    return np.stack([p[:, k] - (mask == k) for k in range(1, z.shape[1])], axis=1)


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("nu", [-3.0, 0.0, 1.0, 4.0])
@pytest.mark.parametrize("classes", [1, 2, 4])
def test_values_are_those_of_scipys_log_gamma(classes, nu, published):
    logits, target = some_images(classes)
    expected = [reference(e, nu, published) for e in errors_of(logits, target)]
    got = t_loss(logits, target, reduction="none", nu=nu, published=published)
    assert got.dtype == torch.float64
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    for reduction, function in (("mean", np.mean), ("sum", np.sum)):
        value = t_loss(logits, target, reduction=reduction, nu=nu, published=published)
        assert value.item() == pytest.approx(function(expected), rel=1e-12)


def test_it_is_the_density_of_a_student_t():
    """ν̃ degrees of freedom, location the mask, scale the identity: SciPy's multivariate t, one image."""
    logits, target = some_images(2, count=1, size=(3, 4))
    nu = 0.7
    density = stats.multivariate_t(loc=np.zeros(12), shape=np.eye(12), df=math.exp(nu) + 1e-8)
    expected = -density.logpdf(errors_of(logits, target).ravel())  # (D/2)·ln ν̃ for (D/2)ν: 1e-8 apart
    assert t_loss(logits, target, nu=nu).item() == pytest.approx(expected, rel=1e-8)


def test_the_published_code_scales_errors_and_subtracts():
    logits, target = some_images(2)
    nu, count = 1.0, 30
    freedom = math.exp(nu) + 1e-8
    plain = t_loss(logits, target, reduction="none", nu=nu)
    published = t_loss(logits, target, reduction="none", nu=nu, published=True)
    squares = torch.from_numpy((errors_of(logits, target) ** 2).sum(axis=(1, 2, 3)))
    change = (
        (freedom + count) / 2 * (torch.log1p(math.e * squares / freedom) - torch.log1p(squares / freedom))
    )
    torch.testing.assert_close(published - plain, change - count / 2)


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_gradients_are_those_of_finite_differences(classes, published):
    logits, target = some_images(classes, count=2, size=(3, 3))
    nu = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    logits.requires_grad_()

    def loss(z, n):
        return t_loss(z, target, nu=n, published=published)

    assert torch.autograd.gradcheck(loss, (logits, nu))
    assert torch.autograd.gradgradcheck(loss, (logits, nu))


def test_the_gradient_of_nu_is_the_digamma_form():
    logits, target = some_images(2, count=1)
    loss = TLoss(nu=0.3).double()
    loss(logits, target).backward()
    freedom, count = math.exp(loss.nu.item()) + 1e-8, 30
    squares = float((errors_of(logits, target) ** 2).sum())
    slope = math.exp(loss.nu.item())  # dν̃/dν
    expected = slope / 2 * (special.digamma(freedom / 2) - special.digamma((freedom + count) / 2))
    expected += count / 2 + slope / 2 * math.log1p(squares / freedom)
    expected -= slope * (freedom + count) / 2 * squares / freedom**2 / (1 + squares / freedom)
    assert loss.nu.grad.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("error", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("nu", [-8.0, 1.0, 8.0])
def test_large_images_are_exact_in_float32(nu, error):
    """D = 512²: the parts are millions, float32 alone would be off by tenths and more."""
    side = 512
    logits = torch.full((2, 1, side, side), {0.0: 1e4, 0.5: 0.0, 1.0: -1e4}[error])
    target = torch.ones(2, side, side, dtype=torch.long)
    loss = TLoss(nu=nu)
    value = loss(logits.requires_grad_(), target)
    value.backward()
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(reference(np.full(side * side, error), nu), rel=1e-7)
    assert torch.isfinite(logits.grad).all()
    assert torch.isfinite(loss.nu.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_images_agree_with_float64(dtype):
    side = 512
    random = torch.Generator().manual_seed(1)
    logits = (3 * torch.randn(2, 2, side, side, generator=random)).to(dtype)
    target = torch.randint(2, (2, side, side), generator=random)
    results = []
    for z in (logits.clone(), logits.double()):
        loss = TLoss().to(torch.promote_types(z.dtype, torch.float32))
        value = loss(z.requires_grad_(), target)
        value.backward()
        results.append((value.detach(), z.grad, loss.nu.grad))
    (value, slope, of_nu), (exact, exact_slope, exact_of_nu) = results
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(exact.item(), rel=1e-7)
    assert slope.dtype == dtype
    # One rounding of the stored gradient; below that, p − 1 in float32 near p = 1.
    torch.testing.assert_close(slope.double(), exact_slope, rtol=torch.finfo(dtype).eps, atol=1e-6)
    assert of_nu.item() == pytest.approx(exact_of_nu.item(), rel=1e-5)


def test_extreme_logits_stay_finite():
    logits = torch.tensor([1e4, -1e4]).view(1, 2, 1, 1).repeat(2, 1, 8, 8).requires_grad_()
    for target in (torch.zeros(2, 8, 8, dtype=torch.long), torch.ones(2, 8, 8, dtype=torch.long)):
        for nu in (-50.0, 0.0, 50.0):
            loss = TLoss(nu=nu)
            value = loss(logits, target)
            value.backward()
            assert torch.isfinite(value)
            assert torch.isfinite(loss.nu.grad)
            assert torch.isfinite(logits.grad).all()


def test_two_classes_are_one_logit():
    """The softmax's foreground is a sigmoid of the logits' difference: the two forms are one loss."""
    logits, target = some_images(2)
    one = logits[:, 1:] - logits[:, :1]
    torch.testing.assert_close(t_loss(logits, target), t_loss(one, target))
    soft = target.unsqueeze(1).double()
    torch.testing.assert_close(t_loss(one, soft), t_loss(one, target))
    torch.testing.assert_close(t_loss(logits, torch.cat([1 - soft, soft], 1)), t_loss(logits, target))


def test_with_the_background_two_classes_have_every_error_twice():
    logits, target = some_images(2, count=1)
    errors = errors_of(logits, target)
    expected = reference(np.concatenate([errors, -errors]), 1.0)
    assert t_loss(logits, target, background=True).item() == pytest.approx(expected, rel=1e-12)
    logits, target = some_images(4, count=1)
    others = errors_of(logits, target)
    expected = reference(np.concatenate([others, -others.sum(axis=1, keepdims=True)], axis=1), 1.0)
    assert t_loss(logits, target, background=True).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_ignored_pixels_are_cut_out(classes):
    logits, target = some_images(classes)
    target[:, 2:, 1:] = 7
    logits.requires_grad_()
    value = t_loss(logits, target, ignore_index=7, reduction="none")
    kept = target != 7
    for image in range(3):
        z = logits[image][:, kept[image]].detach().unsqueeze(0)
        alone = t_loss(z, target[image][kept[image]].unsqueeze(0))
        assert value[image].item() == pytest.approx(alone.item(), rel=1e-12)
    value.sum().backward()
    assert (logits.grad * ~kept.unsqueeze(1) == 0).all()
    nothing = t_loss(logits, torch.full_like(target, 7), ignore_index=7)
    assert nothing.item() == 0.0


def test_a_far_off_image_pulls_less():
    """The gradient on Σδ² is (ν̃ + D)/(2(ν̃ + Σδ²)): it falls as the error grows, unlike that of squares."""
    pulls = []
    for logit in (2.0, 0.0, -2.0):
        z = torch.full((1, 1, 8, 8), logit, dtype=torch.float64, requires_grad=True)
        t_loss(z, torch.ones(1, 8, 8, dtype=torch.long)).backward()
        error = torch.sigmoid(z.detach()) - 1
        of_squares = -2 * error.square() * torch.sigmoid(z.detach())  # d δ²/dz = 2δ·p(1 − p), with δ = p − 1
        pulls.append((z.grad / of_squares).mean().item())
        freedom, squares = math.exp(1.0) + 1e-8, float(error.square().sum())
        assert pulls[-1] == pytest.approx((freedom + 64) / (2 * (freedom + squares)), rel=1e-10)
    assert pulls[0] > pulls[1] > pulls[2]


def test_nu_is_learned_in_a_group_of_its_own():
    loss = TLoss(nu_learning_rate=0.01)
    network = torch.nn.Conv2d(1, 2, 1)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=5e-6)
    for group in loss.parameter_groups():
        optimizer.add_param_group(group)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-3, 0.01]
    assert optimizer.param_groups[1]["weight_decay"] == 0.0
    images, masks = torch.randn(2, 1, 8, 8), torch.randint(2, (2, 8, 8))
    before = loss.degrees_of_freedom
    assert before == pytest.approx(math.e, rel=1e-6)
    loss(network(images), masks).backward()
    optimizer.step()
    # Adam's first step is the learning rate.
    assert abs(loss.nu.item() - 1.0) == pytest.approx(0.01, rel=1e-3)
    assert loss.degrees_of_freedom != before
    assert "nu" in loss.state_dict()


def test_nu_finds_the_spread_of_the_errors():
    """With D errors of one size, the likelihood is largest where its derivative is 0; Adam gets there."""
    logits = torch.full((4, 1, 16, 16), 2.0)
    masks = torch.ones(4, 16, 16, dtype=torch.long)
    loss = TLoss(nu=3.0, nu_learning_rate=0.03)
    optimizer = torch.optim.Adam(loss.parameter_groups())
    for _ in range(2000):
        optimizer.zero_grad()
        loss(logits, masks).backward()
        optimizer.step()
    errors = np.full(256, special.expit(2.0) - 1)
    values = {nu: reference(errors, nu) for nu in np.linspace(-4, 4, 801)}
    assert loss.nu.item() == pytest.approx(min(values, key=values.get), abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"nu": "1"}, TypeError, "nu: expected a number, got '1' of type str"),
        ({"nu": math.inf}, ValueError, "nu: expected a finite number"),
        ({"nu_learning_rate": -1.0}, ValueError, "nu_learning_rate: expected a number >= 0, got -1.0"),
        ({"weight": torch.ones(2)}, ValueError, "weight: T-Loss takes no class weights"),
        ({"reduction": "men"}, ValueError, "reduction: unknown name 'men'; did you mean 'mean'"),
        ({"nue": 1.0}, TypeError, "argument of loss 't-loss': unknown name 'nue'; did you mean 'nu'"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        losses.create("t-loss", **arguments)


def test_repr_shows_nu():
    assert repr(TLoss(nu=2.0, published=True, ignore_index=3)).startswith("TLoss(nu=2, published=True")
