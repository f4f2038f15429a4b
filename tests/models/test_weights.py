# SPDX-License-Identifier: Apache-2.0
"""Weights to a file and back: what is loaded, what is left out, and what the report says."""

import sys

import pytest
import torch
from tests.models.small_forms import small
from torch import nn

from noiseproof import models
from noiseproof.models import WeightsError, load_weights, save_weights


def mlp(num_classes=10, seed=1, **options):
    return models.create("mlp", num_classes, seed=seed, **({"in_features": 6, "hidden": [5]} | options))


NAMES = ("hidden.0.weight", "hidden.0.bias", "fc.weight", "fc.bias")


def assert_equal(model, other):
    theirs = other.state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("name", ["cnn8", "resnet18", "resnet50-cifar", "vgg19-bn", "mlp"])
def test_what_is_saved_is_loaded(name, tmp_path):
    model, images = small(name)
    model(images)  # moves the running statistics
    file = tmp_path / "model.safetensors"
    save_weights(model.to(memory_format=torch.channels_last), file)
    fresh = small(name, seed=2)[0]
    report = load_weights(fresh, file)
    assert_equal(fresh, model)
    assert set(report.loaded) == set(model.state_dict())
    assert report.skipped == report.missing == report.unexpected == ()


@pytest.mark.parametrize("suffix", [".pth", ".pt"])
def test_torch_files_load(suffix, tmp_path):
    file = tmp_path / f"model{suffix}"
    torch.save(mlp().state_dict(), file)
    fresh = mlp(seed=2)
    assert load_weights(fresh, str(file)).loaded == NAMES
    assert_equal(fresh, mlp())


@pytest.mark.parametrize(
    ("name", "final"), [("resnet18", "fc"), ("vgg19-bn", "classifier.6"), ("cnn8", "fc")]
)
def test_a_final_layer_of_other_classes_is_left_out(name, final, tmp_path):
    published, _ = small(name, num_classes=1000)
    torch.save(published.state_dict(), tmp_path / "published.pth")
    model, _ = small(name, seed=2)
    own_head = model.get_submodule(final).weight.clone()
    report = load_weights(model, tmp_path / "published.pth")
    assert set(report.skipped) == {f"{final}.weight", f"{final}.bias"}
    assert report.missing == report.unexpected == ()
    assert len(report.loaded) == len(model.state_dict()) - 2
    assert torch.equal(model.get_submodule(final).weight, own_head)
    assert torch.equal(next(model.parameters()), next(published.parameters()))
    assert (
        f"the final layer {final} keeps its own weights, since the file has 1000 classes and the model 10"
        in str(report)
    )


def test_a_final_layer_of_as_many_classes_is_loaded(tmp_path):
    torch.save(mlp().state_dict(), tmp_path / "model.pt")
    assert "the final layer fc among them" in str(load_weights(mlp(seed=2), tmp_path / "model.pt"))


def test_a_file_without_a_final_layer_is_fine_and_said(tmp_path):
    backbone = {name: tensor for name, tensor in mlp().state_dict().items() if not name.startswith("fc.")}
    torch.save(backbone, tmp_path / "backbone.pt")
    report = load_weights(mlp(seed=2), tmp_path / "backbone.pt")
    assert report.missing == ("fc.weight", "fc.bias")
    assert "since the file has none; not in the file: fc.weight, fc.bias" in str(report)


def test_a_final_layer_of_another_width_is_an_error(tmp_path):
    state = mlp(num_classes=1000).state_dict() | {"fc.weight": torch.zeros(1000, 7)}
    torch.save(state, tmp_path / "model.pt")
    with pytest.raises(WeightsError, match=r"fc.weight: expected shape \(10, 5\), found \(1000, 7\)"):
        load_weights(mlp(), tmp_path / "model.pt")


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda state: {"state_dict": state, "epoch": 3, "arch": "mlp"},
        lambda state: {"model": state, "optimizer": {"lr": 0.1}},
        lambda state: {"model_state_dict": state},
        lambda state: {f"module.{name}": tensor for name, tensor in state.items()},
        lambda state: {f"module._orig_mod.{name}": tensor for name, tensor in state.items()},
        lambda state: {"state_dict": {f"model.{name}": tensor for name, tensor in state.items()}},
        lambda state: {"n_averaged": torch.tensor(9)} | {f"module.{n}": t for n, t in state.items()},
    ],
)
def test_common_wrappers_are_taken_off(wrapped, tmp_path):
    torch.save(wrapped(mlp().state_dict()), tmp_path / "checkpoint.pth")
    fresh = mlp(seed=2)
    assert load_weights(fresh, tmp_path / "checkpoint.pth").loaded == NAMES
    assert_equal(fresh, mlp())


def test_a_prefix_that_the_model_has_too_stays(tmp_path):
    model, fresh = nn.ModuleDict({"model": mlp()}), nn.ModuleDict({"model": mlp(seed=2)})
    save_weights(model, tmp_path / "inner.safetensors")
    load_weights(fresh, tmp_path / "inner.safetensors")
    assert_equal(fresh, model)


def test_compiled_and_parallel_models_save_plain_names(tmp_path):
    for wrapped in (torch.compile(mlp(), backend="eager"), nn.DataParallel(mlp())):
        save_weights(wrapped, tmp_path / "model.safetensors")
        fresh = mlp(seed=2)
        assert load_weights(fresh, tmp_path / "model.safetensors").loaded == NAMES
        other = torch.compile(mlp(seed=3), backend="eager")
        load_weights(other, tmp_path / "model.safetensors")
        assert_equal(fresh, other._orig_mod)


