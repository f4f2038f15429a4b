# SPDX-License-Identifier: Apache-2.0
"""What of the fused kernels only a device can tell: large shapes, memory, CUDA graphs, compiled code."""

import pytest
import torch
from tests.losses.fused_and_plain import DTYPES, NAMED, SEVERAL, assert_same, batch, fused, plain

from noiseproof import losses
from noiseproof.losses.fused import InplaceGradient, fused_linear
from noiseproof.losses.fused.language import HAS_TRITON

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]


@pytest.mark.parametrize("name", NAMED)
def test_large_shapes(name):
    # Among so many cells some lie where terms cancel: torch's own float32 is off by 6e-5 of the largest, too.
    share = 2e-4
    for shape, dtype in (((4096, 1000), torch.float32), ((24, 131_072), torch.bfloat16)):
        logits, target = batch(shape, dtype)
        loss = losses.create(name)
        actual = fused(loss.cuda(), logits, target)
        assert_same(actual, plain(loss, logits, target), dtype, f"{shape}", share=share)
    for shape in ((2, 21, 256, 256), (2, 150, 64, 64), (2, 400, 16, 16)):
        logits, target = batch(shape, torch.bfloat16)
        loss = losses.create(name)
        actual = fused(loss.cuda(), logits, target)
        assert_same(actual, plain(loss, logits, target), torch.bfloat16, f"{shape}", share=share)


@pytest.mark.parametrize("classes", [2, 7, 64, 100, 513, 5000, 16_384, 16_385, 40_000, 65_536, 262_144])
def test_every_number_of_classes(classes):
    loss = losses.create("anl-ce")
    for dtype in DTYPES.values():
        logits, target = batch((9, classes), dtype)
        assert_same(fused(loss.cuda(), logits, target), plain(loss, logits, target), dtype, f"{dtype}")


def test_a_fused_layer_in_float64_is_exact():
    """The kernels do not know float64: they must not scale its gradients either."""
    hidden, weight = (torch.randn(n, 4, device="cuda", dtype=torch.float64) for n in (6, 5))
    target = torch.randint(5, (6,), device="cuda")
    loss = losses.create("anl-ce").cuda()
    inputs = [each.requires_grad_() for each in (hidden, weight)]
    found = torch.autograd.grad(3.3 * fused_linear(loss, *inputs, None, target, chunk_rows=4), inputs)
    expected = torch.autograd.grad(3.3 * loss(hidden @ weight.t(), target), inputs)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


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


def test_gradients_in_float16_survive_the_scaling_of_the_loss():
    """Divided by the number of rows, a gradient is below float16's smallest number, unless it is scaled before."""
    logits, target = batch((65_536, 10), torch.float16)
    loss = losses.create("anl-ce").cuda()
    upstream = torch.tensor(65_536.0, device="cuda")
    assert_same(fused(loss, logits, target, upstream), plain(loss, logits, target, upstream), torch.float16)
