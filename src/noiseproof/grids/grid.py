# SPDX-License-Identifier: Apache-2.0
"""A grid in memory: what is compared, under which noises, with which seeds."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from noiseproof.datasets import DataError
from noiseproof.grids.checks import check_grid, chosen_methods, chosen_noises, chosen_pairs
from noiseproof.noise import parse_name
from noiseproof.training.config import NOT_PART_OF_THE_RESULT, Config

if TYPE_CHECKING:
    from noiseproof.planning.own_data import Configs


@dataclass(frozen=True)
class Method:
    """One row of a table, or one curve of a figure.

    Attributes:
        label: its name, as the paper writes it; unique in the grid, and without a comma.
        loss: a loss of the catalogue.
        settings: fields of :class:`noiseproof.training.Config` that this method sets.
    """

    label: str
    loss: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """One run of a grid; ``config.hash`` says which recorded run is its own."""

    method: Method
    noise: str
    seed: int
    config: Config


@dataclass(frozen=True)
class Grid:
    """Methods × noises × seeds on one data set.

    Attributes:
        name: as the user types it.
        title: in words.
        dataset: what is trained on.
        kind: what it is drawn as, one of :data:`noiseproof.grids.KINDS`.
        methods: what is compared.
        noises: short names of label noise, kept as :func:`noiseproof.noise.parse_name` writes them; ``"clean"``
            leaves labels as they are.
        seeds: seeds of the runs.
        settings: fields of the config for all methods; a method's own win.
        published: key of the paper's table, where it has one.
        columns: how the paper's table names the column of a noise, where not by the noise's name.
        recipe: a recipe's name or TOML file, where not the data set's own; ``"auto"`` for a plan, which data of the
            user's own has without it.
        overrides: fields of the config that win over everything, such as those of a command line.
        like: the built-in grid from which it takes what its file does not say.
        only: pairs of a method's label and a noise, where only some of all are wanted.
    """

    name: str
    title: str
    dataset: str
    kind: str
    methods: tuple[Method, ...]
    noises: tuple[str, ...]
    seeds: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    published: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    recipe: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    like: str | None = None
    only: frozenset[tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        check_grid(self)
        self._spell_noises_as_recorded()

    def column(self, noise: str) -> str:
        """Name of a noise's column in the paper's table."""
        spelt = _spelt(noise)
        return self.columns.get(spelt, spelt)

    @property
    def pairs(self) -> list[tuple[Method, str]]:
        """Its methods, each with the noises under which it is wanted."""
        return [
            (method, noise)
            for method in self.methods
            for noise in self.noises
            if self.only is None or (method.label, noise) in self.only
        ]

    def variant(self, method: Method) -> str | None:
        """What sets a method's runs apart from others with its data, loss, noise and seed; None where nothing does.

        In a figure, and where a method sets fields of the config itself, that is its label; settings that win over
        the grid's own are added.

        >>> from noiseproof.grids import load
        >>> parts = load("cifar10-parts").narrowed(settings={"epochs": 30})
        >>> [parts.variant(method) for method in parts.methods]
        ['NCE, epochs=30', 'NNCE, epochs=30', 'epochs=30']
        """
        said = [method.label] if self.kind != "table" or method.settings else []
        for key, value in self.overrides.items():
            if key not in NOT_PART_OF_THE_RESULT:
                said.append(f"{key}={json.dumps(value) if isinstance(value, Mapping) else value}")
        return ", ".join(said) or None

    def cells(self) -> list[Cell]:
        """All runs, seed by seed: whoever stops early has one seed of every method and noise first.

        Numbers of a planned grid (``recipe``) come from the data; where that is not there, cells stand for recorded
        runs by method, noise and seed alone.

        Raises:
            ValueError: a config does not stand, or two cells are the same experiment.
        """
        from noiseproof.planning.own_data import Configs

        configs = Configs(self.dataset, self.recipe)
        cells = [
            Cell(method, noise, seed, self._config(configs, method, noise, seed))
            for seed in self.seeds
            for method, noise in self.pairs
        ]
        seen: dict[str, Cell] = {}
        for cell in cells:
            other = seen.setdefault(cell.config.hash, cell)
            if other is not cell:
                raise ValueError(
                    f"grid {self.name}: {other.method.label!r} and {cell.method.label!r} are the same experiment; "
                    "leave one out, or let their settings differ"
                )
        return cells

    def narrowed(
        self,
        methods: Iterable[str] | None = None,
        noises: Iterable[str] | None = None,
        seeds: Iterable[int] | None = None,
        settings: Mapping[str, Any] | None = None,
        cells: Iterable[str] | None = None,
    ) -> "Grid":
        """Return a part of the grid, with other seeds or settings if asked for.

        Args:
            methods: labels in any case, or names of losses, which stand for all methods with that loss.
            noises: noises of the grid.
            seeds: any seeds, also others than the grid's.
            settings: fields of the config that win over the grid's and the methods' own.
            cells: pairs of a method and a noise, as ``METHOD@NOISE``, where not all of these are wanted.

        Example:
            >>> from noiseproof.grids import load
            >>> part = load("cifar10-table").narrowed(["anl-ce", "apl"], ["sym-0.8"], [1])
            >>> [(cell.method.label, cell.noise, cell.seed) for cell in part.cells()]
            [('APL', 'sym-0.8', 1), ('ANL-CE', 'sym-0.8', 1)]
            >>> part = load("cifar10-table").narrowed(seeds=[1], cells=["mae@dep-0.4", "fl@real"])
            >>> [(cell.method.label, cell.noise, cell.seed) for cell in part.cells()]
            [('FL', 'real', 1), ('MAE', 'dep-0.4', 1)]
        """
        part = replace(
            self,
            methods=self.methods if methods is None else chosen_methods(self, methods),
            noises=self.noises if noises is None else chosen_noises(self, noises),
            seeds=self.seeds if seeds is None else tuple(seeds),
            overrides=merged(self.overrides, settings or {}),
        )
        if cells is not None:
            wanted = chosen_pairs(part, cells)
            part = replace(part, only=wanted if part.only is None else wanted & part.only)
        return part if part.only is None else part._without_empty_rows()

    def _spell_noises_as_recorded(self) -> None:
        """``sym-0.40`` as ``sym-0.4``, which is what runs, their lines and the paper's columns call it."""
        object.__setattr__(self, "noises", tuple(map(_spelt, self.noises)))
        object.__setattr__(self, "columns", {_spelt(noise): name for noise, name in self.columns.items()})
        if self.only is not None:
            only = frozenset((label, _spelt(noise)) for label, noise in self.only)
            object.__setattr__(self, "only", only)

    def _without_empty_rows(self) -> "Grid":
        """Methods and noises of which a pair is left."""
        if not self.pairs:
            raise ValueError(f"cells: none of grid {self.name} is left by this choice of methods and noises")
        labels = {method.label for method, _ in self.pairs}
        noises = {noise for _, noise in self.pairs}
        return replace(
            self,
            methods=tuple(method for method in self.methods if method.label in labels),
            noises=tuple(noise for noise in self.noises if noise in noises),
        )

    def _config(self, configs: "Configs", method: Method, noise: str, seed: int) -> Config:
        said = merged(self.settings, method.settings, self.overrides)
        try:
            return configs.of({**said, "loss": method.loss, "noise": noise, "seed": seed})
        except (ValueError, TypeError, DataError) as error:
            raise ValueError(f"grid {self.name}, method {method.label!r}, noise {noise}: {error}") from error


def _spelt(noise: str) -> str:
    return str(parse_name(noise))


def merged(*settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings over one another: whoever comes later wins; the loss's parameters are merged one by one.

    >>> merged({"l1": 1.0, "loss_parameters": {"alpha": 1}}, {"loss_parameters": {"beta": 2}})
    {'l1': 1.0, 'loss_parameters': {'alpha': 1, 'beta': 2}}
    """
    result: dict[str, Any] = {}
    for each in settings:
        for key, value in each.items():
            if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
                value = {**result[key], **value}
            result[key] = value
    return result
