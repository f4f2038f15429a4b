# SPDX-License-Identifier: Apache-2.0
"""The fixed battery of every loss in the catalogue: it works wherever torch's own losses work."""

import copy
import io
import pickle

import pytest
import torch

from noiseproof import losses

ALL = losses.available()
ROWWISE = [name for name in ALL if name != "anl-ce*"]  # its regulariser looks at the whole batch

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 2e-5, torch.float16: 2e-5}


def batch(num_classes=7, shape=(12,), dtype=torch.float32, device="cpu", scale=3.0):
    logits = scale * torch.randn(shape[0], num_classes, *shape[1:], dtype=torch.float64)
    target = torch.randint(num_classes, shape)
    target.view(-1)[1] = -100
    return logits.to(device, dtype), target.to(device)


def value_and_gradient(loss, logits, target):
    logits = logits.detach().clone().requires_grad_()
    value = loss(logits, target)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    return value.detach(), gradient


def assert_same(actual, expected, tolerance):
    for got, want in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_module_equals_function(name, reduction):
    logits, target = batch()
    weight = torch.rand(7) + 0.5
    module = losses.create(name, weight=weight, ignore_index=3, reduction=reduction)
    function = losses.record(name).function
    expected = function(logits, target.clamp(min=0), weight, 3, reduction)
    assert torch.equal(module(logits, target.clamp(min=0)), expected)


@pytest.mark.parametrize("name", ALL)
def test_function_and_module_have_the_same_hyperparameters(name):
    import inspect

    record = losses.record(name)
    parameters = list(inspect.signature(record.function).parameters.values())
    assert [p.name for p in parameters[:5]] == ["logits", "target", "weight", "ignore_index", "reduction"]
    hyperparameters = {p.name: p.default for p in parameters[5:] if p.name != "check_labels"}
    assert hyperparameters == record.defaults


@pytest.mark.parametrize("name", ALL)
def test_half_precision_is_evaluated_in_float32(name, device):
    for dtype in (torch.float16, torch.bfloat16):
        logits, target = batch(dtype=dtype, device=device)
        loss = losses.create(name).to(device)
        value, gradient = value_and_gradient(loss, logits, target)
        exact, exact_gradient = value_and_gradient(loss, logits.double(), target)
        assert value.dtype == torch.float32
        assert gradient.dtype == dtype
        assert_same([value.double()], [exact], TOLERANCE[dtype])
        # The gradient itself is stored in half precision: one rounding, no more.
        rounding = torch.finfo(dtype).eps
        torch.testing.assert_close(
            gradient.double(),
            exact_gradient,
            rtol=rounding,
            atol=max(torch.finfo(dtype).smallest_normal, 1e-6),
        )


@pytest.mark.parametrize("name", ALL)
def test_float32_agrees_with_float64(name, device):
    logits, target = batch(dtype=torch.float64, device=device)
    loss = losses.create(name).to(device)
    exact = value_and_gradient(loss, logits, target)
    rough = value_and_gradient(loss, logits.float(), target)
    assert_same([t.double() for t in rough], exact, TOLERANCE[torch.float32])


@pytest.mark.parametrize("name", ALL)
def test_compiled_equals_eager(name):
    """With autograd traced too, but without C++: what a backend makes of the graph is torch's affair.

    Of the function, whose graph is the same, only that it is one graph.
    """
    torch.compiler.reset()
    logits, target = batch()
    loss, function = losses.create(name), losses.record(name).function
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    expected = value_and_gradient(loss, logits, target)
    assert_same(value_and_gradient(compiled, logits, target), expected, 1e-6)
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    assert_same([compiled(logits, target)], [function(logits, target)], 1e-6)


def test_every_loss_can_be_compiled_in_one_process():
    """Torch allows eight compilations of one function: the classes must not share theirs."""
    torch.compiler.reset()
    logits, target = batch()
    for name in ALL:
        loss = losses.create(name)
        compiled = torch.compile(loss, fullgraph=True, backend="eager")
        assert_same([compiled(logits, target)], [loss(logits, target)], 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_compiled_by_inductor_equals_eager(name, device):
    torch.compiler.reset()
    logits, target = batch(num_classes=33, shape=(65,), device=device)
    loss = losses.create(name).to(device)
    compiled = torch.compile(loss, fullgraph=True)
    assert_same(value_and_gradient(compiled, logits, target), value_and_gradient(loss, logits, target), 1e-5)


@pytest.mark.parametrize("name", ROWWISE)
def test_vmap_and_grad_over_samples(name):
    logits, target = batch()
    loss = losses.create(name, reduction="none")
    assert_same([torch.func.vmap(loss)(logits, target)], [loss(logits, target)], 1e-6)
    per_sample = torch.func.vmap(torch.func.grad(loss))(logits, target)
    assert_same([per_sample], [value_and_gradient(loss, logits, target)[1]], 1e-6)


@pytest.mark.parametrize("name", ALL)
def test_vmap_over_models(name):
    logits = torch.randn(3, 12, 7)
    _, target = batch()
    loss = losses.create(name)
    stacked = torch.func.vmap(loss, in_dims=(0, None))(logits, target)
    assert_same([stacked], [torch.stack([loss(each, target) for each in logits])], 1e-6)


@pytest.mark.parametrize("name", ALL)
def test_second_derivative_exists(name):
    """Meta-learning and influence functions differentiate twice."""
    logits, target = batch(shape=(3,), num_classes=4, dtype=torch.float64)
    loss = losses.create(name)
    hessian = torch.autograd.functional.hessian(lambda z: loss(z, target), logits)
    assert torch.isfinite(hessian).all()
    if not losses.record(name).defaults.get("detach_modulator", False):
        assert_same([hessian], [hessian.permute(2, 3, 0, 1)], 1e-9)  # a detached part breaks the symmetry


@pytest.mark.parametrize("name", ALL)
def test_autocast_leaves_value_and_gradient_alone(name, device):
    logits, target = batch(dtype=torch.bfloat16, device=device)
    loss = losses.create(name).to(device)
    with torch.autocast(device.type, torch.bfloat16):
        inside = value_and_gradient(loss, logits, target)
    assert_same(inside, value_and_gradient(loss, logits, target), 1e-6)


@pytest.mark.parametrize("name", ALL)
def test_copies_behave_the_same(name):
    logits, target = batch()
    loss = losses.create(name, weight=torch.rand(7), reduction="sum")
    stream = io.BytesIO()
    torch.save(loss, stream)
    stream.seek(0)
    saved = torch.load(stream, weights_only=False)
    for twin in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss), saved):
        assert type(twin) is type(loss)
        assert torch.equal(twin(logits, target), loss(logits, target))


@pytest.mark.parametrize("name", ALL)
def test_class_weights_move_with_the_module(name):
    loss = losses.create(name, weight=torch.ones(7)).to(torch.float64)
    assert loss.weight.dtype == torch.float64
    assert "weight" in loss.state_dict()
    assert loss.to("meta").weight.device.type == "meta"


@pytest.mark.parametrize("name", ALL)
def test_repr_shows_the_formula(name):
    text = repr(losses.create(name, reduction="sum", ignore_index=0, weight=torch.ones(3)))
    assert text.startswith(losses.record(name).module.__name__)
    assert "reduction='sum'" in text
    assert "ignore_index=0" in text
    assert "weight=(3,)" in text


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
    assert_same([value.detach(), gradient], expected, 1e-6)


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
