# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from noiseproof import datasets
from noiseproof.datasets import DataError, digits


def test_the_split_is_fixed_and_stratified() -> None:
    train, test = datasets.load("digits"), datasets.load("digits", "test")
    assert (len(train), len(test)) == (1438, 359)
    shares = np.bincount(test.labels) / (np.bincount(train.labels) + np.bincount(test.labels))
    assert np.all(np.abs(shares - 0.2) < 0.005)
    assert train.fingerprint.startswith("6168238d240f807f")
    assert test.fingerprint.startswith("77840e452c587e94")


def test_every_image_is_in_exactly_one_part() -> None:
    parts = [datasets.load("digits", split) for split in ("train", "test")]
    images = np.concatenate([part.images for part in parts if part.images is not None])
    ink = np.rint(images[..., 0].astype(float) * 16 / 255).astype(int)
    assert sorted(image.tobytes() for image in ink) == sorted(
        image.tobytes() for image in load_digits().images.astype(int)
    )


def test_the_scale_keeps_all_levels_apart() -> None:
    images = datasets.load("digits").images
    assert images is not None
    levels = np.unique(images)
    assert len(levels) == 17
    assert (levels[0], levels[-1]) == (0, 255)


def test_other_digits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "_KNOWN_LABELS", "0" * 16)
    with pytest.raises(DataError, match="not the 1,797 known ones"):
        datasets.load("digits")


def test_they_are_the_same_by_way_of_scikit_learn_and_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from_file = digits._ink_and_labels.__wrapped__()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    by_import = digits._ink_and_labels.__wrapped__()
    for mine, theirs in zip(from_file, by_import, strict=True):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)


def test_reading_them_does_not_import_scikit_learn() -> None:
    code = (
        "import sys; from noiseproof.datasets import load; load('digits'); sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_written(tmp_path: Path) -> None:
    datasets.get("digits", root=tmp_path)
    datasets.load("digits", root=tmp_path)
    assert list(tmp_path.iterdir()) == []
