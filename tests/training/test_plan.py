"""Plans for data of the user's own: every choice has a reason, and what was said is left alone."""

import pytest

from noiseproof.losses import published_recipe
from noiseproof.training import plan as room
from noiseproof.training import resolve
from noiseproof.training.plan import plan_for


@pytest.fixture
def folder(photos):
    return f"folder:{photos()}"


def chosen(choices):
    return {choice.field: choice.value for choice in choices}


def test_a_plan_is_all_that_a_config_needs(folder):
    plan = plan_for(folder, {})
    config = resolve(folder, **chosen(plan))
    assert (config.model, config.image_size, config.batch_size) == ("resnet18", 64, 32)
    assert (config.loss, config.l1, config.weight_decay) == ("anl-ce", 5e-5, 0.0)
    assert config.loss_parameters == {"alpha": 5.0, "beta": 5.0}
    assert 20 <= config.epochs <= 120
    assert all(choice.reason for choice in plan)
    assert len({choice.field for choice in plan}) == len(plan)


def test_what_was_said_is_not_chosen(folder):
    said = {"model": "mlp", "epochs": 3, "learning_rate": 0.5, "image_size": 8, "l1": 0.0, "loss": "anl-ce"}
    assert set(chosen(plan_for(folder, said))) == {"batch_size", "loss_parameters"}
    assert "batch_size" not in chosen(plan_for(folder, {"batch_size": 7}))


def test_of_a_losss_parameters_only_those_not_said(folder):
    plan = plan_for(folder, {"loss_parameters": {"alpha": 2.0}})
    assert chosen(plan)["loss_parameters"] == {"beta": 5.0}
    plan = plan_for(folder, {"loss_parameters": {"alpha": 2.0, "beta": 0.0}})
    assert "loss_parameters" not in chosen(plan)


@pytest.mark.parametrize("loss", ["ANL-CE", "anl-fl", "anl-ce*", "nce+rce", "gce", "ce"])
@pytest.mark.parametrize(("many", "paper"), [(False, "cifar10"), (True, "cifar100")])
def test_a_loss_has_what_was_published_for_as_many_classes(folder, monkeypatch, loss, many, paper):
    monkeypatch.setattr(room, "MANY_CLASSES", 2 if many else 50)
    found = chosen(plan_for(folder, {"loss": loss}))
    published = published_recipe(loss, paper)
    assert found.get("loss_parameters", {}) == published.for_noise(None)
    assert found.get("l1", 0.0) == published.l1
    assert found.get("weight_decay") == (None if loss.lower().startswith("anl") else 1e-4)


def test_an_unknown_loss_is_refused_before_anything_is_planned(folder):
    with pytest.raises(ValueError, match="did you mean 'anl-ce'"):
        plan_for(folder, {"loss": "anlce"})


@pytest.mark.parametrize(("count", "epochs"), [(1_000, 120), (50_000, 51), (1_000_000, 20)])
def test_longer_data_shorter_plans(monkeypatch, count, epochs):
    class Pretended:
        num_classes, masks = 3, None

        def __len__(self):
            return count

    monkeypatch.setattr(room.datasets, "load", lambda name: Pretended())
    found = chosen(plan_for("folder:x", {}))
    assert found["epochs"] == epochs
    assert found["batch_size"] == (32 if count < 5_000 else 128)
    assert found["image_size"] == (64 if count < 20_000 else 128)
