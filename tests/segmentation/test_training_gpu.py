# SPDX-License-Identifier: Apache-2.0
"""What only a GPU can show: masks in captured packs, alone or not, stopped or not, in float32 and bfloat16."""

import pytest
import torch
from tests.stopping import StopAfter

from noiseproof.training import Interrupted, resolve, train, train_pack
from noiseproof.training import engine as engine_module
from noiseproof.training.store import Store

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

LOSSES = ("ce", "t-loss", "anl-ce", "ce+dice", "gce")


def small(**changes):
    said = {"noise": "masks-0.7-0.7", "epochs": 2, "device": "cuda", "train_size": 90, "seed": 1}
    return resolve("blobs", **(said | changes))


def epochs_of(folder, config):
    with Store(folder) as store:
        return store.get(config.run_id).epochs


@pytest.mark.parametrize("loss", LOSSES)
def test_a_captured_first_step_is_the_step_itself(tmp_path, monkeypatch, loss):
    """One epoch of one step, whose draw is the same both ways; later epochs draw in other blocks."""
    config = small(loss=loss, epochs=1, train_size=16)
    captured = train(config, folder=tmp_path / "captured", quiet=True)
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: False)
    stepwise = train(config, folder=tmp_path / "stepwise", quiet=True)
    assert captured.epochs[0]["loss"] == pytest.approx(stepwise.epochs[0]["loss"], rel=1e-4)
    assert captured.epochs[0]["clean_accuracy"] == pytest.approx(
        stepwise.epochs[0]["clean_accuracy"], abs=0.05
    )
    assert captured.epochs[0]["test_dice"] == pytest.approx(stepwise.epochs[0]["test_dice"], abs=1.0)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_run_does_not_depend_on_its_pack(tmp_path, precision):
    configs = [small(loss=loss, seed=seed, precision=precision) for seed, loss in enumerate(LOSSES)]
    train_pack(configs, folder=tmp_path / "pack", quiet=True)
    tolerance = 1e-3 if precision == "float32" else 3e-2
    for config in configs:
        train(config, folder=tmp_path / "alone", quiet=True)
        for one, other in zip(
            epochs_of(tmp_path / "pack", config), epochs_of(tmp_path / "alone", config), strict=True
        ):
            assert one["loss"] == pytest.approx(other["loss"], rel=tolerance)
            if config.loss == "t-loss":
                assert one["loss_learned"]["nu"] == pytest.approx(other["loss_learned"]["nu"], abs=1e-3)
                assert one["loss_learned"]["nu"] != 1.0


def test_stopped_and_gone_on(tmp_path, monkeypatch):
    configs = [small(loss="t-loss"), small(loss="anl-ce", seed=2)]
    whole = train_pack(configs, folder=tmp_path / "whole", quiet=True)
    for steps in (2, 5):
        monkeypatch.setattr(engine_module, "Interruption", lambda steps=steps: StopAfter(steps))
        with pytest.raises(Interrupted):
            train_pack(configs, folder=tmp_path / "parts", quiet=True)
    monkeypatch.undo()
    parts = train_pack(configs, folder=tmp_path / "parts", quiet=True)
    for one, other in zip(whole, parts, strict=True):
        assert other.epochs[-1]["loss"] == pytest.approx(one.epochs[-1]["loss"], rel=1e-3)


def test_it_learns(tmp_path):
    config = small(loss="anl-ce", noise="clean", epochs=12, train_size=None, precision="bf16")
    assert train(config, folder=tmp_path, quiet=True).epochs[-1]["test_dice"] > 85
