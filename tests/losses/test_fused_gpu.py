# SPDX-License-Identifier: Apache-2.0
"""The fused kernels against the reference and against the plain path in float64.

They run on a GPU (`-m gpu`), or anywhere in Triton's interpreter (`TRITON_INTERPRET=1`, small shapes only), which
is what `test_fused.py` does; where Triton is not installed, `triton_by_torch.py` stands in for it.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.losses import reference
from tests.losses.fused_and_plain import DEVICE, DTYPES, NAMED, SEVERAL, assert_same, batch, fused, plain
from tests.losses.reference import assert_close
from torch._subclasses.fake_tensor import FakeTensorMode

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
KNOWN = [
    name
    for name in losses.available()
    if name in reference.LOSSES
    and not name.startswith("logitclip")  # it is cross-entropy, once the logits are clipped
    and plan_of(losses.create(name).term, 5) is not None
]


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


@pytest.mark.parametrize("kernel", TILES)
@pytest.mark.parametrize("name", SEVERAL)
def test_classes_that_are_ruled_out(name, kernel, monkeypatch):
    """By a logit of −∞, as of words that may not come next; the first classes have whole lanes to themselves."""
    monkeypatch.setattr(launch, "tile_of", lambda layout: TILES[kernel])
    loss = losses.create(name).to(DEVICE)
    for shape in ((7, 19), (3, 19, 5)):
        for out in (slice(0, 1), slice(0, 6), slice(2, 18)):
            logits, target = batch(shape)
            logits[:, out] = -torch.inf
            target = target.clamp(min=18)
            assert_same(
                fused(loss, logits, target), plain(loss, logits, target), torch.float32, f"{shape} {out}"
            )


@pytest.mark.parametrize("name", KNOWN)
def test_logits_that_are_no_numbers_are_told(name):
    loss = losses.create(name, reduction="none").to(DEVICE)
    for shape in ((5, 7), (5, 7, 2)):
        logits, target = batch(shape, ignored=False)
        logits[1, 3] = torch.nan
        values, gradient = fused(loss, logits, target)
        assert values.isnan()[1].all()
        assert gradient.isnan()[1].any()
        if plan_of(loss.term, 7).entropy_weight == 0:  # which the samples of a batch share
            assert torch.isfinite(values[[0, 2, 3, 4]]).all()
            assert torch.isfinite(gradient[[0, 2, 3, 4]]).all()


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
        for shape in ((13, 19), (3, 21, 8), (2, 40, 3), (2, 4100)):  # the last two are read in pieces
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


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("name", ["anl-ce", "anl-ce*"])
def test_a_label_that_is_no_class_and_class_weights(name, reduction):
    """Whoever looks its weight up loses the device."""
    logits, target = batch((4, 5), ignored=False)
    weight = torch.linspace(0.5, 1.5, 5)
    loss = losses.create(name, reduction=reduction, weight=weight, check_labels=False).to(DEVICE)
    for wrong in (5, -1, 10**12):
        target[2] = wrong
        values, gradient = fused(loss, logits, target)
        assert values.isnan().any()
        assert gradient.isnan()[2].any()
        if name == "anl-ce":  # the other one takes all rows at once, by the kernels above
            hidden = logits.clone().requires_grad_()
            values = fused_linear(loss, hidden, torch.eye(5, device=DEVICE), None, target, chunk_rows=3)
            (gradient,) = torch.autograd.grad(values.sum(), hidden)
            assert values.isnan().any()
            assert gradient.isnan()[2].any()


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


@pytest.mark.parametrize("part", [slice(None), slice(1, 5)], ids=["whole", "a crop"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_the_compiler_is_told_how_gradients_lie(memory_format, part):
    """It fails on strides that it was not told of."""
    from noiseproof.losses.fused.operators import softmax_loss, softmax_loss_gradient

    images, target = batch((2, 5, 6, 8))
    logits, target = images.to(memory_format=memory_format)[..., part], target[..., part]
    plan = plan_of(losses.create("anl-ce*").term, 5).flatten()
    _, slopes = softmax_loss(logits, target, None, plan, -100, "mean")
    given = (torch.ones((), device=DEVICE), logits, target, None, slopes, plan, -100, "mean")
    gradient = softmax_loss_gradient(*given)
    with FakeTensorMode() as mode:
        told = softmax_loss_gradient(
            *[mode.from_tensor(each) if isinstance(each, torch.Tensor) else each for each in given]
        )
    assert gradient.stride() == told.stride()
    _, expected = plain(losses.create("anl-ce*"), logits, target)
    torch.testing.assert_close(gradient.cpu().double(), expected, rtol=1e-4, atol=1e-6)


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


@pytest.mark.parametrize(
    "weight", [torch.ones(1).expand(37), torch.arange(74.0).view(37, 2)[:, 1]], ids=["expanded", "a column"]
)
def test_class_weights_that_are_not_side_by_side(weight):
    loss = losses.create("anl-ce").to(DEVICE)
    loss.weight = weight.to(DEVICE)
    logits, target = batch((20, 37))
    expected = plain(loss, logits, target)
    assert_same(fused(loss, logits, target), expected, torch.float32)
    unit = torch.eye(37, device=DEVICE)
    hidden = logits.clone().requires_grad_()
    value = fused_linear(loss, hidden, unit, None, target, chunk_rows=7)
    (gradient,) = torch.autograd.grad(value, hidden)
    assert_same((value.detach().cpu(), gradient.cpu()), expected, torch.float32)
