# SPDX-License-Identifier: Apache-2.0
"""Readers of recipes, checkpoints, trained models and the run store."""

from pathlib import Path

import wrapping
from targets.target import Target, written


def _recipe(content: bytes, folder: Path) -> object:
    from noiseproof.training.config import resolve

    config = resolve("digits", recipe=str(written(folder, "mine.toml", content)))
    return config.run_id, [config.learning_rate_at(epoch) for epoch in (0, config.epochs // 2)]


def _checkpoint(content: bytes, folder: Path) -> object:
    import torch

    from noiseproof.training import checkpoint

    path = written(folder, "checkpoint.pt", wrapping.checkpoint(content))
    state = checkpoint.load(path, torch.device("cpu"))
    if not isinstance(state, dict):
        raise AssertionError(f"a {type(state).__name__}")
    return state


_trained: dict[Path, bool] = {}


def _trained_model(content: bytes, folder: Path) -> object:
    from noiseproof import models
    from noiseproof.training.predict import load_trained

    if folder not in _trained:
        models.save_weights(
            models.create("mlp", 2, in_channels=1, image_size=(8, 8), hidden=(4,)),
            folder / "weights.safetensors",
        )
        _trained[folder] = True
    written(folder, "model.json", content)
    return load_trained(folder)


def _store(content: bytes, folder: Path) -> object:
    from noiseproof.training.store import Store

    for old in folder.glob("runs.sqlite*"):
        old.unlink()
    written(folder, "runs.sqlite", content)
    with Store(folder) as store:
        return [store.get(run.id) for run in store.runs()]


_CONFIG = (
    "training/config.py: __post_init__ _write_numbers_one_way read_recipe resolve _for_loss _published_noise "
    "_check_keys"
)
_STORE = ("StoreError", "DamagedStoreError", "NewerStoreError", "UnknownRunError", "AmbiguousRunError")
TARGETS = (
    Target(
        "recipe",
        _recipe,
        (_CONFIG, "training/config_checks.py"),
        ("ValueError", "TypeError", "UnknownDataError"),
    ),
    Target("checkpoint", _checkpoint, ("training/checkpoint.py: load",), ("BadCheckpointError",)),
    Target(
        "trained-model",
        _trained_model,
        ("training/predict.py: load_trained _network_of _check_facts fit_from_data",),
        ("ValueError", "WeightsError"),
    ),
    Target(
        "store",
        _store,
        (
            "training/store_file.py: open_for_reading plain_errors _opened _has_log",
            "training/store.py: get runs _reading _select _record",
        ),
        _STORE,
    ),
)
