# SPDX-License-Identifier: Apache-2.0
"""Train the same network on wrong labels twice, with cross-entropy and with ANL-CE, and watch the difference.

The data are scikit-learn's 1,797 handwritten digits; 60% of the training labels are replaced by another class, and
the test labels are clean. Learning rate, momentum, clipping and the losses' hyperparameters are the paper's for
CIFAR-10; neither loss has weight decay. Nothing is tuned to the seed: try --seed 2.

    python examples/digits.py
    python examples/digits.py --rate 0.4 --seed 7 --figure curves.svg
"""

import argparse
import time

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn

from noiseproof import datasets, noise
from noiseproof.losses import L1, create, published_recipe


def images_and_labels(split: str) -> tuple[Tensor, Tensor]:
    """Pixels in [0, 1] as rows, and labels."""
    data = datasets.load("digits", split)
    return torch.tensor(data.images).flatten(1) / 255, torch.tensor(data.labels)


def train(
    loss: nn.Module, l1: L1, data: tuple[Tensor, ...], given: Tensor, seed: int, epochs: int, tick
) -> list[float]:
    """Test accuracy after every epoch."""
    torch.manual_seed(seed)
    x, _, x_test, y_test = data
    model = nn.Sequential(
        nn.Linear(64, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    accuracies = []
    for _ in range(epochs):
        model.train()
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            loss(model(x[batch]), given[batch]).backward()
            l1.add_to_gradients(model.parameters())
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            accuracies.append(100 * (model(x_test).argmax(1) == y_test).float().mean().item())
        tick()
    return accuracies


def draw(curves: dict[str, list[float]], rate: float, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for (name, accuracies), colour in zip(curves.items(), ("#b3402a", "#1f6fb4"), strict=True):
        axes.plot(range(1, len(accuracies) + 1), accuracies, color=colour, linewidth=2)
        axes.annotate(
            f" {name} {accuracies[-1]:.1f}%", (len(accuracies), accuracies[-1]), color=colour, va="center"
        )
    axes.set(
        xlabel="epoch",
        ylabel="test accuracy, %",
        ylim=(0, 100),
        xlim=(1, 1.22 * len(next(iter(curves.values())))),
        title=f"Handwritten digits, {rate:.0%} of the training labels wrong",
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=float, default=0.6, help="share of wrong training labels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--figure", help="draw the curves into this file (.svg, .png)")
    arguments = parser.parse_args()

    torch.set_num_threads(1)  # for such a small network, a second thread costs more than it gains
    data = *images_and_labels("train"), *images_and_labels("test")
    noisy = noise.symmetric(data[1], arguments.rate, 10, arguments.seed, generator="bernoulli")
    given = torch.tensor(noisy.labels)
    console = Console()
    wrong = f"{noisy.realised_rate:.1%} of the labels wrong"
    console.print(f"{len(given)} handwritten digits with {wrong}; {len(data[3])} clean test digits")

    started = time.perf_counter()
    curves = {}
    with Progress(console=console, transient=True) as progress:
        for name in ("ce", "anl-ce"):
            bar = progress.add_task(name, total=arguments.epochs)
            curves[name] = train(
                create(name, recipe="cifar10"),
                L1(published_recipe(name, "cifar10").l1),
                data,
                given,
                arguments.seed,
                arguments.epochs,
                lambda bar=bar: progress.advance(bar),
            )

    table = Table("epoch", *curves, title="test accuracy, %")
    for epoch in (1, 2, 5, *range(10, arguments.epochs + 1, 10)):
        if epoch <= arguments.epochs:
            table.add_row(str(epoch), *(f"{accuracies[epoch - 1]:.1f}" for accuracies in curves.values()))
    console.print(table)
    for name, accuracies in curves.items():
        console.print(f"{name:8} {accuracies[-1]:.1f} % on clean test labels after the last epoch")
    console.print(f"{time.perf_counter() - started:.0f} s")
    if arguments.figure:
        draw(curves, arguments.rate, arguments.figure)
        console.print(f"Curves: {arguments.figure}")


if __name__ == "__main__":
    main()
