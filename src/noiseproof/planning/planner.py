# SPDX-License-Identifier: Apache-2.0
"""``plan(…)``: look at data, decide, and write it down as a TOML that ``noiseproof train`` takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noiseproof import datasets
from noiseproof.datasets.identity import OWN
from noiseproof.planning.choice import Choice
from noiseproof.planning.deciding import decide
from noiseproof.planning.facts import Facts, Noise, facts_of
from noiseproof.planning.noise_guess import Tell, noise_of
from noiseproof.planning.recipe_file import comment, toml

if TYPE_CHECKING:
    from noiseproof.training.config import Config

LABELED_BY_PEOPLE = {"cifar10n": 0.4021, "cifar100n": 0.402}
"""Data sets whose noise is known, because their true labels are."""

GREEK = {"alpha": "α", "beta": "β", "entropy_weight": "λ", "gamma": "γ"}


MIRRORED = (
    "Training images are mirrored at random. Where left and right matter, as in digits and text, set "
    'augment = "none" here, or use --augment none.'
)


@dataclass(frozen=True)
class Plan:
    """What was found and chosen.

    Attributes:
        facts: what is known of the data.
        choices: every choice, in the order in which they were made; not those that the user said.
        said: what the user said, by field.
    """

    facts: Facts
    choices: tuple[Choice, ...]
    said: Mapping[str, Any]

    def __getitem__(self, field: str) -> Choice:
        for choice in self.choices:
            if choice.field == field:
                return choice
        raise KeyError(field)

    @property
    def values(self) -> dict[str, Any]:
        """Fields of :class:`~noiseproof.training.Config`, chosen and said."""
        chosen = {choice.field: choice.value for choice in self.choices if choice.field != "row"}
        parameters = {**chosen.get("loss_parameters", {}), **self.said.get("loss_parameters", {})}
        both = chosen | {name: value for name, value in self.said.items() if value is not None}
        return both | ({"loss_parameters": parameters} if parameters else {})

    def config(self) -> "Config":
        """The config of a run of this plan."""
        from noiseproof.training.config import Config, inputs_of

        name, values = self.facts.name, self.values
        inputs = inputs_of(name, values.get("weights"), str(values.get("noise", "clean")))
        return Config(dataset=name, **values, inputs=inputs)

    def as_toml(self) -> str:
        """The plan as a recipe for ``noiseproof train DATA --recipe FILE``, with reasons as comments."""
        lines = [
            f"# A plan for {self.facts.name}, made by noiseproof plan. Change anything you know better.",
            "#",
        ]
        lines += comment(str(self.facts))
        noise = "noise: not estimated" if self.facts.noise is None else f"noise: {self.facts.noise}"
        lines += comment(noise)
        reasons = {choice.field: choice for choice in self.choices}
        row = reasons.pop("row", None)
        if row is not None:
            lines += ["#", *comment(f"Values are those of the row {row.value}: {row.reason}"), *_cited(row)]
        if self.facts.name.startswith(OWN) and "augment" not in self.values:
            lines += ["#", *comment(MIRRORED)]
        for field, value in self.values.items():
            choice = reasons.get(field, Choice(field, value, "given by the user"))
            lines += ["", *comment(_named(choice)), *_cited(choice), f"{field} = {toml(value)}"]
        return "\n".join(lines) + "\n"


def plan(
    dataset: str,
    *,
    said: Mapping[str, Any] | None = None,
    noise: Noise | None = None,
    estimate: bool = True,
    tell: Tell | None = None,
) -> Plan:
    """Plan a run.

    Args:
        dataset: what ``noiseproof train`` takes: a data set's name, ``folder:PATH`` or ``csv:PATH``.
        said: fields of :class:`~noiseproof.training.Config` that are already decided.
        noise: what is known about the label noise; it is then not estimated.
        estimate: estimate the noise if it is not known; never done for masks.
        tell: called with progress: what is being done, and what share of it is done.

    Example:
        >>> made = plan("digits", noise=Noise(0.2, "asym"))
        >>> made["loss"].value, made["loss"].reason
        ('anl-ce*', 'classes are confused with one another, and about equally frequent')
        >>> made.config().loss_parameters
        {'alpha': 5.0, 'beta': 5.0, 'entropy_weight': 2.0}
    """
    from noiseproof.training.data import load_split

    said = dict(said or {})
    if said.get("image_size") is not None and not dataset.startswith(OWN):
        raise ValueError(f"image_size: the images of {dataset} have a fixed size; leave it out")
    data = load_split(dataset, "train", said.get("image_size"))
    facts = facts_of(data, dataset)
    if noise is None and dataset in LABELED_BY_PEOPLE:
        noise = Noise(LABELED_BY_PEOPLE[dataset], "real", "known, because the true labels are")
    if noise is None and estimate and data.masks is None and data.num_classes > 1:
        guess = noise_of(data) if tell is None else noise_of(data, tell=tell)
        noise = guess.as_noise()
    facts = facts.with_noise(noise)
    return Plan(facts, tuple(decide(facts, said)), said)


def config_for(
    data: datasets.LabeledData, source: str | None = None, said: Mapping[str, Any] | None = None
) -> "Config":
    """Make a config for data that is loaded: its recipe where it has one, else a plan; what is said wins.

    Args:
        data: the training split.
        source: what it was loaded by; planned from the data alone by default.
        said: fields of :class:`~noiseproof.training.Config` that are settled.

    Example:
        >>> config_for(datasets.load("digits"), "digits", {"epochs": 3}).model
        'mlp'
    """
    from noiseproof.training.config import default_recipe, resolve

    settled = dict(said or {})
    if source is not None and default_recipe(source) is not None:
        return resolve(source, **settled)
    facts = facts_of(data, source)
    return Plan(facts, tuple(decide(facts, settled)), settled).config()


def _named(choice: Choice) -> str:
    """A reason, with the letters that the numbers of a loss go by."""
    names = {"l1": "δ: ", "learning_rate": "learning rate: "}
    letters = (
        [GREEK[name] for name in choice.value if name in GREEK] if isinstance(choice.value, Mapping) else []
    )
    return (
        f"{', '.join(letters)}: {choice.reason}" if letters else names.get(choice.field, "") + choice.reason
    )


def _cited(choice: Choice) -> list[str]:
    return comment(f"[{choice.rule}] {choice.source}", "#   ") if choice.rule else []
