# SPDX-License-Identifier: Apache-2.0
"""Several yes-or-no labels per sample, some of them wrong: any loss of the catalogue, wrapped in ``Binary``.

The default labels are five properties of scikit-learn's handwritten digits. To use your own table, give a CSV whose
label columns start with "label" and hold TRUE/FALSE or 1/0, and whose other columns are numbers:

    python examples/multilabel.py
    python examples/multilabel.py --csv yeast.csv --rates 0 0.2 0.3 0.4 --seeds 1 2 3
"""

import argparse
import csv
import statistics
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from noiseproof.losses import Binary, create

LOSSES = ("ce", "gce", "mae", "nce+rce", "anl-ce")


def digit_properties() -> tuple[Tensor, Tensor]:
    """Pixels, and whether the digit is odd, at least five, drawn with a loop, prime, divisible by three."""
    pixels, digits = load_digits(return_X_y=True)
    having = ({1, 3, 5, 7, 9}, {5, 6, 7, 8, 9}, {0, 6, 8, 9}, {2, 3, 5, 7}, {0, 3, 6, 9})
    labels = torch.tensor([[int(digit in group) for group in having] for digit in digits.tolist()])
    return torch.tensor(pixels, dtype=torch.float32), labels


def read_table(path: Path) -> tuple[Tensor, Tensor]:
    with path.open(newline="", encoding="utf-8") as file:
        heading, *rows = csv.reader(file)
    labelled = [i for i, name in enumerate(heading) if name.lower().startswith("label")]
    if not labelled:
        raise SystemExit(
            f"{path}: expected columns whose names start with 'label', got {', '.join(heading[:8])} …"
        )
    others = [i for i in range(len(heading)) if i not in labelled]
    x = torch.tensor([[float(row[i]) for i in others] for row in rows])
    y = torch.tensor(
        [[int(row[i].strip().upper() in ("TRUE", "1", "1.0", "YES")) for i in labelled] for row in rows]
    )
    return x, y


def score(x: Tensor, y: Tensor, name: str, rate: float, seed: int, epochs: int) -> tuple[float, float]:
    """Percentage of correct test labels, and micro-averaged F1, after training on labels flipped at ``rate``."""
    random = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=random)
    train, test = order[: 2 * len(x) // 3], order[2 * len(x) // 3 :]
    wrong = torch.rand(len(train), y.shape[1], generator=random) < rate
    given = torch.where(wrong, 1 - y[train], y[train])

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(x.shape[1], 256), nn.ReLU(), nn.Linear(256, y.shape[1]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss = Binary(create(name))
    for _ in range(epochs):
        for batch in torch.randperm(len(train), generator=random).split(64):
            optimizer.zero_grad()
            loss(model(x[train][batch]), given[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        said = (model(x[test]) > 0).long()
    f1 = 2 * (said * y[test]).sum() / (said.sum() + y[test].sum())
    return 100 * (said == y[test]).float().mean().item(), 100 * f1.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--csv", type=Path, help="your own table")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.0, 0.3], help="shares of wrong labels")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    x, y = read_table(arguments.csv) if arguments.csv else digit_properties()
    x = (x - x.mean(0)) / x.std(0).clamp(min=1e-6)
    print(f"{len(x)} samples, {x.shape[1]} numbers and {y.shape[1]} labels each\n")
    print("| wrong labels | loss | right labels, % | F1, % |\n|--:|---|--:|--:|")
    for rate in arguments.rates:
        for name in LOSSES:
            scores = [score(x, y, name, rate, seed, arguments.epochs) for seed in arguments.seeds]
            means = [statistics.fmean(column) for column in zip(*scores, strict=True)]
            print(f"| {rate:.0%} | {name} | {means[0]:.1f} | {means[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
