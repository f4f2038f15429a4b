# SPDX-License-Identifier: Apache-2.0
"""What of the fused losses needs no GPU: which are known, how logits lie, the plain paths, and the interpreter."""

from __future__ import annotations

import inspect
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tests.interpreter import run_in_interpreter
from torch._subclasses.fake_tensor import FakeTensorMode

from noiseproof import losses
from noiseproof.losses.calculus import Active, Negative, Normalized, NormalizedNegative, WeightedSum
from noiseproof.losses.evaluate import evaluate_plainly
from noiseproof.losses.fused import InplaceGradient, fused_linear, gate, launch, linear, with_inplace_gradient
from noiseproof.losses.fused.launch import Layout, layout_of, tile_of
from noiseproof.losses.fused.plan import NO_PART, Kind, Plan, Role, plan_of
from noiseproof.losses.per_class import AGCE, CE, FL, GCE, MAE, RCE

UNKNOWN = {"eps-ce+mae", "eps-fl+mae"}
BATTERY = Path(__file__).with_name("test_fused_gpu.py")


def is_of_labels(name):
    return type(losses.create(name)).forward.__code__ == losses.RobustLoss.forward.__code__


@pytest.mark.parametrize("name", [name for name in losses.available() if is_of_labels(name)])
def test_the_catalogue_is_known(name):
    plan = plan_of(losses.create(name).term, 10)
    assert (plan is None) == (name in UNKNOWN)
    if plan is not None:
        assert Plan.restore(plan.flatten()) == plan


def test_parts_of_anl_ce():
    plan = plan_of(losses.create("anl-ce", alpha=2.0, beta=3.0).term, 10)
    normalized, flipped = plan.dense
    assert (normalized.role, normalized.kind) == (Role.NORMALIZED, Kind.CE)
    assert (flipped.role, flipped.kind) == (Role.NORMALIZED_NEGATIVE, Kind.CE)
    assert flipped.floor == pytest.approx(math.log(1e-7))
    assert flipped.ceiling == pytest.approx(-math.log(1e-7))
    assert plan.active == (NO_PART, NO_PART)
    assert plan.weights == (2.0, 3.0, 0.0, 0.0)


def test_sums_of_sums_and_weights_of_zero():
    inner = WeightedSum(((2.0, Normalized(CE())), (0.0, Active(GCE()))))
    plan = plan_of(WeightedSum(((3.0, inner), (0.5, Active(RCE(1e-4))))), 10)
    assert plan.weights == (6.0, 0.0, 0.5, 0.0)
    assert plan.active[0].a == pytest.approx(-math.log(1e-4))


@pytest.mark.parametrize("loss", [MAE(2.0), RCE()])
def test_a_normalised_mean_absolute_error_is_one_of_the_label_alone(loss):
    plan = plan_of(Normalized(loss), 5)
    assert plan.dense == (NO_PART, NO_PART)
    assert plan.weights[2] == 0.25


class OwnCrossEntropy(CE):
    def __call__(self, log_p):
        return -2 * log_p


@pytest.mark.parametrize(
    "term",
    [
        Active(lambda log_p: -log_p),
        Active(OwnCrossEntropy()),
        WeightedSum(()),
        WeightedSum(((1.0, Normalized(CE())), (1.0, Normalized(FL())), (1.0, Normalized(AGCE())))),
        NormalizedNegative(CE(), 0.2),  # leaves no room for five classes, which the plain path says
        Negative(CE(), 0.5),
    ],
)
def test_what_the_kernels_do_not_know(term):
    assert plan_of(term, 5) is None


