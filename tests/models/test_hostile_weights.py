# SPDX-License-Identifier: Apache-2.0
"""Weight files that are damaged, cut short or malicious: a clear error, nothing run, nothing changed."""

import io
import os
import pickle
import zipfile

import pytest
import torch

from noiseproof import models
from noiseproof.models import WeightsError, load_weights, save_weights


def mlp(seed=1):
    return models.create("mlp", 10, in_features=6, hidden=[5], seed=seed)


def refuse(file, message):
    """The file is refused with the message, in one line that names it, and the model is as it was."""
    model, untouched = mlp(), mlp()
    with pytest.raises(WeightsError, match=message) as caught:
        load_weights(model, file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)
    assert "weights_only=False" not in str(caught.value)
    for tensor, other in zip(model.parameters(), untouched.parameters(), strict=True):
        assert torch.equal(tensor, other)


class RunsACommand:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_malicious_pickle_is_refused_and_not_run(legacy, tmp_path):
    trace, file = tmp_path / "was-run", tmp_path / "model.pth"
    state = mlp().state_dict() | {"payload": RunsACommand(trace)}
    torch.save(state, file, _use_new_zipfile_serialization=not legacy)
    refuse(
        file, "refused, since it holds more than tensors and numbers and loading it could run code .*mkdir"
    )
    assert not trace.exists()


def test_a_plain_pickle_is_refused_and_not_run(tmp_path):
    trace, file = tmp_path / "was-run", tmp_path / "model.pt"
    file.write_bytes(pickle.dumps(RunsACommand(trace)))
    refuse(file, "refused|damaged")
    assert not trace.exists()


def test_a_pickled_model_is_refused_with_advice(tmp_path):
    torch.save(mlp(), tmp_path / "model.pt")
    refuse(tmp_path / "model.pt", r"refused, .*save model.state_dict\(\) alone")


def test_refusal_cannot_be_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    torch.save({"payload": RunsACommand(tmp_path / "was-run")}, tmp_path / "model.pth")
    refuse(tmp_path / "model.pth", "refused")
    assert not (tmp_path / "was-run").exists()


def good_bytes(suffix, tmp_path):
    file = tmp_path / f"good{suffix}"
    if suffix == ".safetensors":
        save_weights(mlp(seed=2), file)
    else:
        torch.save(mlp(seed=2).state_dict(), file)
    return file.read_bytes()


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files(suffix, share, tmp_path):
    content = good_bytes(suffix, tmp_path)
    file = tmp_path / f"cut{suffix}"
    file.write_bytes(content[: int(share * len(content))])
    refuse(file, "damaged, or not a")


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
@pytest.mark.parametrize(
    "content",
    [b"<html>404</html>", b"\x00" * 4096, b"\xff" * 4096, b"\x80\x02}q\x00.", b"PK\x03\x04" + b"x" * 99],
)
def test_files_of_something_else(suffix, content, tmp_path):
    file = tmp_path / f"other{suffix}"
    file.write_bytes(content)
    refuse(file, "damaged, or not a|expected a dictionary of named tensors")


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_flipped_bytes_never_escape_as_other_errors(suffix, tmp_path):
    """A changed byte may be in a tensor's values and go unnoticed; anything noticed is a WeightsError."""
    content = good_bytes(suffix, tmp_path)
    file = tmp_path / f"flipped{suffix}"
    noticed = 0
    for position in range(0, len(content), max(1, len(content) // 150)):
        changed = bytearray(content)
        changed[position] ^= 0xFF
        file.write_bytes(changed)
        try:
            load_weights(mlp(), file)
        except WeightsError:
            noticed += 1
    assert noticed > 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "expected a dictionary of named tensors, found a value of type list"),
        ({}, "expected a dictionary of named tensors, found an empty one"),
        ({"state_dict": {}}, "expected a dictionary of named tensors, found an empty one"),
        ({"fc.weight": "text"}, "found a value of type str under 'fc.weight'"),
        ({1: torch.zeros(1)}, "under 1"),
        (
            {"fc.weight": torch.eye(3).to_sparse()},
            "fc.weight: expected a dense tensor with values, found .*sparse",
        ),
        ({"fc.weight": torch.empty(10, 5, device="meta")}, "fc.weight: expected a dense tensor .* on meta"),
    ],
)
def test_content_that_is_no_weights(content, message, tmp_path):
    torch.save(content, tmp_path / "model.pt")
    refuse(tmp_path / "model.pt", message)


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        (torch.full((10,), float("nan")), "fc.bias: expected finite values"),
        (torch.full((10,), float("inf")), "fc.bias: expected finite values"),
        (
            torch.full((10,), 1e300, dtype=torch.float64),
            "fc.bias: expected finite values, .* beyond torch.float32",
        ),
        (torch.zeros(10, dtype=torch.complex64), "fc.bias: expected values of type torch.float32"),
        (torch.zeros(1).expand(10**12), r"fc.bias: expected shape \(10,\), found \(1000000000000,\)"),
    ],
)
def test_values_that_are_no_weights(bias, message, tmp_path):
    torch.save(mlp().state_dict() | {"fc.bias": bias}, tmp_path / "model.pt")
    refuse(tmp_path / "model.pt", message)


def test_torchscript_is_refused(tmp_path):
    file = tmp_path / "scripted.pt"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/constants.pkl", b"\x80\x02).")
        archive.writestr("model/data.pkl", b"\x80\x02N.")
        archive.writestr("model/version", b"3\n")
    file.write_bytes(buffer.getvalue())
    refuse(file, "damaged, or not a file of torch.save")


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.pth: there is no such weight file"):
        load_weights(mlp(), tmp_path / "nowhere.pth")


def test_a_folder_and_an_unknown_ending(tmp_path):
    (tmp_path / "folder.pth").mkdir()
    refuse(tmp_path / "folder.pth", "expected a file, found a folder")
    (tmp_path / "model.h5").write_bytes(b"x")
    refuse(
        tmp_path / "model.h5", r"expected a weight file ending in one of .safetensors, .pth, .pt, got '.h5'"
    )
