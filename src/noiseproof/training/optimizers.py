# SPDX-License-Identifier: Apache-2.0
"""What moves the weights of a run: its optimiser, the learning rate, and a moving average that follows them."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from noiseproof.losses import TLoss
from noiseproof.training import ranks
from noiseproof.training.config import Config


def make_optimizer(config: Config, model: nn.Module, loss: nn.Module) -> torch.optim.Optimizer:
    """Optimiser of a config; on a GPU one whose steps can be captured, with a learning rate that can change.

    What a loss learns itself are groups of their own, without weight decay. T-Loss has a rate of its own, which the
    schedule leaves alone; others learn at the network's.
    """
    optimizer = _optimizer_of_network(config, model)
    for group in _groups_of_loss(loss):
        (parameter,) = group["params"]
        if "lr" in group and parameter.is_cuda:
            group["lr"] = torch.tensor(group["lr"], device=parameter.device)
        if ranks.count() > 1:  # the network's gradients are averaged by its wrapper, these by themselves
            parameter.register_hook(lambda gradient: ranks.summed(gradient) / ranks.count())
        optimizer.add_param_group(group)
    return optimizer


def _groups_of_loss(loss: nn.Module) -> list[dict[str, Any]]:
    if isinstance(loss, TLoss):
        return [group | {"own_rate": True} for group in loss.parameter_groups()]
    return [{"params": [each], "weight_decay": 0.0} for each in loss.parameters() if each.requires_grad]


def _optimizer_of_network(config: Config, model: nn.Module) -> torch.optim.Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    on_gpu = parameters[0].is_cuda
    rate = torch.tensor(config.learning_rate, device=parameters[0].device) if on_gpu else config.learning_rate
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            rate,
            config.momentum,
            weight_decay=config.weight_decay,
            nesterov=config.nesterov,
            fused=on_gpu or None,
        )
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, rate, weight_decay=config.weight_decay, fused=on_gpu or None, capturable=on_gpu)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of all parameters but those that a loss learns itself."""
    for group in optimizer.param_groups:
        if group.get("own_rate"):
            continue
        if isinstance(group["lr"], Tensor):  # a number would be frozen into a captured step
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def restore(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take the sums of a checkpoint, whichever device wrote it, and nothing else."""
    ours = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, own in zip(optimizer.param_groups, ours, strict=True):
        group.update(own)  # it follows from config and device, whichever device wrote the checkpoint
    for parameter, sums in optimizer.state.items():
        tensors = {name: value for name, value in sums.items() if isinstance(value, Tensor)}
        for name, value in tensors.items():
            if name == "step":  # the fast form has one for all; elsewhere each parameter counts its own
                sums[name] = value.clone()
            else:  # fused steps want them dense, as the parameter is
                sums[name] = torch.empty_like(parameter, requires_grad=False).copy_(value)


class MovingAverage:
    """A copy of the network whose weights follow those of another one slowly."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = copy.deepcopy(model).requires_grad_(False), decay

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take a small step towards ``model``; counters and the like are copied."""
        for mine, theirs in zip(self.model.state_dict().values(), model.state_dict().values(), strict=True):
            if mine.is_floating_point():
                mine.lerp_(theirs, 1 - self.decay)
            else:
                mine.copy_(theirs)
