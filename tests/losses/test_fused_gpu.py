# SPDX-License-Identifier: Apache-2.0
"""The fused kernels against the reference and against the plain path in float64.

They run on a GPU (`-m gpu`), or anywhere in Triton's interpreter (`TRITON_INTERPRET=1`, small shapes only), which
is what `test_fused.py` does where Triton is installed.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.losses import reference
from tests.losses.reference import assert_close

from noiseproof import losses
from noiseproof.losses.evaluate import evaluate_plainly
from noiseproof.losses.fused import InplaceGradient, fused_linear, gate, launch
from noiseproof.losses.fused.language import HAS_TRITON, INTERPRETED
from noiseproof.losses.fused.plan import plan_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed"),
    pytest.mark.skipif(
        not (torch.cuda.is_available() or INTERPRETED),
        reason="no CUDA device, and Triton's interpreter is off (TRITON_INTERPRET=1)",
    ),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, of the interpreter, about masked cells
]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
KNOWN = [
    name
    for name in losses.available()
    if name in reference.LOSSES
    and not name.startswith("logitclip")  # it is cross-entropy, once the logits are clipped
    and plan_of(losses.create(name).term, 5) is not None
]
NAMED = ["ce", "gce", "mae", "rce", "sce", "nce+rce", "nce+agce"]
NAMED += ["anl-ce", "anl-fl", "anl-ce*", "jal-ce", "jal-fl"]
SEVERAL = ["ce", "nce+agce", "anl-ce", "anl-fl", "anl-ce*", "jal-ce"]
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")


def batch(shape, dtype=torch.float32, spread=3.0, ignored=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = (spread * torch.randn(shape, generator=generator)).to(dtype)
    target = torch.randint(shape[1], (shape[0], *shape[2:]), generator=generator)
    if ignored and target.numel() > 1:
        target.view(-1)[1] = -100
    return logits.to(DEVICE), target.to(DEVICE)


def fused(loss, logits, target, upstream=None):
    """Value and gradient, by the kernels and nothing else."""
    leaf = logits.detach().requires_grad_()
    value = loss(leaf, target)
    assert "Fused" in type(value.grad_fn).__name__, "the plain path was taken"
    (gradient,) = torch.autograd.grad(value, leaf, torch.ones_like(value) if upstream is None else upstream)
    return value.detach().cpu().double(), gradient.cpu().double()


def plain(loss, logits, target, upstream=None):
    """Value and gradient in float64, by torch's operations on the CPU."""
    leaf = logits.detach().cpu().double().requires_grad_()
    weight = None if loss.weight is None else loss.weight.cpu().double()
    value = evaluate_plainly(loss.term, leaf, target.cpu(), weight, loss.ignore_index, loss.reduction)
    upstream = torch.ones_like(value) if upstream is None else upstream.cpu().double()
    (gradient,) = torch.autograd.grad(value, leaf, upstream)
    return value.detach(), gradient


def assert_same(actual, expected, dtype, message="", roundings=1, share=1e-5, floor=0.0):
    """Values as near as float32 comes; gradients to within the rounding of their type, once or twice.

    What is left of two numbers that cancel may be off by a share of the largest gradient, or by a floor.
    """
    value, gradient = (x.double() for x in actual)
    exact, exact_gradient = expected
    torch.testing.assert_close(value, exact, rtol=2e-5, atol=1e-5, msg=lambda m: f"{message}: value: {m}")
    scale = float(exact_gradient.abs().max())
    bfloat16 = 2**-7 if INTERPRETED else 2**-8  # the interpreter cuts off where a GPU rounds
    rounding = {torch.float32: 2e-5, torch.bfloat16: bfloat16, torch.float16: 2**-10}[dtype]
    # The smallest numbers of float16 are far apart.
    absolute = max(share * scale, floor, 6e-8 if dtype == torch.float16 else 0.0)
    torch.testing.assert_close(
        gradient,
        exact_gradient,
        rtol=roundings * rounding,
        atol=absolute,
        msg=lambda m: f"{message}: gradient: {m}",
    )


def test_the_losses_of_the_issue_are_known():
    assert set(NAMED) <= set(KNOWN)