@pytest.mark.parametrize(
    ("logits", "layout"),
    [
        (torch.empty(6, 4), Layout(1, 4, 6, 0, 1, 4)),
        (torch.empty(6, 8)[:, :4], Layout(1, 4, 6, 0, 1, 8)),
        (torch.empty(4, 6).t(), Layout(1, 4, 6, 0, 6, 1)),
        (torch.empty(2, 4, 3, 5), Layout(2, 4, 15, 60, 15, 1)),
        (torch.empty(1, 4, 3, 5), Layout(1, 4, 15, 0, 15, 1)),
        (torch.empty(2, 4, 3, 5).to(memory_format=torch.channels_last), Layout(1, 4, 30, 0, 1, 4)),
        (torch.empty(2, 4, 1, 1), Layout(1, 4, 2, 0, 1, 4)),
        (torch.empty(2, 4, 6, 5)[:, :, :3], Layout(2, 4, 15, 120, 30, 1)),
        (torch.empty(2, 4, 3, 10)[..., :5], None),
    ],
)
def test_how_logits_lie(logits, layout):
    assert layout_of(logits) == layout
    if layout is None:
        return
    offsets = torch.arange(logits.numel()).view(logits.shape)  # element by element, in the kernels' order
    seen = torch.as_strided(
        torch.arange(logits.untyped_storage().nbytes() // 4),
        (layout.outer, layout.classes, layout.inner),
        (layout.outer_stride, layout.class_stride, layout.inner_stride),
    )
    storage = torch.as_strided(
        torch.arange(logits.untyped_storage().nbytes() // 4), logits.shape, logits.stride()
    )
    assert torch.equal(seen.movedim(1, 2).reshape(-1), storage.movedim(1, -1).reshape(-1))
    assert offsets.numel() == seen.numel()


@pytest.mark.parametrize("classes", [2, 3, 16, 17, 100, 1000, 4096, 4097, 40_000, 131_072, 262_144])
@pytest.mark.parametrize("rows", [True, False])
def test_a_program_has_room_for_what_it_takes(classes, rows):
    layout = Layout(1, classes, 64, 0, 1, classes) if rows else Layout(2, classes, 64, 64 * classes, 64, 1)
    tile = tile_of(layout)
    assert all(number & (number - 1) == 0 for number in (tile.positions, tile.lanes, tile.unroll, tile.warps))
    if tile.kernel == "tiled":
        assert classes <= tile.lanes
        assert tile.positions * tile.lanes <= 64 * 32 * tile.warps  # numbers a thread can hold


def test_launches_name_the_constants_in_the_order_of_the_kernels(monkeypatch):
    """A kernel that was compiled before is called by position."""
    calls = []
    monkeypatch.setattr(launch, "_launch", lambda *given, **constants: calls.append((given, constants)))
    plan = plan_of(losses.create("anl-ce*").term, 5000)
    target = torch.zeros(4, dtype=torch.long)
    for logits in (torch.randn(4, 10), torch.randn(4, 10, 1), torch.randn(4, 5000), torch.randn(4, 10, 6)):
        labels = target if logits.shape[-1] != 6 else torch.zeros(4, 6, dtype=torch.long)
        entropy = launch.marginal_entropy(plan, logits, labels, -100)
        totals = launch.label_totals(labels, None, logits.shape[1], -100)
        launch.softmax_loss(
            plan, logits, labels, None, -100, reduction="mean", loss=True, gradient=logits, totals=totals,
            entropy=entropy,
        )  # fmt: skip
        launch.scale_unless_one(logits, totals)
    names = set()
    for (kernel, grid, arguments, warps), constants in calls:
        function = getattr(kernel, "fn", kernel)
        assert list(inspect.signature(function).parameters)[len(arguments) :] == list(constants)
        assert len(grid) <= 3
        assert warps & (warps - 1) == 0
        names.add(function.__name__)
    assert names == {
        "softmax_loss_tiled",
        "softmax_loss_threaded",
        "softmax_loss_streamed",
        "softmax_statistics",
        "class_sums",
        "label_weights",
        "scale_unless_one",
    }


def test_a_kernel_is_looked_up_once(monkeypatch):
    class Kernel:
        def __init__(self, broken=False):
            self.looked_up, self.called, self.broken = 0, [], broken

        def __getitem__(self, grid):
            def launched(*arguments, **constants):
                self.looked_up += 1
                return {(*grid, 1, 1)[:3]: self.compiled}

            return launched

        def compiled(self, *arguments):
            if self.broken:
                raise TypeError
            self.called.append(arguments)

    monkeypatch.setattr(launch, "INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    tensor = torch.zeros(8)
    kernel, broken = Kernel(), Kernel(broken=True)
    for size in (
        16,
        32,
        33,
        48,
        1,
    ):  # two that are multiples of 16 and later a third, one that is neither, and 1
        for each in (kernel, broken):
            launch._launch(each, (2,), (tensor, size, None, 0.5), 4, BLOCK=64)
    assert kernel.looked_up == 3
    assert kernel.called == [(tensor, 32, None, 0.5, 64), (tensor, 48, None, 0.5, 64)]
    assert broken.looked_up == 5


def test_in_place_where_the_kernels_cannot_be_used():
    logits, target = torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 1, 2, -100])
    loss = losses.create("anl-ce", weight=torch.rand(5, dtype=torch.float64))
    leaf = logits.clone().requires_grad_()
    assert torch.equal(InplaceGradient(loss)(leaf * 1, target), loss(leaf, target))
    clipped = losses.create("logitclip-ce")
    assert torch.equal(with_inplace_gradient(clipped, leaf * 1, target), clipped(leaf, target))
    with pytest.raises(ValueError, match="logits: expected the output of a model"):
        InplaceGradient(loss)(leaf, target)
    with pytest.raises(TypeError, match="loss: expected a loss Module"):
        InplaceGradient(F.cross_entropy)


@pytest.mark.parametrize(
    ("triton", "enabled", "dtype", "expected"),
    [
        (True, True, torch.float32, True),
        (True, True, torch.bfloat16, True),
        (True, True, torch.float64, False),  # would lose half of its digits
        (False, True, torch.float32, False),  # on Windows, say
        (True, False, torch.float32, False),
    ],
)
def test_where_kernels_may_be_used(monkeypatch, triton, enabled, dtype, expected):
    monkeypatch.setattr(gate, "HAS_TRITON", triton)
    monkeypatch.setattr(gate, "ENABLED", enabled)
    with FakeTensorMode():
        assert gate.has_kernels_for(torch.empty(2, dtype=dtype, device="cuda")) is expected


def test_a_fused_layer_asks_whether_kernels_may_scale_its_gradients(monkeypatch):
    """A GPU without Triton, and float64, have gradients too."""
    asked = []
    monkeypatch.setattr(linear, "has_kernels_for", lambda gradient: bool(asked.append(gradient.dtype)))
    hidden, weight, bias, target = linear_problem()
    (2 * fused_linear(losses.create("ce"), hidden, weight, bias, target)).backward()
    assert asked == [torch.float64] * 3


def linear_problem(dtype=torch.float64, shape=(3, 7)):
    hidden = torch.randn(*shape, 4, dtype=dtype, requires_grad=True)
    weight = torch.randn(9, 4, dtype=dtype, requires_grad=True)
    bias = torch.randn(9, dtype=dtype, requires_grad=True)
    target = torch.randint(9, shape)
    target.view(-1)[2] = -100
    return hidden, weight, bias, target


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["ce", "anl-fl", "anl-ce*", "eps-ce+mae", "logitclip-ce"])
def test_fused_linear_is_the_layer_and_the_loss(name, reduction):
    hidden, weight, bias, target = linear_problem()
    loss = losses.create(name, reduction=reduction, weight=torch.rand(9, dtype=torch.float64))
    for b in (bias, None):
        inputs = [x for x in (hidden, weight, b) if x is not None]
        expected = loss(F.linear(hidden.flatten(0, 1), weight, b), target.flatten())
        upstream = torch.rand_like(expected)
        exact = torch.autograd.grad(expected, inputs, upstream)
        for rows in (1, 5, 100, None):
            value = fused_linear(loss, hidden, weight, b, target, chunk_rows=rows)
            torch.testing.assert_close(value.flatten(), expected.flatten(), rtol=1e-6, atol=1e-6)
            found = torch.autograd.grad(value, inputs, upstream.view_as(value))
            torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-6)


