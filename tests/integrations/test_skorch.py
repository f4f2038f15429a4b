# SPDX-License-Identifier: Apache-2.0
"""skorch with a loss of ours: probabilities are probabilities, the penalty acts, grids can vary both."""

import numpy as np
import pytest
import torch
from torch import nn

skorch = pytest.importorskip("skorch")

from sklearn.model_selection import GridSearchCV  # noqa: E402

from noiseproof.integrations.skorch import robust_net  # noqa: E402


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


@pytest.fixture
def data():
    x = np.random.default_rng(0).normal(size=(240, 4)).astype("float32")
    return x, x[:, :3].argmax(1)


def net(**arguments):
    return robust_net(
        Network, max_epochs=15, lr=0.1, optimizer=torch.optim.Adam, verbose=0, train_split=None, **arguments
    )


def test_it_learns_and_predicts_probabilities(data):
    fitted = net(criterion__alpha=5.0).fit(*data)
    probabilities = fitted.predict_proba(data[0])
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)
    assert (probabilities >= 0).all()
    assert fitted.score(*data) > 0.9


def test_the_penalty_shrinks_the_weights(data):
    sizes = [net(l1=l1).fit(*data).module_.layer.weight.abs().sum().item() for l1 in (0.0, 1.0)]
    assert sizes[1] < 0.5 * sizes[0]


def test_a_grid_search_varies_the_loss_and_the_penalty(data):
    grid = {"criterion__alpha": [1.0, 5.0], "callbacks__l1__strength": [0.0, 1e-3]}
    search = GridSearchCV(net(), grid, cv=2, refit=False).fit(*data)
    assert len(search.cv_results_["mean_test_score"]) == 4
    assert search.best_score_ > 0.8


def test_callbacks_are_added_to_the_penalty(data):
    assert net(callbacks=None).fit(*data).score(*data) > 0.9
    clipping = skorch.callbacks.GradientNormClipping(5.0)
    names = [each[0] for each in net(l1=1e-4, callbacks=[("clip", clipping)]).callbacks]
    assert names == ["l1", "clip"], "the penalty is clipped too"
    with pytest.raises(ValueError, match="callbacks: expected a list of callbacks or None, got 'disable'"):
        net(callbacks="disable")
