# SPDX-License-Identifier: Apache-2.0
"""Losses of the user's own: a result of older code does not pass silently for one of the newer."""

import importlib
import os
import sys
import warnings

import pytest
from tests.stopping import StopAfter

from noiseproof.losses import catalogue
from noiseproof.training import Interrupted, own_code, resolve, train, train_pack
from noiseproof.training import engine as engine_module
from noiseproof.training.store import Store

CODE = """
from noiseproof.losses import CrossEntropy, LossRecord, cross_entropy, register

class Mine(CrossEntropy):
    pass

register(LossRecord(name="mine", title="Mine", formula="-log p", range="[0, inf)", symmetric=False, paper="mine",
                    module=Mine, function=cross_entropy))
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    """The file that the loss is in; written again, it is another one, as after an edit and a new start."""
    file = tmp_path / "loss_of_mine.py"
    file.write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    own_code._digest.cache_clear()
    importlib.import_module("loss_of_mine")
    yield file
    catalogue._RECORDS.pop("mine")
    sys.modules.pop("loss_of_mine")
    own_code._digest.cache_clear()


def change(file):
    file.write_text(CODE + "# another line\n")
    os.utime(file, (1, 1))
    own_code._digest.cache_clear()


def small(**changes):
    said = {"noise": "sym-0.4", "epochs": 1, "device": "cpu", "train_size": 300, "loss": "mine"}
    return resolve("digits", **(said | changes))


def test_what_was_trained_with_other_code_is_named(tmp_path, code):
    configs = [small(), small(seed=2), small(loss="ce")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = train_pack(configs, folder=tmp_path / "runs", quiet=True)
        train(configs[0], folder=tmp_path / "runs", quiet=True)
    assert [list(record.environment.get(own_code.FIELD, ())) for record in records] == [["loss mine"]] * 2 + [
        []
    ]
    change(code)
    with pytest.warns(UserWarning, match="2 runs were trained with other code of the loss mine") as seen:
        again = train_pack(configs, folder=tmp_path / "runs", quiet=True)
    assert f"runs delete {configs[0].run_id}" in str(seen[0].message)
    assert [record.result for record in again] == [record.result for record in records]


def test_a_run_that_goes_on_with_other_code_is_named(tmp_path, code, monkeypatch):
    config = small()
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(2))
        with pytest.raises(Interrupted):
            train(config, folder=tmp_path / "runs", quiet=True)
    change(code)
    with pytest.warns(UserWarning, match=f"{config.run_id} was trained with other code of the loss mine"):
        train(config, folder=tmp_path / "runs", quiet=True)
    with Store(tmp_path / "runs") as store:
        assert store.get(config.run_id).status == "finished"


def test_a_run_that_failed_in_its_first_step_is_of_the_code_that_it_was_trained_with(
    tmp_path, code, monkeypatch
):
    """As after a slip in a loss of one's own: nothing of the older code is left, so nothing is to be told of it."""
    config, seen = small(), []

    def slip(*_):
        raise NameError("p_")

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["loss_of_mine"].Mine, "forward", slip)
        with pytest.raises(NameError):
            train(config, folder=tmp_path / "runs", quiet=True)
    with Store(tmp_path / "runs") as store:
        failed = store.get(config.run_id)
    assert failed.status == "failed"
    change(code)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # the second finds it finished
            seen.append(train(config, folder=tmp_path / "runs", quiet=True))
    for record in seen:
        assert record.environment[own_code.FIELD] == own_code.own_code_of(config)
        assert record.environment[own_code.FIELD] != failed.environment[own_code.FIELD]
        assert "resumed_in" not in record.environment
