# SPDX-License-Identifier: Apache-2.0
"""What an epoch adds up, on the device, without ever making it wait."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from noiseproof.losses import P_MIN
from noiseproof.losses.calculus import Term, WeightedSum
from noiseproof.losses.evaluate import log_probabilities
from noiseproof.losses.labels import IndexLabels
from noiseproof.losses.module import RobustLoss
from noiseproof.training import ranks

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def part_names(loss: RobustLoss) -> tuple[str, ...]:
    """Names of a loss's parts, as they are recorded."""
    if not isinstance(loss.term, WeightedSum):
        return ()
    return tuple(_name_of(term) for _, term in loss.term.parts)


def _name_of(term: Any) -> str:
    inner = type(getattr(term, "loss", None)).__name__
    outer = type(term).__name__
    return outer.lower() if inner == "NoneType" else f"{outer}({inner})".lower()


ADDED_OVER_RANKS = (
    "samples",
    "flipped",
    "correct_on_clean",
    "correct_on_flipped",
    "predicted",
    "loss",
    "parts",
)
"""Sums to which each process adds its own samples; the others are the same in every process."""

NOT_SEEN = -1.0
"""Stands for the pull of a sample that the epoch left out; no pull is negative."""

PULLS = ("pulls", "floored_pulls")
"""Kept for each sample where gradients are asked for: with the cut at p_min as training has it, and without."""


