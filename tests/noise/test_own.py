# SPDX-License-Identifier: Apache-2.0
"""Noise of the user's own, in training and in grids."""

import numpy as np
import pytest

from noiseproof import noise
from noiseproof.grids import Grid, Method
from noiseproof.noise import names, own
from noiseproof.training import resolve, train


@pytest.fixture
def blur():
    """Labels of dark pictures become the next class, until so many are wrong."""

    def draw(samples, rate, random):
        darkness = samples.images.mean((1, 2, 3)) + random.rand(len(samples.labels))
        wrong = darkness < np.quantile(darkness, rate)
        return np.where(wrong, (samples.labels + 1) % samples.num_classes, samples.labels)

    noise.register("blur", draw)
    yield
    del own._DRAWS["blur"], names._NUMBERS["blur"]


def test_it_trains_and_is_recorded(blur, tmp_path):
    config = resolve("digits", noise="blur-0.30", loss="ce", epochs=1, seed=3)
    assert config.noise == "blur-0.3"
    record = train(config, folder=tmp_path, quiet=True)
    assert record.status == "finished"
    assert record.noise["realised_rate"] == pytest.approx(0.3, abs=0.01)
    assert record.noise["kind"] == "blur"
    assert {"clean_accuracy", "flipped_accuracy"} <= set(record.epochs[-1])
    again = train(config, folder=tmp_path / "again", quiet=True)
    assert again.result == record.result


def test_a_grid_takes_it(blur):
    grid = Grid("mine", "Mine", "digits", "table", (Method("CE", "ce"),), ("clean", "blur-0.2"), (1,))
    assert [cell.config.noise for cell in grid.cells()] == ["clean", "blur-0.2"]


def test_names_are_checked(blur):
    with pytest.raises(ValueError, match="'blur' is known already"):
        noise.register("blur", lambda *_: [])
    with pytest.raises(ValueError, match="small letters"):
        noise.register("Blur-2", lambda *_: [])
    with pytest.raises(ValueError, match="form blur-RATE"):
        noise.parse_name("blur")


def test_labels_that_do_not_fit_are_refused(blur, monkeypatch, tmp_path):
    short, outside = (lambda s, *_: s.labels[:5]), (lambda s, *_: s.labels + 5)
    for wrong, message in ((short, "expected 1438 labels, got 5"), (outside, "labels of the noise 'blur'")):
        monkeypatch.setitem(own._DRAWS, "blur", wrong)
        with pytest.raises(ValueError, match=message):
            train(resolve("digits", noise="blur-0.3", epochs=1), folder=tmp_path, quiet=True)
