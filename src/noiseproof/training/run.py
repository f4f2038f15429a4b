# SPDX-License-Identifier: Apache-2.0
"""One run: its network, optimiser, loss and labels, and the state that a checkpoint holds."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from noiseproof import models
from noiseproof.losses import L1, Jacobian, RobustLoss, create
from noiseproof.models.final_layer import freeze_all_but_final_layer, head_of, set_training
from noiseproof.threads import threads_that_pay
from noiseproof.training import checkpoint, dice, optimizers, ranks
from noiseproof.training.config import Config
from noiseproof.training.data import Batches, TrainingData, give_labels
from noiseproof.training.fast.networks import FastNetwork, can_be_fast
from noiseproof.training.masks import check_loss_options, moved_masks
from noiseproof.training.meters import EpochMeters
from noiseproof.training.moments import Moment, moment, seconds_between
from noiseproof.training.outcome import LAST_EPOCHS
from noiseproof.training.streams import generator, stream_seed


class NotFiniteError(RuntimeError):
    """The loss or its gradient became infinite or NaN."""


class Run:
    """Everything that changes while one config is trained."""

    def __init__(self, config: Config, data: TrainingData) -> None:
        self.config, self.data, self.device = config, data, data.device
        check_loss_options(config, data.train, data.has_void)
        self.labels = give_labels(config, data)
        parameters: dict[str, Any] = dict(config.loss_parameters)
        self.loss = create(config.loss, **parameters).to(self.device)
        self.l1, self.jacobian = L1(config.l1), Jacobian(config.jacobian)
        channels, height, width = data.image_shape
        self.model = models.create(
            config.model,
            data.num_classes,
            in_channels=channels,
            image_size=(height, width),
            seed=stream_seed(config.seed, "init"),
            **config.model_options,
        )
        self.weights_report = _start_from(config, self.model, channels)
        if config.freeze:
            freeze_all_but_final_layer(self.model)
        self.model.to(self.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if config.sync_batch_norm and ranks.count() > 1:
            if self.device.type == "cpu":
                raise ValueError("sync_batch_norm: torch has it for GPUs only; leave it out on a CPU")
            self.model = nn.SyncBatchNorm.convert_sync_batchnorm(self.model)  # type: ignore[no-untyped-call]
        self.average = optimizers.MovingAverage(self.model, config.ema) if config.ema else None
        self.optimizer = optimizers.make_optimizer(config, self.model, self.loss)
        self.network = self._wrapped()
        self.batches = Batches(config, data)
        self.fast: FastNetwork | None = None
        self._takes_features = False
        self.prepared: float | None = None  # share of what comes before the first step, while that is done
        self.epoch = self.step = 0
        self.meters = self.fresh_meters()
        self._moment: Moment | None = None

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

    def threads(self) -> AbstractContextManager[None]:
        """As many threads of the CPU as the network is worth."""
        sample = torch.zeros(1, *self.data.image_shape, device=self.device)
        return threads_that_pay(self.model, sample, self.config.batch_size)

    def start_the_clock(self) -> None:
        """Time counts from now on, if it does not already."""
        self._moment = self._moment or moment(self.device)

    def begin_epoch(self) -> None:
        """Set what holds for a whole epoch."""
        self.start_the_clock()
        set_training(self.network)
        if self.fast is not None:
            self.fast.train()
        optimizers.set_learning_rate(self.optimizer, self.config.learning_rate_at(self.epoch))

    def forget_the_time(self) -> None:
        """Let the next epoch's time begin with the epoch, not with the end of the last one."""
        self._moment = None

    def train_step(self, images: Tensor, indices: Tensor) -> None:
        """One step of the optimiser on a global batch; each process takes its own rows of it."""
        rows = slice(ranks.number(), None, ranks.count())
        of_rows = len(indices[rows]) / len(indices)
        given, flipped = self.targets(indices, self.epoch, self.step)
        share = self._share_of_loss(given.long(), rows)
        given, flipped = given[rows].long(), flipped[rows]
        directions = None
        if self.config.jacobian:
            random = generator(self.device, self.config.seed, "projection", self.epoch, self.step)
            shape = (len(indices), self.data.num_classes)
            directions = torch.randn(shape, device=self.device, generator=random)[rows]
        images, indices = images[rows].contiguous(memory_format=torch.channels_last), indices[rows]
        with self._dropout_of_this_step():
            logits, loss, norm = self.optimize(
                images, given, directions, share * ranks.count(), of_rows * ranks.count()
            )
        self.meters.add(self.step, indices, logits, given, flipped, loss[None], norm[None], share=share)

    def _share_of_loss(self, given: Tensor, rows: slice) -> float | Tensor:
        """How much of a global batch's mean loss is that of some rows: their labels' weight, if weights differ."""
        options = self.config.loss_parameters.keys() & {"weight", "ignore_index"}
        if ranks.count() == 1 or not options or not isinstance(self.loss, RobustLoss):
            return len(given[rows]) / len(given)
        total = self.loss.label_weight(given)
        return self.loss.label_weight(given[rows]) / total.where(total > 0, 1)

    def targets(self, indices: Tensor, epoch: int, first_step: int) -> tuple[Tensor, Tensor]:
        """Labels of samples and where they are wrong; masks as their images were moved in the draw of a step."""
        given, flipped = self.labels.given[indices], self.labels.flipped[indices]
        if not self.data.has_masks:
            return given, flipped
        random = generator(self.device, self.config.seed, "augmentation", epoch, first_step)
        given, flipped = moved_masks(self.data.recipe, (given, flipped), random)
        return given, flipped

    def optimize(
        self,
        images: Tensor,
        given: Tensor,
        directions: Tensor | None = None,
        weight: float | Tensor = 1.0,
        weight_of_rows: float = 1.0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Change the weights by one batch; returns logits, loss and the gradient's norm before clipping.

        Nothing here looks at a value or asks the host for anything but to launch it, so that a GPU can capture
        the whole of it.

        Args:
            images: (N, C, H, W), channels last.
            given: labels (N,) or (N, H, W).
            directions: of the Jacobian's projection, (N, K).
            weight: of this batch's mean loss among those of all processes, where they are uneven.
            weight_of_rows: the same by numbers of samples, which the Jacobian's penalty goes by.
        """
        if self.fast is not None:
            logits, loss, norm = self._optimize_fast(self.fast, images, given)
            if self.average is not None:
                self.average.update(self.model)
            return logits, loss, norm
        if directions is not None:
            images.requires_grad_()
        with self.precision():
            logits = self.network(images)
        loss = self.loss(logits, given)
        total = loss if isinstance(weight, float) and weight == 1.0 else weight * loss
        if directions is not None:
            total = total + weight_of_rows * self.jacobian.penalty(logits, images, directions=directions)
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        self.l1.add_to_gradients(self.model.parameters())
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm or float("inf"))
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.model)
        return logits.detach(), loss.detach(), norm

    def _optimize_fast(
        self, network: FastNetwork, images: Tensor, given: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits = network(images)
        loss = self.loss(logits, given)
        leaves, learned = network.parameters.leaves, list(self.loss.parameters())
        gradients = torch.autograd.grad(loss, [*leaves, *learned])
        norm = network.parameters.step(gradients[: len(leaves)], self.l1.strength, self.config.clip_norm)
        if learned:  # the loss's own parameters; the network's have no gradient that this step could see
            for parameter, gradient in zip(learned, gradients[len(leaves) :], strict=True):
                parameter.grad = gradient
            self.optimizer.step()
        return logits.detach(), loss.detach(), norm

    def make_fast(self) -> None:
        """From now on compute with the network's fast form, where it has one."""
        _, height, width = self.data.image_shape
        if self.fast is None and can_be_fast(self.model, self.config, (height, width)):
            dtype = torch.bfloat16 if self.config.precision == "bf16" else torch.float32
            self.fast = FastNetwork(self.model, self.optimizer, dtype)

    def take_features(self) -> None:
        """From now on it is given what the frozen part of its network makes of images, (N, D, 1, 1)."""
        self._takes_features = True
        self.network = head_of(self.model)

    @property
    def input_channels(self) -> int:
        """Channels that images must have: those of the data, or some empty ones more."""
        return self.data.image_shape[0] if self.fast is None else self.fast.in_channels

    @contextmanager
    def _dropout_of_this_step(self) -> Iterator[None]:
        """Torch's own dropout draws from the global stream: for the step it becomes this run's.

        So does whatever a network from elsewhere draws in its forward pass.
        """
        if not has_dropout(self.model) and models.is_of_the_package(self.config.model):
            yield
            return
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(stream_seed(self.config.seed, "dropout", self.epoch, self.step, ranks.number()))
            yield

    @property
    def tested_model(self) -> nn.Module:
        """What is tested and kept: the network, or the average of its weights."""
        return self.average.model if self.average is not None else self.model

    @property
    def tests_this_epoch(self) -> bool:
        """Whether the epoch at hand ends with a test."""
        after = self.epoch + 1
        averaged = LAST_EPOCHS if self.data.has_masks else 1  # by what its result is made of
        return after > self.config.epochs - averaged or after % self.config.evaluate_every == 0

    @torch.no_grad()
    def count_right(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """Number of test samples that are classified right, on the device; of masks the pixels Dice is made of."""
        model: nn.Module | FastNetwork = self.tested_model
        if self.fast is not None and self.average is None:
            model = self.fast
        if self._takes_features:
            model = head_of(self.tested_model)
        model.eval()
        right = self.nothing_right()
        start = 0
        channels = self.input_channels if model is self.fast else self.data.image_shape[0]
        for images, labels in batches:
            if not self._takes_features:
                images = images[:, :channels]  # runs of a pack may differ in how many they want
            with self.precision():
                logits = model(images.contiguous(memory_format=torch.channels_last))
            if self.data.has_masks:
                rows = slice(start, start + len(labels))
                classes = self.data.num_classes
                right[rows] = dice.count_pixels(logits.argmax(1), labels, classes, self.meters.ignored)
                start += len(labels)
            else:
                right += (logits.argmax(1) == labels).sum()
        if isinstance(model, FastNetwork):
            model.train()
        else:
            set_training(model)
        return right

    def nothing_right(self) -> Tensor:
        """What :meth:`count_right` counts, at zero: one number, or of masks what Dice is made of."""
        shape: tuple[int, ...] = ()
        if self.data.has_masks:
            classes = dice.classes_that_count(self.data.num_classes, self.meters.ignored)
            shape = (len(self.data.test), len(classes), 3)
        return torch.zeros(shape, dtype=torch.int64, device=self.device)

    def scores(self, right: Tensor) -> dict[str, float]:
        """What a test came to, in percent."""
        if self.data.has_masks:
            return {"test_dice": dice.pooled(right), "test_dice_per_image": dice.per_image(right)}
        return {"test_accuracy": 100 * right.item() / len(self.data.test)}

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds: weights, optimiser, position, and the sums of an unfinished epoch."""
        return {
            "config_hash": self.config.hash,
            "epoch": self.epoch,
            "step": self.step,
            "model": self.model.state_dict(),
            "loss": self.loss.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.model.state_dict() if self.average is not None else None,
            "meters": self.meters.state,
        }

    @property
    def learned(self) -> dict[str, Tensor]:
        """The loss's own parameters."""
        return {name: value.detach() for name, value in self.loss.named_parameters()}

    @property
    def is_done(self) -> bool:
        """Whether the last epoch is over."""
        return self.epoch >= self.config.epochs

    def end_epoch(self, right: Tensor | None, pack_size: int = 1, *, keep_state: bool = True) -> "EpochEnd":
        """Close the epoch, of which this run had a share of the time with others, and stand before the next."""
        learning_rate = self.config.learning_rate_at(self.epoch)
        meters, self.meters = self.meters, self.fresh_meters()
        self.epoch, self.step = self.epoch + 1, 0
        now = moment(self.device)
        began, self._moment = self._moment or now, now
        state = self.state() if keep_state else None
        return EpochEnd(self, meters, right, learning_rate, state, (began, now), pack_size)

    def require_finite(self) -> None:
        """Stop where a step of this epoch had a loss or a gradient that is not a finite number."""
        _require_finite(self.meters, self.config, self.epoch)

    def restore(self, path: Path) -> None:
        """Continue from a checkpoint of the same config."""
        state = checkpoint.load(path, self.device)
        if state.get("config_hash") != self.config.hash:
            raise checkpoint.BadCheckpointError(
                f"{path} belongs to another config ({state.get('config_hash')}, this one is {self.config.hash})"
            )
        try:
            self._take(state)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            raise checkpoint.BadCheckpointError(f"{path} does not fit this run: {error!r}") from error

    def _take(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        if "loss" in state:  # not in the first checkpoints
            # Earlier checkpoints hold what it learns only, not what the config gives, such as class weights.
            self.loss.load_state_dict(self.loss.state_dict() | state["loss"])
        optimizers.restore(self.optimizer, state["optimizer"])
        if self.average is not None:
            self.average.model.load_state_dict(state["average"])
        self.epoch, self.step = state["epoch"], state["step"]
        self.meters.restore(state["meters"])

    def close(self) -> None:
        """Stop decode workers."""
        self.batches.close()


class EpochEnd:
    """What is to be written down of a finished epoch.

    Attributes:
        run: whose epoch it was; it may be at work on the next one.
        epoch: number of epochs that are done with this one.
        meters: its sums.
        right: test samples classified right, if the epoch was tested; see :meth:`Run.count_right`.
        learning_rate: that it had.
        state: for the checkpoint, where one is due.
        learned: the loss's own parameters.
        is_apart: whether the state is a copy, which the run leaves alone.
    """

    def __init__(
        self,
        run: Run,
        meters: EpochMeters,
        right: Tensor | None,
        learning_rate: float,
        state: dict[str, Any] | None,
        moments: tuple[Moment, Moment],
        pack_size: int,
    ) -> None:
        self.run, self.meters, self.right, self.state = run, meters, right, state
        self.learning_rate, self._moments, self._pack_size = learning_rate, moments, pack_size
        self.epoch, self.learned = run.epoch, run.learned
        self.is_apart = False
        self.under_way: tuple[torch.cuda.Event, Any] | None = None

    @property
    def seconds(self) -> float:
        """What the epoch took; of runs side by side each bears an equal share."""
        return seconds_between(*self._moments) / self._pack_size

    def require_finite(self) -> None:
        """Stop where a step had a loss or a gradient that is not a finite number."""
        _require_finite(self.meters, self.run.config, self.epoch - 1)

    def wait(self) -> None:
        """Wait until all of it is on the host, where it is being copied there."""
        if self.under_way is not None:
            arrived, _ = self.under_way  # and what is copied from had to live until now
            arrived.synchronize()
            self.under_way = None

    def metrics(self) -> dict[str, Any]:
        """The epoch's record."""
        self.meters.sum_over_ranks()
        metrics = self.meters.metrics(self.run.labels.flipped)
        metrics["learning_rate"] = self.learning_rate
        if learned := {name: float(value) for name, value in self.learned.items()}:
            metrics["loss_learned"] = learned
        if self.right is not None:
            metrics |= self.run.scores(self.right)
        return metrics


def _require_finite(meters: EpochMeters, config: Config, epoch: int) -> None:
    trouble = meters.trouble()
    if trouble is not None:
        raise NotFiniteError(
            f"not a finite number in epoch {epoch + 1} {trouble}. The last good checkpoint is kept. Try a "
            f"smaller learning rate (now {config.learning_rate_at(epoch):g}), clip_norm, or float32."
        )


def _start_from(config: Config, model: nn.Module, channels: int) -> models.WeightsReport | None:
    """Give a network the weights that its config names, if it names any."""
    if config.weights is None:
        return None
    from_imagenet = config.weights == models.imagenet.NAME
    if from_imagenet and channels != (expected := models.record(config.model).in_channels):
        raise ValueError(
            f"weights: those of {config.model} from ImageNet are for images of {expected} channels, got {channels}"
        )
    return models.load_weights(model, models.imagenet.find(config.model) if from_imagenet else config.weights)


def has_dropout(model: nn.Module) -> bool:
    """Whether the network draws random numbers of its own."""
    return any(isinstance(each, nn.modules.dropout._DropoutNd) and each.p > 0 for each in model.modules())
