# SPDX-License-Identifier: Apache-2.0
"""What holds of every network of the catalogue: gradients, memory formats, element types, compilation."""

import copy
import pickle

import pytest
import torch
from tests.models.small_forms import assert_near, small
from torch import nn
from torch.nn.functional import cross_entropy

from noiseproof import models

ONE_OF_EACH_FAMILY = ("cnn8", "mnist-cnn", "resnet18", "resnet18-cifar", "vgg19-bn", "mlp")
COMPILED = [
    pytest.param(name, marks=() if name in ONE_OF_EACH_FAMILY else pytest.mark.slow)
    for name in models.available()
]
# With this scope tests stand network by network, which is then made once.
every_model = pytest.mark.parametrize("name", models.available(), scope="module")
one_of_each_family = pytest.mark.parametrize("name", ONE_OF_EACH_FAMILY, scope="module")
LABELS = torch.tensor([0, 4, 9])


@every_model
def test_gradient_reaches_every_parameter(name):
    # Evaluation mode: in training, batch norm takes the mean away, and with it the bias before it.
    model, images = small(name)
    cross_entropy(model.eval()(images), LABELS).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@every_model
def test_a_training_step_moves_weights_and_statistics(name):
    model, images = small(name)
    before = copy.deepcopy(model.state_dict())
    cross_entropy(model.train()(images), LABELS).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    for key, value in model.state_dict().items():
        assert torch.isfinite(value).all(), key
        if key.endswith(("running_mean", "running_var", "num_batches_tracked", "fc.weight")):
            assert not torch.equal(value, before[key]), key


@every_model
def test_channels_last_gives_the_same_logits(name):
    model, images = small(name)
    model.eval()
    with torch.no_grad():
        expected = model(images)
        model.to(memory_format=torch.channels_last)
        actual = model(images.to(memory_format=torch.channels_last))
    assert_near(actual, expected)


@every_model
def test_a_single_image_in_evaluation(name):
    model, images = small(name)
    model.eval()
    with torch.no_grad():
        expected = model(images)[:1]
        assert_near(model(images[:1]), expected)


@one_of_each_family
def test_bfloat16_is_near_float32(name):
    model, images = small(name)
    model.eval()
    with torch.no_grad():
        expected = model(images)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = model(images)
        pure = model.bfloat16()(images.bfloat16())
    for logits in (mixed, pure):
        assert logits.dtype == torch.bfloat16
        assert_near(logits, expected, share=0.02)  # bfloat16 keeps 8 bits; measured: 0.005 to 0.010


@pytest.mark.parametrize("name", COMPILED, scope="module")
def test_compiled_equals_eager(name):
    torch._dynamo.reset()
    model, images = small(name)
    model.eval()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_near(compiled(images), model(images))


@pytest.mark.parametrize("name", ["cnn8", "resnet18-cifar"])
def test_several_models_run_side_by_side_under_vmap(name):
    both = [small(name, seed=seed)[0].eval() for seed in (1, 2)]
    images = small(name)[1]
    weights, buffers = torch.func.stack_module_state(both)

    def logits(weights, buffers):
        return torch.func.functional_call(both[0], (weights, buffers), (images,))

    with torch.no_grad():
        together = torch.func.vmap(logits)(weights, buffers)
        for each, model in zip(together, both, strict=True):
            assert_near(each, model(images))


@one_of_each_family
def test_pickle_and_deepcopy(name):
    model, images = small(name)
    model.eval()
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(twin(images), model(images))


@one_of_each_family
def test_second_derivatives_exist(name):
    """The Jacobian regulariser differentiates through a gradient."""
    model, images = small(name)
    images.requires_grad_()
    (gradient,) = torch.autograd.grad(model.eval()(images).sum(), images, create_graph=True)
    gradient.square().sum().backward()
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_models_of_any_seed_share_no_memory():
    one, two = small("cnn8")[0], small("cnn8")[0]
    nn.init.zeros_(one.fc.weight)
    assert two.fc.weight.abs().max() > 0
