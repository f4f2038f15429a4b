# SPDX-License-Identifier: Apache-2.0
"""The battery of every loss of whole images: what holds for all of them, whatever they compute.

The battery of the losses of labels (tests/losses) does not fit: these have one value an image and take only images.
"""

import copy
import inspect
import io
import pickle

import pytest
import torch

from noiseproof import losses
from noiseproof.losses import ImageLoss

ALL = losses.available(whole_images=True)


def batch(classes=3, dtype=torch.float32, device="cpu", seed=0):
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(4, classes, 6, 5, generator=random)
    target = torch.randint(max(2, classes), (4, 6, 5), generator=random)
    return logits.to(device=device, dtype=dtype), target.to(device)


def value_and_gradient(loss, logits, target):
    logits = logits.detach().clone().requires_grad_()
    value = loss(logits, target)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


def test_the_catalogue_knows_them_apart():
    assert ALL == ("t-loss", "dice", "ce+dice")
    assert not set(ALL) & set(losses.available())
    for name in ALL:
        record = losses.record(name)
        assert issubclass(record.module, ImageLoss)
        assert record.whole_images
    assert not any(issubclass(losses.record(name).module, ImageLoss) for name in losses.available())
    assert losses.record("soft-dice").name == "dice"


@pytest.mark.parametrize("name", ALL)
def test_records_are_complete(name):
    record = losses.record(name)
    assert record.title
    assert record.formula
    assert record.range
    assert record.paper
    for public in (record.module, record.function):
        assert getattr(losses, public.__name__) is public
    for contract in ("Shapes:", "Range:", "Example:"):
        assert contract in record.module.__doc__


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ALL)
def test_module_equals_function(name, reduction):
    logits, target = batch()
    module = losses.create(name, ignore_index=2, reduction=reduction)
    expected = losses.record(name).function(logits, target, None, 2, reduction)
    assert torch.equal(module(logits, target), expected)


@pytest.mark.parametrize("name", ALL)
def test_function_and_module_have_the_same_hyperparameters(name):
    record = losses.record(name)
    parameters = list(inspect.signature(record.function).parameters.values())
    assert [p.name for p in parameters[:5]] == ["logits", "target", "weight", "ignore_index", "reduction"]
    hyperparameters = {p.name: p.default for p in parameters[5:] if p.name != "check_labels"}
    assert hyperparameters == {k: v for k, v in record.defaults.items() if k != "nu_learning_rate"}


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("name", ALL)
def test_gradients_are_those_of_finite_differences(name, classes):
    logits, target = batch(classes, torch.float64)
    logits, target = logits[:2, :, :3, :2].requires_grad_(), target[:2, :3, :2].clone()
    target[0, 0] = -100
    loss = losses.create(name).double()
    assert torch.autograd.gradcheck(lambda z: loss(z, target), logits)


@pytest.mark.parametrize("name", ALL)
def test_half_precision_is_evaluated_in_float32(name, device):
    for dtype in (torch.float16, torch.bfloat16):
        logits, target = batch(dtype=dtype, device=device)
        loss = losses.create(name).to(device)
        value, gradient = value_and_gradient(loss, logits, target)
        exact, exact_gradient = value_and_gradient(loss, logits.double(), target)
        assert value.dtype == torch.float32
        assert gradient.dtype == dtype
        torch.testing.assert_close(value.double(), exact.double(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gradient.double(), exact_gradient, rtol=torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_reductions_are_over_images(name):
    logits, target = batch()
    each = losses.create(name, reduction="none")(logits, target)
    assert each.shape == (4,)
    alone = [losses.create(name)(z[None], t[None]) for z, t in zip(logits, target, strict=True)]
    torch.testing.assert_close(each, torch.stack(alone))
    torch.testing.assert_close(losses.create(name)(logits, target), each.mean())
    torch.testing.assert_close(losses.create(name, reduction="sum")(logits, target), each.sum())


@pytest.mark.parametrize("name", ALL)
def test_channels_last_and_volumes(name):
    logits, target = batch()
    loss = losses.create(name)
    torch.testing.assert_close(
        loss(logits.to(memory_format=torch.channels_last), target), loss(logits, target)
    )
    volume = logits.view(4, 3, 3, 2, 5), target.view(4, 3, 2, 5)
    torch.testing.assert_close(loss(*volume), loss(logits, target))


@pytest.mark.parametrize("name", ALL)
def test_compiled_equals_eager(name):
    torch.compiler.reset()
    logits, target = batch()
    loss = losses.create(name)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for got, want in zip(
        value_and_gradient(compiled, logits, target), value_and_gradient(loss, logits, target), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_vmap_over_models(name):
    logits = torch.randn(3, 4, 3, 6, 5)
    _, target = batch()
    loss = losses.create(name)
    stacked = torch.func.vmap(loss, in_dims=(0, None))(logits, target)
    torch.testing.assert_close(stacked, torch.stack([loss(each, target) for each in logits]))


@pytest.mark.parametrize("name", ALL)
def test_autocast_leaves_value_and_gradient_alone(name, device):
    logits, target = batch(dtype=torch.bfloat16, device=device)
    loss = losses.create(name).to(device)
    with torch.autocast(device.type, torch.bfloat16):
        inside = value_and_gradient(loss, logits, target)
    for got, want in zip(inside, value_and_gradient(loss, logits, target), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_copies_behave_the_same(name):
    logits, target = batch()
    loss = losses.create(name, reduction="sum")
    stream = io.BytesIO()
    torch.save(loss, stream)
    stream.seek(0)
    saved = torch.load(stream, weights_only=False)
    for twin in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss), saved):
        assert type(twin) is type(loss)
        assert torch.equal(twin(logits, target), loss(logits, target))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("logits", "target", "error", "message"),
    [
        ([[1.0]], torch.zeros(1), TypeError, "logits: expected a torch.Tensor, got list"),
        (torch.zeros(2, 3, 4, 4), [0], TypeError, "target: expected a torch.Tensor, got list"),
        (
            torch.zeros(2, 3, 4, 4).long(),
            torch.zeros(2, 4, 4),
            TypeError,
            "logits: expected a floating-point",
        ),
        (
            torch.zeros(4, 3),
            torch.zeros(4).long(),
            ValueError,
            r"logits: expected those of images, .* \(4, 3\)",
        ),
        (torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 5).long(), ValueError, r"indices of shape \(2, 4, 4\)"),
        (torch.zeros(2, 3, 4, 4), torch.full((2, 4, 4), 3), ValueError, "class indices 0…2 .*, got 3"),
        (torch.zeros(2, 2, 4, 4), torch.full((2, 4, 4), 255), ValueError, "class indices 0…1 .*, got 255"),
        (torch.zeros(2, 2, 4, 4), torch.zeros(2, 4, 4), ValueError, "probabilities of the logits' shape"),
    ],
)
def test_bad_tensors(name, logits, target, error, message):
    with pytest.raises(error, match=message):
        losses.create(name)(logits, target)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ALL)
def test_runs_in_a_cuda_graph(name):
    logits, target = batch(device="cuda")
    loss = losses.create(name).cuda()
    expected = value_and_gradient(loss, logits, target)
    logits.requires_grad_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.autograd.grad(loss(logits, target), logits)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = loss(logits, target)
        (gradient,) = torch.autograd.grad(value, logits)
    graph.replay()
    for got, want in zip([value.detach(), gradient], expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ALL)
def test_never_waits_for_the_gpu(name):
    logits, target = batch(device="cuda")
    logits.requires_grad_()
    loss = losses.create(name).cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss(logits, target).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert logits.grad is not None
