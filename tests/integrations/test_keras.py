# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on the torch backend with a loss of ours."""

import os

import numpy as np
import pytest
import torch

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", exc_type=ImportError)

from noiseproof.integrations.keras import KerasLoss  # noqa: E402
from noiseproof.losses import create  # noqa: E402

pytestmark = pytest.mark.skipif(keras.backend.backend() != "torch", reason="Keras runs on another backend")


def test_values_for_indices_columns_and_probabilities():
    logits, labels = torch.randn(5, 4), torch.tensor([0, 1, 2, 3, 1])
    expected = create("anl-ce", alpha=2.0)(logits, labels).item()
    loss = KerasLoss("anl-ce", alpha=2.0)
    one_hot = torch.nn.functional.one_hot(labels, 4)
    for target in (labels, labels[:, None], one_hot):
        assert float(loss(target, logits)) == pytest.approx(expected, rel=1e-5)
    weights = torch.tensor([1.0, 0.0, 2.0, 0.0, 0.0])
    each = create("anl-ce", alpha=2.0, reduction="none")(logits, labels)
    assert float(loss(labels, logits, sample_weight=weights)) == pytest.approx(
        float((each * weights).sum() / 5)
    )


def test_pixels_have_their_classes_last():
    logits, labels = torch.randn(2, 3, 3, 4), torch.randint(4, (2, 3, 3))
    expected = create("anl-ce")(logits.movedim(-1, 1), labels).item()
    assert float(KerasLoss("anl-ce")(labels, logits)) == pytest.approx(expected, rel=1e-5)


def test_class_weights_go_where_the_logits_are():
    loss = KerasLoss("ce", weight=[1.0, 2.0, 3.0], reduction="none")
    labels, logits = torch.zeros(4, dtype=torch.long), torch.zeros(4, 3)
    assert loss.call(labels, logits).device.type == "cpu"
    assert loss.call(labels.to("meta"), logits.to("meta")).device.type == "meta"


def test_what_is_no_loss_and_what_are_no_logits_of_classes_is_refused():
    with pytest.raises(TypeError, match="loss: expected a text, got ANLCrossEntropy"):
        KerasLoss(create("anl-ce"))
    with pytest.raises(ValueError, match=r"y_pred: expected a logit for each .* got shape \(4, 1\)"):
        KerasLoss("anl-ce")(torch.ones(4, 1), torch.zeros(4, 1))


def test_a_model_fits_and_is_saved_with_its_loss(tmp_path):
    keras.utils.set_random_seed(1)
    x = np.random.default_rng(0).normal(size=(300, 4)).astype("float32")
    y = x[:, :3].argmax(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(optimizer=keras.optimizers.Adam(0.05), loss=KerasLoss("anl-ce"), metrics=["accuracy"])
    model.fit(x, y, epochs=8, batch_size=50, verbose=0)
    assert model.evaluate(x, y, verbose=0)[1] > 0.9
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", custom_objects={"KerasLoss": KerasLoss})
    assert again.evaluate(x, y, verbose=0)[0] == pytest.approx(model.evaluate(x, y, verbose=0)[0])