class EpochMeters:
    """Sums of one epoch of one run.

    ``state`` holds every sum as a tensor, so that a run stopped in the middle of an epoch records exactly what it
    would have recorded otherwise.
    """

    def __init__(
        self, loss: RobustLoss, num_samples: int, num_classes: int, device: torch.device, spread: bool
    ) -> None:
        self.loss = loss
        # Labels are never negative, so that torch's usual -100 ignores none.
        self.ignored = loss.ignore_index if loss.ignore_index >= 0 else None
        self.parts = part_names(loss)
        counts = ("samples", "flipped", "correct_on_clean", "correct_on_flipped")
        self.state: dict[str, Tensor] = {
            name: torch.zeros((), dtype=torch.int64, device=device) for name in counts
        }
        for name in ("loss", "gradient_norm", "largest_gradient_norm"):
            self.state[name] = torch.zeros((), dtype=torch.float64, device=device)
        self.state["steps"] = torch.zeros((), dtype=torch.int64, device=device)
        self.state["first_bad_step"] = torch.full((), -1, dtype=torch.int64, device=device)
        self.state["parts"] = torch.zeros(len(self.parts), dtype=torch.float64, device=device)
        self.state["first_bad_values"] = torch.zeros(1 + len(self.parts), dtype=torch.float64, device=device)
        self.state["predicted"] = torch.zeros(num_classes, dtype=torch.float64, device=device)
        self.pulls: tuple[str, ...] = PULLS if spread else ()
        self.state |= {name: torch.full((num_samples,), NOT_SEEN, device=device) for name in self.pulls}

    @torch.no_grad()
    def add(
        self,
        first_step: int,
        indices: Tensor,
        logits: Tensor,
        given: Tensor,
        flipped: Tensor,
        losses: Tensor,
        norms: Tensor,
        *,
        batch_size: int | None = None,
        share: float | Tensor = 1.0,
    ) -> None:
        """Add one step or several; samples or pixels that the loss ignores count nowhere.

        Args:
            first_step: number of the first of them in the epoch.
            indices: of the samples (N,), step after step.
            logits: (N, K, …).
            given: labels (N, …).
            flipped: where they are known to be wrong (N, …).
            losses: mean loss of each step (S,).
            norms: norm of each step's gradient (S,).
            batch_size: samples of each step but the last, which may have fewer.
            share: of the steps' mean loss that is these samples', the rest being other processes'.
        """
        state = self.state
        log_p = log_probabilities(logits)
        right = log_p.argmax(1) == given
        labelled = None if self.ignored is None else given != self.ignored
        if labelled is None:
            state["samples"] += given.numel()
        else:
            state["samples"] += labelled.sum()
            right, flipped = right & labelled, flipped & labelled
        state["flipped"] += flipped.sum()
        state["correct_on_clean"] += (right & ~flipped).sum()
        state["correct_on_flipped"] += (right & flipped).sum()
        size = batch_size or len(given)
        steps = torch.stack([losses.double(), *self._part_means(log_p, given, size)])
        state["loss"] += share * steps[0].sum()
        state["parts"] += share * steps[1:].sum(1)
        state["gradient_norm"] += norms.double().sum()
        state["largest_gradient_norm"].copy_(
            torch.maximum(state["largest_gradient_norm"], norms.double().amax())
        )
        state["steps"] += len(losses)
        p = log_p.exp() if labelled is None else torch.where(labelled.unsqueeze(1), log_p.exp(), 0.0)
        state["predicted"] += p.sum([d for d in range(p.ndim) if d != 1]).double()
        # What is not finite in one process must stop all of them at the same step: the others would wait for it.
        seen = ranks.summed(steps)
        bad = ~(torch.isfinite(seen[0]) & torch.isfinite(norms))
        where = bad.to(torch.int64).argmax()
        first = (state["first_bad_step"] < 0) & bad.any()
        state["first_bad_step"].copy_(torch.where(first, first_step + where, state["first_bad_step"]))
        values = seen.index_select(1, where[None]).squeeze(1)
        state["first_bad_values"].copy_(torch.where(first, values, state["first_bad_values"]))
        for name in self.pulls:
            pulls = strongest_pull(log_p, given, cut_off=name == "pulls")
            state[name][indices] = pulls.to(state[name].dtype)

    def _part_means(self, log_p: Tensor, given: Tensor, batch_size: int) -> list[Tensor]:
        """Mean of each part of the loss in each step (S,)."""
        if not isinstance(self.loss.term, WeightedSum):
            return []

        def mean(term: Term, log_p: Tensor, given: Tensor) -> Tensor:
            valid = torch.ones_like(given, dtype=torch.bool)
            if self.ignored is not None:
                valid = given != self.ignored
                given = torch.where(valid, given, 0)
            labels = IndexLabels(given, valid, self.loss.weight)
            per_sample = term.per_sample(log_p, labels)
            if self.ignored is None and self.loss.weight is None:
                return per_sample.mean()
            return labels.weigh(per_sample).sum() / labels.total_weight(per_sample)

        if len(given) <= batch_size:
            return [mean(term, log_p, given)[None].double() for _, term in self.loss.term.parts]
        whole = len(given) // batch_size * batch_size
        by_step = [each[:whole].reshape(-1, batch_size, *each.shape[1:]) for each in (log_p, given)]
        means = []
        for _, term in self.loss.term.parts:
            found = [vmap(partial(mean, term))(*by_step)]
            if whole < len(given):
                found.append(mean(term, log_p[whole:], given[whole:])[None])
            means.append(torch.cat(found).double())
        return means

    def sum_over_ranks(self) -> None:
        """Put together what all processes added; afterwards each holds the whole."""
        for name in ADDED_OVER_RANKS:
            self.state[name] = ranks.summed(self.state[name])
        self.state |= {name: ranks.largest(self.state[name]) for name in self.pulls}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from the sums of all processes, which the first one then holds.

        What an earlier version did not yet add up is left out of this epoch: it would lack the first samples.
        """
        self.pulls = tuple(name for name in self.pulls if name in state)
        self.state |= state
        if not ranks.is_first():
            for name in ADDED_OVER_RANKS:
                self.state[name] = torch.zeros_like(self.state[name])

    def trouble(self) -> str | None:
        """Which step first had a loss or gradient that is not finite, and in which part; ``None`` if none had."""
        step = int(self.state["first_bad_step"])
        if step < 0:
            return None
        loss, *parts = torch.isfinite(self.state["first_bad_values"]).tolist()
        where = [name for name, finite in zip(self.parts, parts, strict=True) if not finite]
        if where:
            part = f"the part {', '.join(where)} of the loss"
        elif not loss:
            part = "the loss"
        else:
            part = "the gradient, though the loss itself was finite"
        return f"at step {step + 1}, in {part}"

    def metrics(self, flipped: Tensor) -> dict[str, Any]:
        """What the epoch's record holds of training; accuracies in percent, against the given labels."""
        read: dict[str, Any] = {
            name: value.tolist() for name, value in self.state.items() if name not in PULLS
        }
        samples, wrong, steps = read["samples"], read["flipped"], max(1, read["steps"])
        metrics: dict[str, Any] = {
            "loss": read["loss"] / steps,
            "loss_parts": {n: v / steps for n, v in zip(self.parts, read["parts"], strict=True)},
            "gradient_norm": read["gradient_norm"] / steps,
            "largest_gradient_norm": read["largest_gradient_norm"],
            "train_accuracy": 100 * (read["correct_on_clean"] + read["correct_on_flipped"]) / max(1, samples),
            "clean_accuracy": 100 * read["correct_on_clean"] / (samples - wrong) if samples > wrong else None,
            "flipped_accuracy": 100 * read["correct_on_flipped"] / wrong if wrong else None,
            "predicted_marginals": [round(total / max(1, samples), 5) for total in read["predicted"]],
        }
        if self.pulls:
            metrics["strongest_pull"] = {"quantiles": list(QUANTILES), **self._spread_of("pulls", flipped)}
            if "floored_pulls" in self.pulls:
                metrics["strongest_pull"]["floored"] = self._spread_of("floored_pulls", flipped)
        return metrics

    def _spread_of(self, name: str, flipped: Tensor) -> dict[str, Any]:
        """Quantiles and mean of the samples seen, apart by whether their label is right."""
        spread: dict[str, Any] = {}
        for part, which in (("clean", ~flipped), ("flipped", flipped)):
            pulls = self.state[name][which.to(self.state[name].device)]
            pulls = pulls[pulls != NOT_SEEN]
            spread[part] = _quantiles(pulls)
            spread[f"{part}_mean"] = pulls.double().mean().item() if len(pulls) else None
        return spread