def test_fused_linear_keeps_few_logits(monkeypatch):
    """No tensor of the logits' whole size is made on the way: the largest has as many rows as were asked for."""
    hidden, weight, bias, target = linear_problem(torch.float32, (64,))
    seen = []
    linear = F.linear
    monkeypatch.setattr(F, "linear", lambda x, *rest: seen.append(len(x)) or linear(x, *rest))
    fused_linear(losses.create("anl-ce"), hidden, weight, bias, target, chunk_rows=10).backward()
    assert max(seen) == 10
    assert sum(seen) == 64  # each row once: the gradients were made in the forward pass


def test_fused_linear_takes_terms_soft_labels_and_second_derivatives():
    hidden, weight, bias, target = linear_problem()
    term = losses.create("nce+rce").term
    value = fused_linear(term, hidden, weight, bias, target, chunk_rows=4)
    expected = evaluate_plainly(term, F.linear(hidden.flatten(0, 1), weight, bias), target.flatten())
    torch.testing.assert_close(value, expected)
    twice = [
        torch.autograd.grad(torch.autograd.grad(v, hidden, create_graph=True)[0].square().sum(), weight)[0]
        for v in (value, expected)
    ]
    torch.testing.assert_close(*twice)
    soft = torch.rand(3, 7, 9, dtype=torch.float64).softmax(-1)
    value = fused_linear(term, hidden, weight, bias, soft)
    torch.testing.assert_close(
        value, evaluate_plainly(term, F.linear(hidden.flatten(0, 1), weight, bias), soft.flatten(0, 1))
    )


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_what_a_loss_learns_itself_receives_its_gradient_from_a_fused_layer(reduction):
    hidden, weight, bias, target = linear_problem()
    tau = torch.nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
    class_weight = torch.nn.Parameter(torch.rand(9, dtype=torch.float64))
    options = {"reduction": reduction, "weight": None}
    for learned, loss in (
        (tau, losses.RobustLoss(lambda log_p: (1 - (log_p * tau).exp()) / tau, **options)),
        (class_weight, losses.create("anl-ce", **{**options, "weight": class_weight})),
    ):
        expected = loss(F.linear(hidden.flatten(0, 1), weight, bias), target.flatten())
        inputs = (learned, hidden, weight, bias)
        exact = torch.autograd.grad(expected.sum(), inputs)
        value = fused_linear(loss, hidden, weight, bias, target, chunk_rows=4)
        found = torch.autograd.grad(value.sum(), inputs)
        torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-6)
        with torch.no_grad():
            untaught = fused_linear(loss, hidden, weight, bias, target, chunk_rows=4)
        torch.testing.assert_close(untaught, value, rtol=1e-6, atol=1e-6)


