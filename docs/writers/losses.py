# SPDX-License-Identifier: Apache-2.0
"""The page docs/losses.md, from the catalogue."""

from noiseproof.command_line.losses import assignments, recipe_text
from noiseproof.losses import available, record

INTRODUCTION = """\
# Losses

<!-- Generated from the catalogue by docs/generate.py. Edit src/noiseproof/losses/records.py instead. -->

Every loss comes as a function with the signature of `torch.nn.functional.cross_entropy` and as a Module used like
`torch.nn.CrossEntropyLoss`, both in `noiseproof.losses`. `create("NAME")` makes the Module by name, and
`create("NAME", recipe="cifar100")` makes it with the hyperparameters published for that data set. A loss for which
none were published keeps its defaults there, and how strong its L1 is then is for you to choose: see
[which numbers](howto/which-numbers.md).

Notation: p = softmax(logits), y is the given label, q its one-hot vector, K the number of classes; logarithms are
natural. A loss is symmetric if its sum over all labels is the same for every prediction
([why that matters](theory.md)).

Targets are class indices, or probabilities of the logits' shape. With probabilities, every loss is its expectation
over the label, Σ_k t_k L(k); there is no `label_smoothing`, so pass smoothed labels as probabilities.
Half-precision logits are evaluated in float32 and give a float32 loss. A batch in which every label is ignored has
loss 0 (torch's cross-entropy gives NaN).

Three more losses look at whole images and are for masks only: `t-loss`, `dice` and `ce+dice`
([segmentation](segmentation.md#losses)).

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
