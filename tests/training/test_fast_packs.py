# SPDX-License-Identifier: Apache-2.0
"""Packs as a GPU trains them, in the fast form and from windows, against the same runs step by step.

A CPU has neither graphs nor streams; all else is what a GPU does. Run by ``test_fast_interpreted.py``.
"""

import os

import pytest
import torch
from tests.stopping import StopAfter

from noiseproof.losses.fused.language import HAS_TRITON
from noiseproof.models.small_cnn import SmallCNN
from noiseproof.models.unet import UNet
from noiseproof.training import Interrupted, optimizers, resolve, train, train_pack
from noiseproof.training import engine as engine_module
from noiseproof.training import run as run_module
from noiseproof.training.captured import SideBySide
from noiseproof.training.store import Store

pytestmark = pytest.mark.skipif(
    not HAS_TRITON or os.environ.get("TRITON_INTERPRET") != "1", reason="needs Triton's interpreter"
)

DIGITS = {
    "noise": "sym-0.4-bernoulli",
    "epochs": 2,
    "train_size": 41,  # an epoch's last step has 9 samples
    "batch_size": 16,
    "model": "mnist-cnn",
    "model_options": {},
    "loss": "anl-ce",
}
MASKS = {"noise": "masks-0.7-0.7", "epochs": 2, "train_size": 16, "batch_size": 16}
METRICS = ("loss", "gradient_norm", "train_accuracy", "clean_accuracy", "flipped_accuracy")
TESTED = ("test_accuracy", "test_dice")


def digits(**changes):
    return resolve("digits", device="cpu", **(DIGITS | changes))


def masks(**changes):
    return resolve("blobs", device="cpu", **(MASKS | changes))


@pytest.fixture(autouse=True)
def fast_on_a_cpu(monkeypatch):
    """What has a fast form has it here too, with a rate that lies where kernels can read it."""
    usual = optimizers._optimizer_of_network

    def with_a_rate_in_memory(config, model):
        optimizer = usual(config, model)
        optimizer.param_groups[0]["lr"] = torch.tensor(config.learning_rate)
        return optimizer

    def can_be_fast(model, config, image_size):
        return type(model) in (SmallCNN, UNet) and config.optimizer != "adamw"

    monkeypatch.setattr(optimizers, "_optimizer_of_network", with_a_rate_in_memory)
    monkeypatch.setattr(run_module, "can_be_fast", can_be_fast)
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)


PACKS = {
    "plain": [digits()],
    "regularised": [
        digits(l1=1e-4, clip_norm=0.5, nesterov=True),
        digits(loss="ce", seed=2, optimizer="adam", learning_rate=1e-3, weight_decay=1e-3),
    ],
    "some fast, some not": [
        digits(ema=0.9),
        digits(seed=2, optimizer="adamw", learning_rate=1e-3, gradient_quantiles=True),
    ],
    "masks": [masks(loss="t-loss"), masks(loss="anl-ce", seed=2)],
}


@pytest.mark.parametrize(
    ("which", "stops"), [(which, (1, 3)) for which in PACKS if which != "masks"] + [("masks", (1,))]
)
def test_a_pack_is_its_runs_step_by_step(tmp_path, monkeypatch, which, stops):
    """Stopped on the way, too. An augmentation is drawn for a block of steps: an epoch of masks has one step."""
    packed = []
    usual = SideBySide.__init__
    monkeypatch.setattr(
        SideBySide, "__init__", lambda self, runs, *more: (packed.append(runs), usual(self, runs, *more))[0]
    )
    for steps in stops:
        with monkeypatch.context() as patch:
            patch.setattr(engine_module, "Interruption", lambda steps=steps: StopAfter(steps))
            with pytest.raises(Interrupted):
                train_pack(PACKS[which], folder=tmp_path / "pack", quiet=True)
    train_pack(PACKS[which], folder=tmp_path / "pack", quiet=True)
    assert packed
    assert all(run.fast is not None for runs in packed for run in runs if run.config.optimizer != "adamw")
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: False)
    for config in PACKS[which]:
        train(config, folder=tmp_path / "alone", quiet=True)
        with Store(tmp_path / "pack") as pack, Store(tmp_path / "alone") as alone:
            both = pack.get(config.run_id).epochs, alone.get(config.run_id).epochs
        for found, expected in zip(*both, strict=True):
            assert found.keys() == expected.keys()
            for key in METRICS:
                assert found[key] == pytest.approx(expected[key], rel=2e-3, abs=1e-6), key
            for key in TESTED:
                assert found.get(key) == pytest.approx(expected.get(key), abs=1.0), key