@pytest.mark.parametrize("which", ["defaults", "other"])
@pytest.mark.parametrize("name", KNOWN)
def test_values_and_gradients_of_the_reference(name, which):
    params = dict(losses.record(name).defaults) if which == "defaults" else reference.other_params(name)
    loss = losses.create(name, reduction="sum", **params).to(DEVICE)
    per_sample = losses.create(name, reduction="none", **params).to(DEVICE)
    rng = np.random.default_rng(3)
    points, labels = rng.normal(scale=3.0, size=(4, 5)), rng.integers(5, size=4)
    target = torch.as_tensor(labels, device=DEVICE)
    for label, dtype in DTYPES.items():
        logits = torch.as_tensor(points).to(DEVICE, dtype)
        rounded = logits.cpu().double().numpy()
        _, gradient = fused(loss, logits, target)
        values, _ = fused(per_sample, logits, target)
        expected = reference.per_sample(name, rounded, labels, **params)
        assert_close(values.numpy(), expected, label, message=f"{name} {label}")
        exact = reference.gradient(name, rounded, labels, **params)
        assert_close(gradient.numpy(), exact, label, "gradient", message=f"{name} {label}")


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize(
    "shape", [(41, 1271), (3, 2, 17, 19), (1, 100_003), (70, 2), (5, 21, 3, 5, 2)], ids=str
)
@pytest.mark.parametrize("name", NAMED)
def test_odd_shapes(name, shape, dtype):
    logits, target = batch(shape, dtype, ignored=shape[0] > 1)
    loss = losses.create(name)
    assert_same(fused(loss.to(DEVICE), logits, target), plain(loss, logits, target), dtype, f"{name} {shape}")


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("name", NAMED)
def test_extreme_logits(name, dtype, classes):
    top = 1e4 if dtype == torch.float32 else 6e4
    rows = torch.full((6, classes), -top)
    rows[:, 1] = top
    rows[3:] *= -1
    rows[2] = torch.linspace(-top, top, classes)
    rows[5] = top
    logits, target = rows.to(DEVICE, dtype), torch.tensor([1, 0, classes - 1, 1, 0, 0], device=DEVICE)
    for reduction in ("mean", "none"):
        loss = losses.create(name, reduction=reduction)
        actual = fused(loss.to(DEVICE), logits, target)
        assert all(torch.isfinite(x).all() for x in actual)
        # Where nearly all gradients vanish, the rounding of a probability of one is what is left.
        expected = plain(loss, logits, target)
        assert_same(actual, expected, dtype, f"{name} {reduction}", floor=2**-21)


TILES = {
    "tiled": launch.Tile("tiled", 4, 32),
    "threaded": launch.Tile("threaded", 8),
    "streamed": launch.Tile("streamed", 4, 8, 2),
    "streamed on and on": launch.Tile("streamed", 2, 8, 2, persistent=True),
}