def strongest_pull(log_p: Tensor, given: Tensor, p_min: float = P_MIN, *, cut_off: bool = True) -> Tensor:
    """``max_{j≠y} ∂NNCE/∂p_j`` of each sample: ``(A + log p_y) / (p_j S²)`` of the least likely other class.

    NNCE takes no probability below ``p_min``, so that classes there have no gradient. ``cut_off=False`` takes the
    formula at ``max(p, p_min)`` instead, which has the paper's property: the surer a rightly labelled sample, the
    stronger the pull, up to ``1 / (p_min A)``. With the cut, a sample that is sure enough is not pulled at all.
    """
    floor = torch.log(torch.tensor(p_min, dtype=log_p.dtype)).item()
    heights = (log_p - floor).clamp(min=0)
    total = heights.sum(1)
    of_label = heights.gather(1, given[:, None]).squeeze(1)
    inverse = (-log_p.clamp(min=floor)).exp()
    if cut_off:
        inverse = torch.where(log_p > floor, inverse, 0.0)
    inverse = inverse.scatter(1, given[:, None], 0.0)
    return inverse.amax(1) * of_label / total.square()


def _quantiles(values: Tensor) -> list[float] | None:
    if not len(values):
        return None
    levels = torch.tensor(QUANTILES, dtype=torch.float64, device=values.device)
    # torch.quantile refuses more than 16 million values; sorting does not.
    ordered = values.sort().values
    return [float(v) for v in ordered[(levels * (len(values) - 1)).round().long()]]
