# SPDX-License-Identifier: Apache-2.0
"""The entropy regulariser over two processes equals one process on the joined batch."""

import os
import socket

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tests import warm

from noiseproof.losses import create


def problem():
    generator = torch.Generator().manual_seed(3)
    model = torch.nn.Linear(6, 5).double()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64))
    x = torch.randn(16, 6, generator=generator, dtype=torch.float64)
    y = torch.randint(5, (16,), generator=generator)
    return model, x, y


def entropy_alone(**options):
    return create("anl-ce*", alpha=0.0, beta=0.0, entropy_weight=1.5, **options)


def slope_of_steepness(loss, logits, labels):
    """Derivative of ``Σ (∂ loss / ∂ logits)²``, in which second derivatives of the loss stand."""
    (slope,) = torch.autograd.grad(loss(logits, labels), logits, create_graph=True)
    return torch.autograd.grad(slope.square().sum(), logits)[0]


def run_rank(rank, port, results):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model, x, y = problem()
    mine = slice(rank * 8, rank * 8 + 8)
    found = {}
    for name, loss, labels in (
        ("whole", create("anl-ce*"), y),
        ("entropy", entropy_alone(), y),
        # Rank 0 has three labels fewer than rank 1: the mean must count samples, not ranks.
        ("uneven", entropy_alone(), torch.where(torch.arange(16) < 3, -100, y)),
        ("alone", entropy_alone(across_ranks=False), y),
    ):
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        model.zero_grad()
        value = loss(parallel(x[mine]), labels[mine])
        value.backward()
        found[name] = (value.item(), [p.grad.clone() for p in model.parameters()])
    with torch.no_grad():
        logits = model(x[mine])
    found["twice"] = slope_of_steepness(entropy_alone(), logits.requires_grad_(), y[mine])
    results[rank] = found
    dist.destroy_process_group()


def joined(loss, labels):
    model, x, _ = problem()
    value = loss(model(x), labels)
    value.backward()
    return value.item(), [p.grad for p in model.parameters()]


@pytest.fixture(scope="module")
def results():
    """What each of two ranks found."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with mp.Manager() as manager:
        shared = manager.dict()
        mp.start_processes(run_rank, args=(port, shared), nprocs=2, start_method=warm.METHOD)
        return [shared[0], shared[1]]


def test_two_ranks_equal_one_process(results):
    *_, y = problem()
    uneven = torch.where(torch.arange(16) < 3, -100, y)
    for name, loss, labels in (
        ("whole", create("anl-ce*"), y),
        ("entropy", entropy_alone(), y),
        ("uneven", entropy_alone(), uneven),
    ):
        value, gradients = joined(loss, labels)
        if name != "whole":
            assert abs(results[0][name][0] - value) < 1e-12
        assert abs(sum(result[name][0] for result in results) / 2 - value) < 1e-12
        for result in results:
            for got, want in zip(result[name][1], gradients, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-13)

    # With across_ranks=False each rank sees its own batch, so the two disagree.
    assert abs(results[0]["alone"][0] - results[1]["alone"][0]) > 1e-3


def test_second_derivatives_over_two_ranks_are_those_of_one_process(results):
    model, x, y = problem()
    with torch.no_grad():
        logits = model(x)
    # Each rank's slope is that of both ranks' copies of the loss, so twice as steep, and its square four times.
    expected = 4 * slope_of_steepness(entropy_alone(), logits.requires_grad_(), y)
    torch.testing.assert_close(
        torch.cat([each["twice"] for each in results]), expected, rtol=1e-10, atol=1e-13
    )