@pytest.mark.parametrize("kernel", TILES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", SEVERAL)
def test_weights_reductions_and_ignored_labels(name, reduction, kernel, monkeypatch):
    monkeypatch.setattr(launch, "tile_of", lambda layout: TILES[kernel])
    for dtype in [torch.float32] if INTERPRETED else DTYPES.values():
        for shape in ((7, 19), (3, 19, 5)):
            logits, target = batch(shape, dtype)
            weight = torch.linspace(0.0, 2.0, shape[1])
            loss = losses.create(name, reduction=reduction, weight=weight, ignore_index=4).to(DEVICE)
            target = target.abs().clamp(max=shape[1] - 1)
            upstream = torch.rand(target.shape if reduction == "none" else (), device=DEVICE) + 0.5
            expected = plain(loss, logits, target, upstream)
            # A gradient that was made in the forward pass is scaled in the backward pass, and rounded again.
            assert_same(
                fused(loss, logits, target, upstream), expected, dtype, f"{shape} {dtype}", roundings=2
            )
            value, gradient = fused(loss, logits, torch.full_like(target, 4))
            assert (value == 0).all()
            assert (gradient == 0).all()


@pytest.mark.parametrize("name", SEVERAL)
def test_any_strides(name):
    loss = losses.create(name).to(DEVICE)
    images, target = batch((3, 21, 8, 6))
    rows, labels = batch((33, 10))
    cases = {
        "channels last": (images.to(memory_format=torch.channels_last), target),
        "some classes": (images[:, 3:9], target.clamp(max=5)),
        "a crop": (images[:, :, 1:5, 2:5], target[:, 1:5, 2:5]),
        "every other image": (images[::2], target[::2]),
        "transposed rows": (rows.t().contiguous().t(), labels),
        "a part of each row": (rows[:, 1:8], labels.clamp(max=6)),
        "32-bit labels": (rows, labels.int()),
        "the same row again": (rows[:1].expand(33, 10), labels),
        "rows of rows": (rows.view(11, 3, 10).transpose(1, 2), labels.view(11, 3)),
    }
    for case, (logits, given) in cases.items():
        actual = fused(loss, logits, given)
        assert_same(actual, plain(loss, logits, given.long()), torch.float32, case)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", SEVERAL)
def test_the_gradient_takes_the_place_of_the_logits(name, reduction):
    loss = losses.create(name, reduction=reduction).to(DEVICE)
    for dtype in DTYPES.values():
        for shape in ((13, 19), (3, 21, 8)):
            values, target = batch(shape, dtype)
            expected = plain(loss, values, target)
            leaf = values.clone().requires_grad_()
            for logits in (leaf * 1, leaf.view(shape)):
                value = InplaceGradient(loss)(logits, target)
                of = leaf if logits._is_view() else logits
                (gradient,) = torch.autograd.grad(value, of, torch.ones_like(value))
                assert gradient.data_ptr() == logits.data_ptr()
                assert_same((value.detach().cpu(), gradient.cpu()), expected, dtype)


def test_an_operation_that_needs_its_output_is_told():
    values, target = batch((13, 19))
    logits = values.requires_grad_().exp()
    value = InplaceGradient(losses.create("anl-ce"))(logits, target)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_without_gradients_the_logits_stay():
    logits, target = batch((13, 19))
    before = logits.clone()
    InplaceGradient(losses.create("anl-ce"))(logits, target)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("inplace", [False, True])
def test_backward_twice(reduction, inplace):
    values, target = batch((13, 19))
    loss = losses.create("anl-ce", reduction=reduction)
    leaf = values.clone().requires_grad_()
    value = (InplaceGradient(loss) if inplace else loss)(leaf.view(13, 19), target)
    for factor in (1.0, 3.0, 0.0, -2.0):
        upstream = torch.full_like(value, factor)
        (gradient,) = torch.autograd.grad(value, leaf, upstream, retain_graph=True)
        expected = plain(loss, values, target, upstream)
        assert_same((value.detach().cpu(), gradient.cpu()), expected, torch.float32, f"times {factor}")


@pytest.mark.parametrize("name", SEVERAL)
def test_second_derivatives_take_the_plain_path(name):
    logits, target = batch((4, 5))
    loss = losses.create(name).to(DEVICE)
    hessian = torch.autograd.functional.hessian(lambda z: loss(z, target), logits)
    exact = torch.autograd.functional.hessian(lambda z: loss(z, target), logits.double())
    torch.testing.assert_close(hessian.double(), exact, rtol=1e-3, atol=1e-6)
    taken = InplaceGradient(loss)(logits.clone().requires_grad_().view(4, 5), target)
    with pytest.raises(RuntimeError, match="second derivative"):
        taken.backward(create_graph=True)


def test_what_the_kernels_do_not_take_is_evaluated_plainly(monkeypatch):
    loss = losses.create("anl-ce").to(DEVICE)
    logits, target = batch((4, 5), ignored=False)
    soft = torch.nn.functional.one_hot(target, 5).float()
    for values, labels in ((logits.double(), target), (logits, soft), (logits, target.short())):
        value = loss(values.requires_grad_(), labels)
        assert "Fused" not in type(value.grad_fn).__name__
    torch.func.vmap(losses.create("anl-ce", reduction="none"))(logits, target)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(logits, torch.ones_like(logits))
        assert torch.autograd.forward_ad.unpack_dual(loss(dual, target)).tangent is not None
    monkeypatch.setattr(gate, "ENABLED", False)
    assert "Fused" not in type(loss(logits.requires_grad_(), target).grad_fn).__name__


def test_a_label_that_is_no_class():
    logits, target = batch((4, 5), ignored=False)
    for wrong in (5, -1, 10**12):
        target[2] = wrong
        loss = losses.create("anl-ce", reduction="none", check_labels=False).to(DEVICE)
        values, gradient = fused(loss, logits, target)
        assert torch.isnan(values).tolist() == [False, False, True, False]
        assert torch.isnan(gradient).any(1).tolist() == [False, False, True, False]
        with pytest.raises(ValueError, match="expected class indices"):
            losses.create("anl-ce", check_labels=True)(logits, target)


@pytest.mark.parametrize("name", SEVERAL)
def test_compiled_equals_eager(name):
    torch.compiler.reset()
    for reduction in ("mean", "none"):
        loss = losses.create(name, reduction=reduction).to(DEVICE)
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        for shape in ((13, 19), (3, 21, 8)):
            logits, target = batch(shape)
            leaf = logits.clone().requires_grad_()
            value = compiled(leaf, target)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
            expected = plain(loss, logits, target)
            assert_same((value.detach().cpu(), gradient.cpu()), expected, torch.float32, name)


def test_a_compiled_loss_calls_the_operator():
    torch.compiler.reset()
    graphs = []

    def keep(graph, _):
        graphs.append(graph.code)
        return graph

    logits, target = batch((13, 19))
    torch.compile(losses.nce_rce, fullgraph=True, backend=keep)(logits, target, alpha=2.0)
    assert "torch.ops.noiseproof.softmax_loss" in graphs[0]


@pytest.mark.parametrize("name", ["anl-ce", "anl-ce*"])
def test_the_operator_is_registered_as_torch_wants_it(name):
    from noiseproof.losses.fused.operators import softmax_loss

    logits, target = batch((6, 5))
    plan = plan_of(losses.create(name).term, 5).flatten()
    for reduction in ("mean", "none"):
        arguments = (logits.clone().requires_grad_(), target, None, plan, -100, reduction)
        torch.library.opcheck(softmax_loss, arguments)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_fused_linear(dtype, reduction):
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn((2, 20, 8), generator=generator).to(DEVICE, dtype)
    weight, bias = torch.randn((37, 8), generator=generator), torch.randn(37, generator=generator)
    target = torch.randint(37, (2, 20), generator=generator).to(DEVICE)
    target[0, 3] = -100
    loss = losses.create("anl-ce", reduction=reduction, weight=torch.linspace(0.5, 1.5, 37)).to(DEVICE)
    inputs = [x.to(DEVICE, dtype).requires_grad_() for x in (hidden, weight, bias)]
    value = fused_linear(loss, *inputs, target, chunk_rows=7)
    upstream = torch.rand_like(value) + 0.5
    gradients = torch.autograd.grad(value, inputs, upstream, retain_graph=True)
    again = torch.autograd.grad(value, inputs, upstream)
    exact_inputs = [x.detach().cpu().double().requires_grad_() for x in inputs]
    logits = torch.nn.functional.linear(exact_inputs[0].flatten(0, 1), *exact_inputs[1:])
    options = (loss.weight.cpu().double(), -100, reduction)
    exact = evaluate_plainly(loss.term, logits, target.cpu().flatten(), *options).view(value.shape)
    expected = torch.autograd.grad(exact, exact_inputs, upstream.cpu().double())
    rounding = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype]
    torch.testing.assert_close(value.cpu().double(), exact.detach(), rtol=rounding, atol=rounding)
    for gradient, repeated, wanted in zip(gradients, again, expected, strict=True):
        assert gradient.dtype == dtype
        assert torch.equal(gradient, repeated)
        error = (gradient.cpu().double() - wanted).norm() / wanted.norm()
        assert error < rounding


