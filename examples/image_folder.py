# SPDX-License-Identifier: Apache-2.0
"""A folder of images, some in the wrong sub-folder: train on it, and list the misplaced images.

Without --folder, scikit-learn's handwritten digits are first written as PNG files into a temporary folder, 30% of
them under another digit. For your own images, in one sub-folder per class, the true classes are not known, so only
the list is printed.

    python examples/image_folder.py
    python examples/image_folder.py --folder photos/ --size 32
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from noiseproof import datasets, noise
from noiseproof.sklearn import RobustClassifier


def write_digits(folder: Path, seed: int, count: int) -> None:
    """Write PNGs as folder/GIVEN/NUMBER-is-TRUE.png."""
    images, digits = load_digits(return_X_y=True)
    given = noise.symmetric(digits[:count], rate=0.3, num_classes=10, seed=seed).labels
    for number, (pixels, true, label) in enumerate(zip(images[:count], digits, given, strict=False)):
        path = folder / str(label) / f"{number:04}-is-{true}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((pixels.reshape(8, 8) * 15.9).astype(np.uint8)).resize((16, 16)).save(path)


def read_pictures(folder: Path, size: int) -> tuple[np.ndarray, np.ndarray, list[Path], tuple[str, ...]]:
    """Images (N, 3, size, size), class indices, files and class names."""
    data = datasets.load(f"folder:{folder}", "train")
    paths = [Path(str(path)) for path in data.paths]
    pictures = [np.asarray(Image.open(path).convert("RGB").resize((size, size))) for path in paths]
    return np.stack(pictures).transpose(0, 3, 1, 2), data.labels, paths, data.class_names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, help="your own images, one sub-folder per class")
    parser.add_argument("--size", type=int, default=16, help="images are resized to this square size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="few images and epochs, to see that it runs")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if arguments.folder is None:
            write_digits(folder, arguments.seed, 300 if arguments.quick else 1797)
        pictures, labels, paths, names = read_pictures(folder, arguments.size)
    print(f"{len(pictures)} images in {len(names)} folders", flush=True)

    classifier = RobustClassifier(
        model="mnist-cnn",
        epochs=2 if arguments.quick else "auto",
        device="auto",
        random_state=arguments.seed,
        verbose=True,
    ).fit(pictures, labels)
    suspect = classifier.suspect_labels_
    print(f"{suspect.sum()} images seem to be in the wrong folder; the five most suspect:")
    for index in np.argsort(-classifier.label_scores_)[:5]:
        suggested = names[classifier.suggested_labels_[index]]
        print(f"  {paths[index].parent.name}/{paths[index].name}: probably {suggested}")
    if arguments.folder is None:
        true = np.array([int(path.stem.rpartition("-")[2]) for path in paths])
        wrong = np.array([int(path.parent.name) for path in paths]) != true
        print(f"{wrong.sum()} really are; {(suspect & wrong).sum()} of them are on the list")


if __name__ == "__main__":
    main()
