# SPDX-License-Identifier: Apache-2.0
"""What only a GPU can show: captured steps are the steps one by one, alone and in a pack, stopped or not."""

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

LOSSES = ("ce", "gce", "anl-ce", "anl-ce*", "nce+rce", "sce", "mae", "anl-fl")


def small(**changes):
    said = {
        "noise": "sym-0.4",
        "epochs": 3,
        "device": "cuda",
        "model": "mnist-cnn",
        "model_options": {},
        "batch_size": 64,
    }
    return resolve("digits", **(said | changes))


def curves(folder, config):
    with Store(folder) as store:
        return [epoch["loss"] for epoch in store.get(config.run_id).epochs]


def accuracies(folder, config):
    """Of the test set, epoch by epoch: what a graph reads must still be there when it is replayed."""
    with Store(folder) as store:
        epochs = store.get(config.run_id).epochs
    return [epoch["test_accuracy"] for epoch in epochs if epoch.get("test_accuracy") is not None]


def stepwise(monkeypatch):
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: False)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer": "adam", "learning_rate": 1e-3},
        {"optimizer": "adamw", "learning_rate": 1e-3, "ema": 0.9},
        {"l1": 1e-4, "clip_norm": 0.5, "nesterov": True},
        {"jacobian": 0.01},
        {"gradient_quantiles": True, "evaluate_every": 2},
        {"train_size": 129},
    ],
    ids=str,
)
def test_captured_steps_are_the_steps_one_by_one(tmp_path, monkeypatch, changes):
    """Up to the order of sums; the Jacobian's random directions are drawn in other blocks, hence its tolerance."""
    config = small(loss="anl-ce", **changes)
    train(config, folder=tmp_path / "captured", quiet=True)
    stepwise(monkeypatch)
    train(config, folder=tmp_path / "stepwise", quiet=True)
    tolerance = 0.2 if "jacobian" in changes else 2e-3
    assert curves(tmp_path / "captured", config) == pytest.approx(
        curves(tmp_path / "stepwise", config), rel=tolerance
    )
    found, expected = (accuracies(tmp_path / way, config) for way in ("captured", "stepwise"))
    if "train_size" not in changes:  # six steps teach nothing
        assert expected[-1] > 30
    assert found == pytest.approx(expected, abs=15 if "jacobian" in changes else 3)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_run_does_not_depend_on_its_pack(tmp_path, precision):
    """One config alone and in a pack of eight, every step of three epochs."""
    configs = [small(loss=loss, seed=seed, precision=precision) for seed, loss in enumerate(LOSSES)]
    train_pack(configs, folder=tmp_path / "pack", quiet=True)
    for config in configs[:4]:
        train(config, folder=tmp_path / "alone", quiet=True)
        tolerance = 1e-3 if precision == "float32" else 2e-2
        assert curves(tmp_path / "pack", config) == pytest.approx(
            curves(tmp_path / "alone", config), rel=tolerance
        )
        found, expected = (accuracies(tmp_path / way, config) for way in ("pack", "alone"))
        assert found == pytest.approx(expected, abs=5)


@pytest.mark.parametrize("steps", [5, 22, 30])
def test_stopped_and_continued(tmp_path, monkeypatch, steps):
    configs = [small(loss="anl-ce"), small(loss="ce", seed=2, optimizer="adam", learning_rate=1e-3)]
    train_pack(configs, folder=tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(steps))
        with pytest.raises(Interrupted):
            train_pack(configs, folder=tmp_path / "parts", quiet=True)
    train_pack(configs, folder=tmp_path / "parts", quiet=True)
    for config in configs:
        assert curves(tmp_path / "parts", config) == pytest.approx(
            curves(tmp_path / "whole", config), rel=2e-3
        )


def test_a_loss_that_explodes_is_found_when_the_epoch_is_written_down(tmp_path):
    configs = [small(loss="ce", learning_rate=1e30, clip_norm=0.0), small(loss="ce", seed=2)]
    failed, finished = train_pack(configs, folder=tmp_path, quiet=True, keep_going=True)
    assert (failed.status, finished.status) == ("failed", "finished")
    assert "in epoch 1 at step" in failed.error


def test_nothing_makes_the_host_wait(tmp_path):
    """From one epoch to the next nothing is copied so that the host waits for it: torch is told to refuse it."""
    from noiseproof.training.captured import SideBySide
    from noiseproof.training.data import load_data
    from noiseproof.training.run import Run

    config = small(loss="anl-ce*", epochs=4)
    data = load_data(config, torch.device("cuda"))
    way = SideBySide([Run(config, data), Run(small(loss="ce", epochs=4), data)])
    for _ in way.epoch():
        pass
    ends = way.end_epoch()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(2):
            for _ in way.epoch():
                pass
            ends += way.end_epoch()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for end in ends:
        end.wait()
    assert all(0 <= end.metrics()["test_accuracy"] <= 100 for end in ends)