@on_a_gpu
@pytest.mark.parametrize("name", NAMED)
def test_large_shapes(name):
    # Among so many cells some lie where terms cancel: torch's own float32 is off by 6e-5 of the largest, too.
    share = 2e-4
    for shape, dtype in (((4096, 1000), torch.float32), ((24, 131_072), torch.bfloat16)):
        logits, target = batch(shape, dtype)
        loss = losses.create(name)
        actual = fused(loss.to(DEVICE), logits, target)
        assert_same(actual, plain(loss, logits, target), dtype, f"{shape}", share=share)
    for shape in ((2, 21, 256, 256), (2, 150, 64, 64), (2, 400, 16, 16)):
        logits, target = batch(shape, torch.bfloat16)
        loss = losses.create(name)
        actual = fused(loss.to(DEVICE), logits, target)
        assert_same(actual, plain(loss, logits, target), torch.bfloat16, f"{shape}", share=share)


@on_a_gpu
@pytest.mark.parametrize("classes", [2, 7, 64, 100, 513, 5000, 16_384, 16_385, 40_000, 65_536, 262_144])
def test_every_number_of_classes(classes):
    loss = losses.create("anl-ce")
    for dtype in DTYPES.values():
        logits, target = batch((9, classes), dtype)
        assert_same(fused(loss.to(DEVICE), logits, target), plain(loss, logits, target), dtype, f"{dtype}")


