# SPDX-License-Identifier: Apache-2.0
"""What a loss learns itself is learned alike in every process, from the samples of all."""

import os
import socket
from pathlib import Path

import torch
from tests import warm
from torch import nn

from noiseproof.losses import TLoss
from noiseproof.training import ranks, resolve
from noiseproof.training.optimizers import make_optimizer


def images_and_masks():
    random = torch.Generator().manual_seed(0)
    return torch.randn(6, 1, 8, 8, generator=random), torch.randint(2, (6, 8, 8), generator=random)


def nu_after_steps(rows):
    """ν after three steps on these rows of the batch, the network left as it is."""
    torch.manual_seed(0)
    network, loss = nn.Conv2d(1, 2, 3, padding=1), TLoss(nu_learning_rate=0.1)
    config = resolve("blobs", loss="t-loss", device="cpu", optimizer="sgd", momentum=0.0, learning_rate=1e-12)
    optimizer = make_optimizer(config, network, loss)
    optimizer.param_groups[1]["lr"] = 1e-3
    images, masks = images_and_masks()
    for _ in range(3):
        optimizer.zero_grad()
        loss(network(images[rows]), masks[rows]).backward()
        optimizer.step()
    return loss.nu.item()


def one_rank():
    torch.set_num_threads(1)
    ranks.join(torch.device("cpu"))
    print(nu_after_steps(slice(ranks.number(), None, ranks.count())), flush=True)


def test_two_processes_learn_what_one_does():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    here = Path(__file__).resolve()
    code = f"import runpy; runpy.run_path({str(here)!r})['one_rank']()"
    processes = [
        warm.Popen(["-c", code], env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(2)
    ]
    done = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], done
    first, second = (float(out.split()[-1]) for out, _ in done)
    assert first == second
    alone = nu_after_steps(slice(None))
    assert abs(first - alone) < 1e-6
    assert abs(alone - 1.0) > 1e-3