def test_a_fused_layer_refuses_as_many_labels_in_another_shape():
    hidden, weight, bias, target = linear_problem()
    soft = torch.rand(3, 7, 9, dtype=torch.float64)
    expected = (
        r"target: expected class indices of shape \(3, 7\) or .* probabilities of shape \(3, 7, 9\) .*, got"
    )
    for wrong in (target.t(), target.flatten(), soft.transpose(0, 1), soft.flatten(0, 1), soft.flatten()):
        with pytest.raises(ValueError, match=rf"{expected} torch\..* of shape \({wrong.shape[0]},"):
            fused_linear(losses.create("ce"), hidden, weight, bias, wrong)


def test_fused_linear_says_what_is_wrong():
    hidden, weight, bias, target = linear_problem()
    loss = losses.create("ce")
    with pytest.raises(ValueError, match="weight: expected \\(K, H\\)"):
        fused_linear(loss, hidden, weight.t(), bias, target)
    with pytest.raises(ValueError, match="bias: expected one number a class"):
        fused_linear(loss, hidden, weight, bias[:3], target)
    with pytest.raises(ValueError, match="chunk_rows: expected"):
        fused_linear(loss, hidden, weight, bias, target, chunk_rows=0)
    with pytest.raises(ValueError, match="target: expected class indices"):
        fused_linear(loss, hidden, weight, bias, target.clamp(min=0) + 9)
    with pytest.raises(ValueError, match="target: expected class indices"):
        fused_linear(loss, hidden, weight, bias, target[:2])


def test_the_kernels_in_the_interpreter():
    """A part of the battery: every kernel, every sort of loss, rows and images, every reduction."""
    run_in_interpreter(
        BATTERY,
        "-k",
        "(values_and and defaults and (agce or anl or jal-fl)) or (odd_shapes and anl-ce and float32)"
        " or (weights and ((anl-ce and none) or (anl-fl and mean))) or strides and anl-ce or twice or no_class"
        " or plainly or operator or (compiled and anl-ce) or (fused_linear and mean) or (place_of and mean)"
        " or side_by_side or ruled_out or no_numbers or gradients_lie",
    )


@pytest.mark.slow
def test_all_of_the_battery_in_the_interpreter():
    run_in_interpreter(BATTERY)
