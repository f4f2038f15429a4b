# SPDX-License-Identifier: Apache-2.0
"""Masks that a finished run keeps to be looked at: some it was trained on, and its best and worst on the test set.

Of each kind of corruption there are two training pictures, the same for every run with the same noise: picture,
true mask, given mask and what the network says in the end. Of the test set there are the three pictures with the
highest and the three with the lowest Dice.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noiseproof.datasets import BadFileError, npz_file
from noiseproof.models.final_layer import set_training
from noiseproof.noise.masks import KINDS
from noiseproof.training import dice
from noiseproof.training.data import test_batches
from noiseproof.training.run import Run
from noiseproof.training.stepwise import evaluation_batch

FILE_NAME = "examples.npz"
OF_EACH_KIND = 2
BEST_AND_WORST = 3
MOST_BYTES = 1 << 28  # a dozen pictures of 1000×1000 take an eighth of it


@dataclass(frozen=True, eq=False)
class Examples:
    """Pictures with their masks, N of them.

    Attributes:
        kind: of each: ``"erode"``, ``"dilate"`` or ``"affine"``, of the training set; ``"best"`` or ``"worst"``, of
            the test set.
        index: its number in the training or test set.
        images: uint8 (N, H, W, C).
        true: the true masks, class indices (N, H, W).
        given: what was trained on; the true masks again for the test set.
        predicted: what the network says.
        dice: of prediction and true mask, in percent.
    """

    kind: tuple[str, ...]
    index: NDArray[np.int64]
    images: NDArray[np.uint8]
    true: NDArray[np.uint8]
    given: NDArray[np.uint8]
    predicted: NDArray[np.uint8]
    dice: NDArray[np.float64]

    def save(self, path: Path) -> None:
        """Write them to an ``.npz`` file, whole or not at all."""
        temporary = path.with_name(f".{path.name}")
        arrays = {name: value for name, value in vars(self).items() if name != "kind"}
        with temporary.open("wb") as file:
            np.savez_compressed(file, kind=np.array(self.kind), **arrays)
        temporary.replace(path)


def load_examples(path: Path) -> Examples:
    """Read what :meth:`Examples.save` wrote.

    Raises:
        BadFileError: the file is damaged, or no such file.
    """
    arrays = npz_file.read(path, MOST_BYTES, "the examples of a run", "train the run again")
    forms = {name: f"{array.dtype.kind}{array.ndim}" for name, array in sorted(arrays.items())}
    lengths = {array.shape[:1] for array in arrays.values()}
    pictures = {arrays[name].shape[:3] for name in _OF_PIXELS if name in arrays}
    if forms != _FORMS or len(lengths) > 1 or len(pictures) > 1:
        shapes = ", ".join(f"{name} {array.dtype}{array.shape}" for name, array in arrays.items())
        raise BadFileError(path, "pictures with three masks each", shapes or "nothing", "train the run again")
    kind = tuple(str(each) for each in arrays.pop("kind"))
    return Examples(kind=kind, **arrays)


_OF_PIXELS = ("images", "true", "given", "predicted")
_FORMS = {
    "dice": "f1",
    "given": "u3",
    "images": "u4",
    "index": "i1",
    "kind": "U1",
    "predicted": "u3",
    "true": "u3",
}


def choose_examples(run: Run) -> Examples:
    """Look at a finished run's masks."""
    counts = run.count_right(test_batches(run.data, evaluation_batch(run.data), run.config.workers)).cpu()
    by_image = dice.of_each_image(counts).numpy()
    order = np.argsort(by_image, kind="stable")
    train, test = run.data.train, run.data.test
    assert train.images is not None
    assert test.images is not None
    assert train.masks is not None
    assert test.masks is not None
    chosen: list[tuple[str, int]] = []
    for kind in range(1, len(KINDS)) if run.labels.kinds is not None else ():
        where = np.flatnonzero(run.labels.kinds == kind)[:OF_EACH_KIND]
        chosen += [(KINDS[kind], int(index)) for index in where]
    trained = [index for _, index in chosen]
    # Of few pictures none is both among the best and among the worst.
    number = min(BEST_AND_WORST, -(-len(order) // 2))
    best = order[::-1][:number].tolist()
    worst = order[: min(number, len(order) - number)].tolist()
    images = np.concatenate([train.images[trained], test.images[best + worst]])
    true = np.concatenate([train.masks[trained], test.masks[best + worst]])
    given = np.concatenate([run.labels.given[trained].cpu().numpy(), test.masks[best + worst]])
    predicted = _predicted(run, images)
    classes = run.data.num_classes
    both = torch.from_numpy(predicted), torch.from_numpy(true)
    counted = dice.count_pixels(*both, classes, run.meters.ignored)
    return Examples(
        kind=(*(kind for kind, _ in chosen), *["best"] * len(best), *["worst"] * len(worst)),
        index=np.array(trained + best + worst, dtype=np.int64),
        images=images,
        true=true,
        given=given,
        predicted=predicted,
        dice=dice.of_each_image(counted).numpy(),
    )


@torch.no_grad()
def _predicted(run: Run, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    pixels = torch.from_numpy(images.transpose(0, 3, 1, 2).copy()).to(run.device)
    model = run.tested_model.eval()
    with run.precision():
        logits: Tensor = model(run.data.recipe.for_testing(pixels))
    set_training(model)
    return logits.argmax(1).to(torch.uint8).cpu().numpy()
