# SPDX-License-Identifier: Apache-2.0
"""Write the winning parameters of the grid isic-tuning into the recipes for ISIC-2017.

    noiseproof bench isic-tuning --records results/isic-tuning.jsonl
    python tools/isic_winners.py results/isic-tuning.jsonl

The winner has the highest Dice on the held-out tenth of the training data; if equal, the first in the grid wins.
"""

import json
import sys
from pathlib import Path
from typing import Any

RECIPES = Path(__file__).parent.parent / "src" / "noiseproof" / "training" / "recipes"
FILES = ("isic2017.toml", "isic2017-128px.toml")
BEGIN = "# No parameters for segmentation are published"
COMMENT = """\
# No parameters for segmentation are published. These won the grid isic-tuning: equally many candidates a method,
# judged on a tenth of the training data under one noise, and then fixed for all (tools/isic_winners.py).
"""


def winners(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The config of each loss's best run."""
    best: dict[str, dict[str, Any]] = {}
    for line in lines:
        loss = line["loss"]
        if loss not in best or line["test_dice"] > best[loss]["test_dice"]:
            best[loss] = line
    return {loss: line["config"] for loss, line in best.items()}


def section(loss: str, config: dict[str, Any]) -> str:
    """A loss's part of a recipe; empty where it has nothing of its own."""
    own: dict[str, Any] = {}
    if config["l1"]:
        own |= {"weight_decay": config["weight_decay"], "l1": config["l1"]}
    if config["loss_parameters"]:
        pairs = ", ".join(f"{key} = {_toml(value)}" for key, value in config["loss_parameters"].items())
        own["loss_parameters"] = f"{{ {pairs} }}"
    if not own:
        return ""
    lines = [f"{key} = {value if key == 'loss_parameters' else _toml(value)}\n" for key, value in own.items()]
    return f'\n[for_loss."{loss}"]\n' + "".join(lines)


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def main(records: Path) -> None:
    """Rewrite both recipes from the comment on."""
    lines = [json.loads(line) for line in records.read_text().splitlines() if line]
    chosen = winners(lines)
    text = COMMENT + "".join(section(loss, config) for loss, config in sorted(chosen.items()))
    for name in FILES:
        path = RECIPES / name
        before, _, _ = path.read_text().partition(BEGIN)
        path.write_text(before + text)
    for loss, config in chosen.items():
        print(loss, config["loss_parameters"], f"l1 {config['l1']:g}, decay {config['weight_decay']:g}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
