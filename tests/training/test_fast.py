# SPDX-License-Identifier: Apache-2.0
"""The fast form of a network against the network itself, and its batch norm against torch's in float64.

On a GPU with ``-m gpu``; elsewhere in Triton's interpreter (``TRITON_INTERPRET=1``), which is what
``test_fast_interpreted.py`` does; where Triton is not installed, ``triton_by_torch.py`` stands in for it.
"""

import copy
import os

import pytest
import torch
import torch.nn.functional as F

from noiseproof import models
from noiseproof.losses import L1, create
from noiseproof.losses.fused.language import HAS_TRITON
from noiseproof.training.fast.batch_norm import batch_norm
from noiseproof.training.fast.networks import FastNetwork

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"

pytestmark = [
    pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed"),
    pytest.mark.skipif(
        not INTERPRETED and not torch.cuda.is_available(), reason="needs a CUDA device or TRITON_INTERPRET=1"
    ),
]
if not INTERPRETED:
    pytestmark.append(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def true_float32():
    """Convolutions of the two sides must not differ by TF32's rounding."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


SLOPES = {0: None, 1: 0.0, 2: 0.1}
"""Of what follows batch norm: nothing, a ReLU, a leaky one."""


def channels_last(*shape, scale=1.0):
    tensor = scale * torch.randn(*shape, device=DEVICE)
    return tensor.contiguous(memory_format=torch.channels_last)


def slow_batch_norm(x, gamma, beta, mean, var, training, bias, shortcut, relu, pool):
    z = x if bias is None else x + bias.view(1, -1, 1, 1)
    z = F.batch_norm(z, mean, var, gamma, beta, training, 0.1, 1e-5)
    z = z if shortcut is None else z + shortcut
    z = F.leaky_relu(z, SLOPES[relu]) if relu else z
    return F.max_pool2d(z, 2) if pool else z


@pytest.mark.parametrize(
    "shape", [(4, 8, 6, 4), (3, 20, 8, 8), (2, 70, 4, 4), (5, 3, 2, 2), (4, 8, 1, 1)], ids=str
)
@pytest.mark.parametrize(
    ("relu", "pool", "has_shortcut", "has_bias", "twice"),
    [
        (0, 0, 0, 0, 0),
        (1, 0, 0, 1, 0),
        (1, 1, 0, 1, 0),
        (1, 0, 1, 0, 0),
        (0, 0, 1, 0, 0),
        (0, 1, 0, 0, 0),
        (1, 0, 1, 0, 1),
        (1, 0, 0, 0, 1),
        (1, 1, 0, 0, 1),
        (2, 0, 0, 0, 1),
        (2, 1, 0, 1, 0),
        (2, 0, 1, 0, 0),
    ],
)
def test_batch_norm_and_what_stands_around_it(shape, relu, pool, has_shortcut, has_bias, twice):
    if pool and shape[-1] == 1:
        pytest.skip("nothing to pool")
    torch.manual_seed(0)
    channels = shape[1]
    x = (channels_last(*shape, scale=2.0) + 1).requires_grad_()
    gamma, beta = (torch.randn(channels, device=DEVICE).requires_grad_() for _ in range(2))
    bias = torch.randn(channels, device=DEVICE) if has_bias else None
    shortcut = channels_last(*shape).requires_grad_() if has_shortcut else None
    mean, var = torch.randn(channels, device=DEVICE), torch.rand(channels, device=DEVICE) + 0.5
    inputs = [t for t in (x, gamma, beta, shortcut) if t is not None]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    exact_shortcut = exact[3] if has_shortcut else None
    exact_bias = None if bias is None else bias.double()
    exact_mean, exact_var = mean.double(), var.double()
    options = {
        "bias": bias,
        "shortcut": shortcut,
        "slope": SLOPES[relu],
        "pool": bool(pool),
        "twice": bool(twice),
    }
    for training in (True, False):
        y = batch_norm(x, gamma, beta, mean, var, training=training, **options)
        y, again = y if twice else (y, None)
        expected = slow_batch_norm(
            *exact[:3], exact_mean, exact_var, training, exact_bias, exact_shortcut, relu, pool
        )
        torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(mean.double(), exact_mean, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(var.double(), exact_var, rtol=1e-5, atol=1e-5)
        if training:
            upstream = torch.randn_like(y)
            outputs, upstreams = [y], [upstream]
            if again is not None:
                outputs.append(again)
                wide = channels_last(y.shape[0], 2 * channels, *y.shape[2:])
                part = wide[:, channels:]  # as of maps that were put beside others
                if shape[-1] == 1:  # as the mean over single pixels leaves them
                    part = part.clone().as_strided(part.shape, (channels, 1, 1, 1))
                upstreams.append(part)
            found = torch.autograd.grad(outputs, inputs, upstreams)
            wanted = torch.autograd.grad(expected, exact, sum(upstreams).double())
            for one, other in zip(found, wanted, strict=True):
                torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-4)


NETWORKS = [("mnist-cnn", 8, 1), ("cnn8", 8, 3), ("mnist-cnn", 10, 3), ("unet-small", 8, 3)]
if not INTERPRETED:  # minutes in the interpreter
    NETWORKS += [("cnn8", 32, 3), ("resnet18-cifar", 16, 3), ("resnet34-cifar", 32, 3), ("resnet50", 64, 3)]
    NETWORKS += [("unet", 64, 3), ("resnet18-cifar", 8, 3), ("resnet18", 32, 3)]
DEEP = {("resnet34-cifar", 32), ("resnet50", 64), ("unet", 64), ("resnet18-cifar", 8)}
"""Networks that make so much of a rounding error that only their first step can be compared.

The last of them normalises maps of one pixel: 16 numbers a channel.
"""


def make_optimizer(name, model, rate):
    if name.startswith("unet"):
        return torch.optim.Adam(model.parameters(), rate / 10, weight_decay=1e-3)
    return torch.optim.SGD(model.parameters(), rate, momentum=0.9, weight_decay=1e-3, nesterov=name == "cnn8")


@pytest.mark.parametrize(("name", "size", "channels"), NETWORKS)
def test_steps_of_the_fast_form_are_those_of_the_network(name, size, channels):
    """Logits, gradient norm, every parameter, sum of the optimiser and running statistic, over clipped steps."""
    torch.manual_seed(0)
    model = models.create(name, 5, in_channels=channels, image_size=size, seed=3)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    other = copy.deepcopy(model)
    slow = make_optimizer(name, model, 0.05)
    quick = make_optimizer(name, other, torch.tensor(0.05, device=DEVICE))
    fast = FastNetwork(other, quick, torch.float32)
    loss, l1 = create("anl-ce"), L1(1e-3)
    pixels = (size, size) if name.startswith("unet") else ()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for _ in range(1 if (name, size) in DEEP else 3):
        images, given = torch.randn(16, channels, size, size), torch.randint(5, (16, *pixels)).to(DEVICE)
        padded = torch.zeros(16, size, size, fast.in_channels)
        padded[..., :channels] = images.permute(0, 2, 3, 1)
        expected = model(images.to(DEVICE))
        slow.zero_grad()
        loss(expected, given).backward()
        l1.add_to_gradients(model.parameters())
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        slow.step()
        logits = fast(padded.permute(0, 3, 1, 2).to(DEVICE))
        gradients = torch.autograd.grad(loss(logits, given), fast.parameters.leaves)
        found = fast.parameters.step(gradients, 1e-3, 1.0)
        torch.testing.assert_close(logits, expected, rtol=1e-2, atol=1e-3)
        torch.testing.assert_close(found, norm, rtol=1e-2, atol=1e-3)
    parameters = dict(model.named_parameters())
    for (key, value), expected in zip(other.state_dict().items(), model.state_dict().values(), strict=True):
        if value.is_floating_point():
            moved, error = expected - before[key], value - expected
            if name.startswith("unet") and key in parameters:
                # Adam divides by the gradient: of the smallest, rounding decides the sign.
                gradient = slow.state[parameters[key]]["exp_avg"].abs()
                error = error[gradient > 0.1 * gradient.square().mean().sqrt()]
            assert error.norm() <= 0.03 * moved.norm() + 1e-4 * expected.norm() + 1e-3, key
        else:
            assert torch.equal(value, expected), key
    for parameter, twin in zip(model.parameters(), other.parameters(), strict=True):
        for kind, expected in slow.state[parameter].items():
            error = (quick.state[twin][kind] - expected).norm()
            assert error <= 0.03 * expected.norm() + 1e-3, kind
    filled = sum(p.numel() for p in other.parameters())
    assert int((fast.parameters.weights != 0).sum()) <= filled  # what pads stays zero


@pytest.mark.parametrize("channels", [1, 3, 8, 9, 64, 70])
def test_images_are_as_wide_as_the_first_weights(channels):
    """In half precision, where more than 64 channels are rounded up to a multiple of that."""
    model = models.create("mnist-cnn", 5, in_channels=channels, image_size=8, seed=3)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    images = torch.randn(16, channels, 8, 8, device=DEVICE)
    expected = model(images)
    optimizer = torch.optim.SGD(model.parameters(), torch.tensor(0.05, device=DEVICE), 0.9)
    fast = FastNetwork(model, optimizer, torch.bfloat16)
    padded = torch.zeros(16, 8, 8, fast.in_channels, dtype=torch.bfloat16, device=DEVICE)
    padded[..., :channels] = images.permute(0, 2, 3, 1)
    assert (fast(padded.permute(0, 3, 1, 2)) - expected).norm() < 0.05 * expected.norm()


def test_what_adam_had_summed_up_goes_on():
    torch.manual_seed(0)
    model = models.create("unet-small", 2, in_channels=3, image_size=8, seed=3)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    optimizer = make_optimizer("unet-small", model, torch.tensor(0.05, device=DEVICE))
    model(torch.randn(4, 3, 8, 8, device=DEVICE)).square().mean().backward()
    optimizer.step()
    sums = {p: {k: v.clone() for k, v in state.items()} for p, state in optimizer.state.items()}
    fast = FastNetwork(model, optimizer, torch.float32)
    assert float(fast.parameters.steps) == 1
    for parameter, before in sums.items():
        for kind, value in before.items():
            torch.testing.assert_close(optimizer.state[parameter][kind], value, check_device=False, msg=kind)
