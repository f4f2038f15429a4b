# SPDX-License-Identifier: Apache-2.0
"""Whether a loss keeps what torch's cross-entropy promises of its options: reduction, ignored labels, weights."""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from noiseproof.losses.module import RobustLoss


def with_options(loss: RobustLoss, **options: object) -> RobustLoss:
    """A copy of a loss with other options, and without the weights it had."""
    changed = copy.deepcopy(loss)
    changed.weight = None
    for name, value in options.items():
        setattr(changed, name, value)
    return changed


def try_options(loss: RobustLoss) -> Iterator[tuple[str, bool, str]]:
    """Each option's name, whether it does what it should, and what that is; where it does not, also why."""
    logits, labels = torch.randn(4, 5), torch.tensor([0, 1, 2, 4])
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    tried: tuple[tuple[str, str, Callable[[], bool]], ...] = (
        (
            "reduction",
            "none, sum and mean agree",
            lambda: (
                close(
                    with_options(loss, reduction="none")(logits, labels).sum(),
                    with_options(loss, reduction="sum")(logits, labels),
                )
                and close(
                    with_options(loss, reduction="none")(logits, labels).mean(),
                    with_options(loss, reduction="mean")(logits, labels),
                )
            ),
        ),
        (
            "ignore_index",
            "samples without a label add nothing to loss or gradient",
            lambda: _ignores(with_options(loss, reduction="sum", ignore_index=4), logits, labels),
        ),
        (
            "weight",
            "samples are weighted by their class",
            lambda: close(
                with_options(loss, reduction="sum", weight=weight)(
                    logits[:1].expand(2, -1), labels[2:3].expand(2)
                ),
                3 * with_options(loss, reduction="sum")(logits[:1].expand(2, -1), labels[2:3].expand(2)),
            ),
        ),
        (
            "probabilities",
            "as targets, they give the expected loss over the label",
            lambda: _takes_probabilities(with_options(loss, reduction="sum"), logits[:1]),
        ),
        (
            "images",
            "logits (N, K, H, W) take one label per pixel",
            lambda: close(
                with_options(loss, reduction="mean")(logits.T.reshape(1, 5, 2, 2), labels.reshape(1, 2, 2)),
                with_options(loss, reduction="mean")(logits, labels),
            ),
        ),
    )
    for subject, text, holds in tried:
        try:
            fine, why = holds(), "no"
        except Exception as error:  # whatever code of the user's raises
            fine, why = False, f"no: {type(error).__name__}: {error}"
        yield subject, fine, text if fine else f"{text}: {why}"


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two losses are the same but for float32's rounding."""
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def _ignores(loss: RobustLoss, logits: Tensor, labels: Tensor) -> bool:
    asked = logits.clone().requires_grad_()
    value = loss(asked, labels)
    (gradient,) = torch.autograd.grad(value, asked)
    used = labels != loss.ignore_index
    return close(value.detach(), loss(logits[used], labels[used])) and not gradient[~used].any()


def _takes_probabilities(loss: RobustLoss, logits: Tensor) -> bool:
    target = torch.tensor([[0.5, 0.2, 0.1, 0.2, 0.0]])
    given = torch.stack([loss(logits, torch.tensor([k])) for k in range(5)])
    return close(loss(logits, target), (target[0] * given).sum())
