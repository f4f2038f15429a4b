# SPDX-License-Identifier: Apache-2.0
"""Write the generated pages: losses from the catalogue, commands from their help, the rest from recorded results.

python docs/generate.py            write
python docs/generate.py --check    only report whether the pages are up to date
"""

import argparse
import sys
from pathlib import Path

from performance import performance_page
from readme import readme_page
from reproduce import reproduce_page

from command_line import command_line_page
from noiseproof.command_line.losses import assignments, recipe_text
from noiseproof.losses import available, record

HERE = Path(__file__).parent

INTRODUCTION = """\
# Losses

<!-- Generated from the catalogue by docs/generate.py. Edit src/noiseproof/losses/records.py instead. -->

Every loss comes as a function with the signature of `torch.nn.functional.cross_entropy` and as a Module used like
`torch.nn.CrossEntropyLoss`, both in `noiseproof.losses`. `create("NAME")` makes the Module by name, and
`create("NAME", recipe="cifar100")` makes it with the hyperparameters published for that data set.

Notation: p = softmax(logits), y is the given label, q its one-hot vector, K the number of classes; logarithms are
natural. A loss is symmetric if its sum over all labels is the same for every prediction
([why that matters](theory.md)).

Targets are class indices, or probabilities of the logits' shape. With probabilities, every loss is its expectation
over the label, Σ_k t_k L(k). Half-precision logits are evaluated in float32 and give a float32 loss. A batch in
which every label is ignored has loss 0 (torch's cross-entropy gives NaN).

"""


def losses_page() -> str:
    """The catalogue as a page."""
    lines = ["| name | formula | range | symmetric | defaults |", "|---|---|---|---|---|"]
    for name in available():
        each = record(name)
        names = ", ".join(f"`{n}`" for n in (each.name, *each.aliases))
        lines.append(
            f"| {names} | {_cell(each.formula)} | {_cell(each.range)} | {'yes' if each.symmetric else 'no'} | "
            f"{_cell(assignments(each.defaults))} |"
        )
    for name in available():
        each = record(name)
        lines += [
            "",
            f"## {each.name}",
            "",
            f"{each.title[0].upper()}{each.title[1:]}: {_text(each.formula)}",
            "",
        ]
        lines += [f"* class `{each.module.__name__}`, function `{each.function.__name__}`"]
        lines += [f"* {_text(each.paper)}"]
        if each.needs:
            lines += [f"* needs {_text(each.needs)}"]
        lines += [f"* {recipe}: {_text(recipe_text(each, recipe))}" for recipe in each.recipes]
    return INTRODUCTION + "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Keep Markdown from reading stars and underscores of a formula as emphasis."""
    for mark in ("\\", "*", "_", "^", "|", "<"):
        text = text.replace(mark, "\\" + mark)
    return text


def _cell(text: str) -> str:
    return _text(text) or "–"


PAGES = {
    "losses.md": losses_page,
    "command-line.md": command_line_page,
    "reproduce.md": reproduce_page,
    "performance.md": performance_page,
    "../README.md": readme_page,
}


def main() -> None:
    """Write every page that changed, or report which would."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, and fail if a page is out of date"
    )
    arguments = parser.parse_args()
    stale = []
    for name, page in PAGES.items():
        path, text = HERE / name, page()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not arguments.check:
                path.write_text(text)
    if arguments.check and stale:
        sys.exit(f"out of date: {', '.join(stale)}; run: make docs")


if __name__ == "__main__":
    main()