def test_a_smaller_model_does_not_half_fill_a_larger_one(tmp_path):
    save_weights(small("resnet18")[0], tmp_path / "resnet18.safetensors")
    larger, untouched = small("resnet34")[0], small("resnet34")[0]
    with pytest.raises(
        WeightsError, match=r"made for another model: the file lacks layer1.2.conv1.weight, .* and \d+ more"
    ):
        load_weights(larger, tmp_path / "resnet18.safetensors")
    assert_equal(larger, untouched)
    report = load_weights(larger, tmp_path / "resnet18.safetensors", partial=True)
    assert "layer1.2.conv1.weight" in report.missing
    assert report.unexpected == ()
    save_weights(untouched, tmp_path / "resnet34.safetensors")
    with pytest.raises(WeightsError, match="the model lacks layer1.2"):
        load_weights(small("resnet18")[0], tmp_path / "resnet34.safetensors")


def test_files_from_before_batch_counters_load(tmp_path):
    state = small("cnn8")[0].state_dict()
    old = {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
    torch.save(old, tmp_path / "old.pth")
    report = load_weights(small("cnn8", seed=2)[0], tmp_path / "old.pth")
    assert len(report.missing) == 7
    assert all(name.endswith("num_batches_tracked") for name in report.missing)


def test_other_shapes_are_an_error_and_leave_the_model_alone(tmp_path):
    save_weights(small("resnet18")[0], tmp_path / "imagenet.safetensors")
    model, untouched = small("resnet18-cifar")[0], small("resnet18-cifar")[0]
    with pytest.raises(WeightsError) as caught:
        load_weights(model, tmp_path / "imagenet.safetensors")
    assert "conv1.weight: expected shape (64, 3, 3, 3), found (64, 3, 7, 7)" in str(caught.value)
    assert_equal(model, untouched)


def test_a_file_of_something_else_is_an_error(tmp_path):
    save_weights(nn.Conv2d(1, 1, 1), tmp_path / "other.safetensors")
    with pytest.raises(WeightsError, match="no tensor fits; it has bias, weight, the model hidden.0.weight"):
        load_weights(mlp(), tmp_path / "other.safetensors", partial=True)


def test_half_precision_files_fill_full_precision_models(tmp_path):
    save_weights(mlp().bfloat16(), tmp_path / "half.safetensors")
    fresh = mlp(seed=2)
    load_weights(fresh, tmp_path / "half.safetensors")
    assert fresh.fc.weight.dtype == torch.float32
    torch.testing.assert_close(fresh.fc.weight, mlp().fc.weight, rtol=2**-8, atol=0)


def test_gradients_and_the_parameters_themselves_stay(tmp_path):
    save_weights(mlp(), tmp_path / "model.safetensors")
    fresh = mlp(seed=2)
    optimizer = torch.optim.SGD(fresh.parameters(), lr=0.1)
    load_weights(fresh, tmp_path / "model.safetensors")
    assert all(p.requires_grad and p.is_leaf for p in fresh.parameters())
    assert optimizer.param_groups[0]["params"][0] is fresh.hidden[0].weight


def test_saving_is_all_or_nothing(tmp_path, monkeypatch):
    file = tmp_path / "model.safetensors"
    save_weights(mlp(), file)
    before = file.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save_weights(mlp(seed=2), file)
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
    assert file.read_bytes() == before


def test_the_same_weights_give_the_same_bytes(tmp_path):
    written = set()
    for number in range(12):  # what safetensors has no order for comes in another one each time
        save_weights(mlp(), tmp_path / f"{number}.safetensors")
        written.add((tmp_path / f"{number}.safetensors").read_bytes())
    assert len(written) == 1


def test_only_safetensors_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"path: expected a name ending in .safetensors, got .*model.pth"):
        save_weights(mlp(), tmp_path / "model.pth")


def test_without_safetensors_the_error_says_what_to_install(tmp_path, monkeypatch):
    save_weights(mlp(), tmp_path / "model.safetensors")
    torch.save(mlp().state_dict(), tmp_path / "model.pth")
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    for act in (save_weights, load_weights):
        with pytest.raises(
            ImportError, match=r"model.safetensors needs safetensors, .*: pip install safetensors"
        ):
            act(mlp(), tmp_path / "model.safetensors")
    load_weights(mlp(), tmp_path / "model.pth")


def test_a_model_without_memory_is_refused(tmp_path):
    save_weights(mlp(), tmp_path / "model.safetensors")
    with torch.device("meta"):
        empty = mlp()
    with pytest.raises(ValueError, match="model: expected weights in memory, got a model on the meta device"):
        load_weights(empty, tmp_path / "model.safetensors")


def test_timm_says_which_layer_is_its_final_one(tmp_path):
    class LikeTimm(nn.Module):
        def __init__(self, num_classes):
            super().__init__()
            self.head = nn.Linear(4, num_classes)
            self.other = nn.Linear(4, 4)

        def get_classifier(self):
            return self.head

    save_weights(LikeTimm(1000), tmp_path / "model.safetensors")
    report = load_weights(LikeTimm(10), tmp_path / "model.safetensors")
    assert report.skipped == ("head.weight", "head.bias")