@on_a_gpu
@pytest.mark.parametrize("name", NAMED)
def test_a_cuda_graph_and_no_waiting(name):
    logits, target = batch((129, 50))
    loss = losses.create(name).cuda()
    expected = fused(loss, logits, target)
    leaf = logits.clone().requires_grad_()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.autograd.grad(loss(leaf, target), leaf)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.autograd.grad(loss(leaf, target), leaf)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = loss(leaf, target)
        (gradient,) = torch.autograd.grad(value, leaf)
    gradient.fill_(torch.nan)
    graph.replay()
    assert torch.equal(gradient.cpu().double(), expected[1])
    assert torch.equal(value.detach().cpu().double(), expected[0])


LARGE = {
    "rows": ((65_536, 1000), torch.float32),
    "long rows": ((8192, 131_072), torch.bfloat16),
    "images": ((64, 21, 256, 256), torch.bfloat16),
}


@on_a_gpu
@pytest.mark.parametrize("which", LARGE)
@pytest.mark.parametrize("name", ["anl-ce", "anl-ce*"])
def test_memory(name, which):
    """One more tensor of the logits' size for the gradient, and none where it takes the logits' place."""
    shape, dtype = LARGE[which]
    loss = losses.create(name).cuda()
    for inplace in (False, True):
        values = torch.randn(shape, device="cuda", dtype=dtype).requires_grad_()
        target = torch.randint(shape[1], (shape[0], *shape[2:]), device="cuda")
        logits = values.view(shape)  # no leaf, and yet no copy
        size = logits.numel() * logits.element_size()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        # What was asked for, without what the allocator rounds it up to.
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        value = (InplaceGradient(loss) if inplace else loss)(logits, target)
        torch.autograd.grad(value, values)
        extra = (torch.cuda.memory_stats()["requested_bytes.all.peak"] - before) / size
        assert extra < (0.01 if inplace else 1.01), f"{extra:.4f} of the logits"


@on_a_gpu
@pytest.mark.parametrize("name", SEVERAL)
def test_inductor_and_autocast(name):
    torch.compiler.reset()
    model = torch.nn.Linear(16, 33).cuda()
    loss = losses.create(name).cuda()
    x, target = torch.randn(65, 16, device="cuda"), batch((65, 33))[1]
    results = []
    for criterion in (loss, torch.compile(loss, fullgraph=True)):
        model.zero_grad()
        with torch.autocast("cuda", torch.float16):
            value = criterion(model(x), target)
        torch.amp.GradScaler("cuda").scale(value).backward()
        results.append((value.detach(), model.weight.grad.clone()))
    torch.testing.assert_close(results[1], results[0], rtol=2e-3, atol=1e-3)


@on_a_gpu
def test_gradients_in_float16_survive_the_scaling_of_the_loss():
    """Divided by the number of rows, a gradient is below float16's smallest number, unless it is scaled before."""
    logits, target = batch((65_536, 10), torch.float16)
    loss = losses.create("anl-ce").cuda()
    upstream = torch.tensor(65_536.0, device="cuda")
    assert_same(fused(loss, logits, target, upstream), plain(loss, logits, target, upstream), torch.float16)
