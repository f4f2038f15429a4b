"""One run: its network, optimiser, loss and labels, and the state that a checkpoint holds."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from noiseproof import models
from noiseproof.losses import L1, Jacobian, create
from noiseproof.training import checkpoint, ranks
from noiseproof.training.config import Config
from noiseproof.training.data import Batches, TrainingData, give_labels, test_batches
from noiseproof.training.meters import EpochMeters
from noiseproof.training.streams import generator, stream_seed

EVALUATION_BATCH = 1000


class Run:
    """Everything that changes while one config is trained."""

    def __init__(self, config: Config, data: TrainingData) -> None:
        self.config, self.data, self.device = config, data, data.device
        self.labels = give_labels(config, data)
        parameters: dict[str, Any] = dict(config.loss_parameters)
        self.loss = create(config.loss, **parameters).to(self.device)
        self.l1, self.jacobian = L1(config.l1), Jacobian(config.jacobian)
        channels, height, _ = data.image_shape
        self.model = models.create(
            config.model,
            data.num_classes,
            in_channels=channels,
            image_size=height,
            seed=stream_seed(config.seed, "init"),
            **config.model_options,
        )
        self.weights_report = models.load_weights(self.model, config.weights) if config.weights else None
        self.model.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if config.sync_batch_norm and ranks.count() > 1:
            if self.device.type == "cpu":
                raise ValueError("sync_batch_norm: torch has it for GPUs only; leave it out on a CPU")
            self.model = nn.SyncBatchNorm.convert_sync_batchnorm(self.model)  # type: ignore[no-untyped-call]
        self.average = _MovingAverage(self.model, config.ema) if config.ema else None
        self.optimizer = make_optimizer(config, self.model)
        self.network = self._wrapped()
        self.batches = Batches(config, data)
        self.epoch = self.step = 0
        self.meters = self.fresh_meters()

    def _wrapped(self) -> nn.Module:
        network: nn.Module = self.model
        if ranks.count() > 1:
            network = nn.parallel.DistributedDataParallel(
                network, device_ids=[self.device] if self.device.type == "cuda" else None
            )
        if self.config.compile:
            network.compile()
            self.loss.compile()
        return network

    def fresh_meters(self) -> EpochMeters:
        """Meters of a new epoch."""
        return EpochMeters(
            self.loss,
            len(self.labels.given),
            self.data.num_classes,
            self.device,
            self.config.gradient_quantiles,
        )

    @contextmanager
    def precision(self) -> Iterator[None]:
        """The arithmetic that the config asks for."""
        half = self.config.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16) if half else nullcontext():
            yield

    def train_step(self, images: Tensor, indices: Tensor, learning_rate: float) -> None:
        """One step of the optimiser on a global batch; each process takes its own rows of it."""
        rows = slice(ranks.number(), None, ranks.count())
        share = len(indices[rows]) / len(indices)
        images, indices = images[rows].contiguous(memory_format=torch.channels_last), indices[rows]
        given = self.labels.given[indices]
        if self.config.jacobian:
            images.requires_grad_()
        with self.precision():
            logits = self.network(images)
        loss = self.loss(logits, given)
        total = loss
        if self.config.jacobian:
            random = generator(self.device, self.config.seed, "projection", self.epoch, self.step)
            total = total + self.jacobian.penalty(logits, images, random)
        if ranks.count() > 1:  # uneven rows, even weight for each sample
            total = total * (share * ranks.count())
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        self.l1.add_to_gradients(self.model.parameters())
        limit = self.config.clip_norm or float("inf")
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.model)
        flipped = self.labels.flipped[indices]
        self.meters.add(self.step, indices, logits, given, flipped, loss, norm, share)

    @torch.no_grad()
    def test_accuracy(self) -> float:
        """Percent of the test samples that are classified right."""
        model = self.average.model if self.average is not None else self.model
        model.eval()
        right = torch.zeros((), dtype=torch.int64, device=self.device)
        for images, labels in test_batches(self.data, EVALUATION_BATCH, self.config.workers):
            with self.precision():
                logits = model(images.contiguous(memory_format=torch.channels_last))
            right += (logits.argmax(1) == labels).sum()
        model.train()
        return 100 * right.item() / len(self.data.test)

    def save(self, path: Path) -> None:
        """Write a checkpoint: weights, optimiser, position, and the sums of an unfinished epoch."""
        state = {
            "config_hash": self.config.hash,
            "epoch": self.epoch,
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.model.state_dict() if self.average is not None else None,
            "meters": self.meters.state,
        }
        checkpoint.save(path, state)

    def restore(self, path: Path) -> None:
        """Continue from a checkpoint of the same config."""
        state = checkpoint.load(path, self.device)
        if state["config_hash"] != self.config.hash:
            raise checkpoint.BadCheckpointError(
                f"{path} belongs to another config ({state['config_hash']}, this one is {self.config.hash})"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.average is not None:
            self.average.model.load_state_dict(state["average"])
        self.epoch, self.step = state["epoch"], state["step"]
        self.meters.restore(state["meters"])

    def close(self) -> None:
        """Stop decode workers."""
        self.batches.close()


def make_optimizer(config: Config, model: nn.Module) -> torch.optim.Optimizer:
    """Optimiser of a config."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            config.learning_rate,
            config.momentum,
            weight_decay=config.weight_decay,
            nesterov=config.nesterov,
            fused=parameters[0].is_cuda or None,
        )
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    fused = parameters[0].is_cuda or None
    return kind(parameters, config.learning_rate, weight_decay=config.weight_decay, fused=fused)


class _MovingAverage:
    """A copy of the network whose weights follow those of another one slowly."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        import copy

        self.model, self.decay = copy.deepcopy(model).requires_grad_(False), decay

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take a small step towards ``model``; counters and the like are copied."""
        for mine, theirs in zip(self.model.state_dict().values(), model.state_dict().values(), strict=True):
            if mine.is_floating_point():
                mine.lerp_(theirs, 1 - self.decay)
            else:
                mine.copy_(theirs)
