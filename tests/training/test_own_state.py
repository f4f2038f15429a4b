# SPDX-License-Identifier: Apache-2.0
"""Losses and networks of the user's own that learn, keep or draw numbers: trained, saved, and the same again."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tests.stopping import StopAfter
from torch import nn
from torch.nn import functional

from noiseproof import losses, models
from noiseproof.losses import LossRecord, RobustLoss, catalogue
from noiseproof.training import Interrupted, resolve, train
from noiseproof.training import engine as engine_module
from noiseproof.training.store import Store


class Tempered(RobustLoss):
    """Cross-entropy whose temperature is learnt."""

    def __init__(self, **options):
        super().__init__(lambda log_p: -log_p, **options)
        self.log_t = nn.Parameter(torch.tensor(0.5))

    def forward(self, logits, target):
        return super().forward(logits * self.log_t.exp(), target)


class Adjusted(RobustLoss):
    """Cross-entropy that keeps a running mean of the logits."""

    def __init__(self, **options):
        super().__init__(lambda log_p: -log_p, **options)
        self.register_buffer("prior", torch.zeros(10))

    def forward(self, logits, target):
        if self.training and logits.requires_grad:
            self.prior.mul_(0.9).add_(0.1 * logits.detach().mean(0))
        return super().forward(logits - self.prior, target)


class Dropping(nn.Module):
    """A network that drops features in a function, which no layer tells of."""

    def __init__(self, num_classes, in_channels, image_size):
        super().__init__()
        self.hidden = nn.Linear(in_channels * image_size[0] * image_size[1], 32)
        self.fc = nn.Linear(32, num_classes)

    def forward(self, images):
        features = self.hidden(images.flatten(1)).relu()
        return self.fc(functional.dropout(features, 0.5, self.training))


@pytest.fixture(autouse=True)
def _own(monkeypatch):
    monkeypatch.setattr(catalogue, "_RECORDS", dict(catalogue._RECORDS))
    monkeypatch.setattr(models.catalogue, "_RECORDS", dict(models.catalogue._RECORDS))
    for name, module in (("tempered", Tempered), ("adjusted", Adjusted)):
        losses.register(
            LossRecord(
                name=name,
                title=name,
                formula="-log p",
                range="[0, inf)",
                symmetric=False,
                paper="mine",
                module=module,
                function=losses.cross_entropy,
            )
        )

    def build(num_classes, in_channels, image_size):
        return Dropping(num_classes, in_channels, image_size)

    models.register(replace(models.record("mlp"), name="dropping", build=build))


def config_of(**changes):
    said = {"epochs": 2, "device": "cpu", "train_size": 300, "noise": "sym-0.4"} | changes
    return resolve("digits", **said)


def dropping(**changes):
    return config_of(model="dropping", model_options={}, loss="ce", **changes)


@pytest.mark.parametrize(
    "which", [{"loss": "tempered"}, {"loss": "adjusted"}, {"model": "dropping"}], ids=str
)
def test_what_is_stopped_goes_on_to_the_same_end(which, tmp_path, monkeypatch):
    config = dropping() if "model" in which else config_of(**which)
    whole = train(config, folder=tmp_path / "whole", quiet=True)
    torch.rand(7)  # the global stream stands elsewhere, as in another process
    for steps in (3, 5):
        with monkeypatch.context() as patch:
            patch.setattr(engine_module, "Interruption", lambda steps=steps: StopAfter(steps))
            with pytest.raises(Interrupted):
                train(config, folder=tmp_path / "parts", quiet=True)
    parts = train(config, folder=tmp_path / "parts", quiet=True)
    files = [load_file(tmp_path / way / config.run_id / "weights.safetensors") for way in ("whole", "parts")]
    assert all(torch.equal(tensor, files[1][name]) for name, tensor in files[0].items())
    assert parts.result == whole.result


def test_the_seed_draws_what_a_network_drops(tmp_path):
    for place in ("a", "b"):
        torch.rand(3)
        train(dropping(), folder=tmp_path / place, quiet=True)
    with Store(tmp_path / "a") as a, Store(tmp_path / "b") as b:
        assert a.runs()[0].result == b.runs()[0].result


def test_what_a_loss_learns_is_trained_and_recorded(tmp_path):
    record = train(config_of(loss="tempered"), folder=tmp_path, quiet=True)
    learnt = [epoch["loss_learned"]["log_t"] for epoch in record.epochs]
    assert learnt[0] != 0.5
    assert learnt[1] != learnt[0]
