# SPDX-License-Identifier: Apache-2.0
"""Text with wrong labels: a tiny transformer trained from scratch with cross-entropy and with ANL-CE.

The texts are the docstrings of Python's standard library, real sentences that are on every machine, and the class
is the package each comes from. 40% of the training labels are replaced by another package.

    python examples/text.py
    python examples/text.py --rate 0.6 --seed 2
"""

import argparse
import ast
import re
import sysconfig
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor, nn

from noiseproof import noise
from noiseproof.losses import L1, create, published_recipe

PACKAGES = ("asyncio", "email", "importlib", "logging", "multiprocessing", "unittest", "xml")
LENGTH = 48
PADDING, UNKNOWN = 0, 1


def docstrings(package: str) -> list[str]:
    """Docstrings of at least five words of a package's modules, classes and functions, each once."""
    found = {}
    for path in sorted((Path(sysconfig.get_paths()["stdlib"]) / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                # The package's own name would give the answer away.
                words = [word for word in re.findall(r"[a-z]+", text.lower()) if word != package]
                if len(words) >= 5:
                    found[" ".join(words[:LENGTH])] = None
    return list(found)


def tokens_and_labels(size: int) -> tuple[Tensor, Tensor, int]:
    texts = [(text, label) for label, package in enumerate(PACKAGES) for text in docstrings(package)]
    counts = Counter(word for text, _ in texts for word in text.split())
    vocabulary = {word: index for index, (word, _) in enumerate(counts.most_common(size), start=2)}
    tokens = torch.full((len(texts), LENGTH), PADDING)
    for row, (text, _) in enumerate(texts):
        indices = [vocabulary.get(word, UNKNOWN) for word in text.split()]
        tokens[row, : len(indices)] = torch.tensor(indices)
    return tokens, torch.tensor([label for _, label in texts]), len(vocabulary) + 2


class TinyTransformer(nn.Module):
    """One encoder layer over word and position embeddings, averaged over the words."""

    def __init__(self, vocabulary: int, num_classes: int, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.encoder = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        empty = tokens == PADDING
        encoded = self.encoder(self.words(tokens) + self.positions, src_key_padding_mask=empty)
        there = (~empty)[..., None].float()
        return self.head((encoded * there).sum(1) / there.sum(1))


def accuracy_after_training(
    name: str, data: tuple[Tensor, ...], vocabulary: int, seed: int, epochs: int
) -> float:
    x, given, x_test, y_test = data
    torch.manual_seed(seed)
    model = TinyTransformer(vocabulary, len(PACKAGES))
    loss = create(name, recipe="cifar10")
    l1 = L1(published_recipe(name, "cifar10").l1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
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
        return (model(x_test).argmax(1) == y_test).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=float, default=0.4, help="share of wrong training labels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="one epoch, to see that it runs")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    tokens, labels, vocabulary = tokens_and_labels(size=4000)
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(arguments.seed))
    train, test = order[len(order) // 4 :], order[: len(order) // 4]
    noisy = noise.symmetric(labels[train].numpy(), arguments.rate, len(PACKAGES), arguments.seed)
    data = tokens[train], torch.tensor(noisy.labels), tokens[test], labels[test]
    print(
        f"{len(train)} docstrings of {len(PACKAGES)} packages, {noisy.realised_rate:.1%} of the labels wrong; "
        f"{len(test)} to test"
    )
    epochs = 1 if arguments.quick else arguments.epochs
    for name in ("ce", "anl-ce"):
        right = accuracy_after_training(name, data, vocabulary, arguments.seed, epochs)
        print(f"{name:8} {right:.1%} on clean test labels", flush=True)


if __name__ == "__main__":
    main()
