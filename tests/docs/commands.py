# SPDX-License-Identifier: Apache-2.0
"""Reads command lines as the pages show them, and says what is wrong with one."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from tests.docs.pages import Block

from noiseproof.command_line import app

ROOT_COMMAND = typer.main.get_command(app)
HELP = {"-h", "--help"}
END = {"|", "||", "&", "&&", ";", ">", ">>", "<", "done", "do"}
PLACEHOLDER = re.compile(r"[A-Z_]{2,}|…|\.\.\.|.*[$*{].*")
"""RUN, DATASET, …, $gpu: a word the reader puts something in the place of."""


FILLED = "$filled"
"""Stands for what $(…) would become: options, or nothing."""


def lines_of(block: Block) -> Iterator[tuple[int, str]]:
    """Lines of a block to be typed, continued ones joined, without a prompt and without remarks."""
    number, pending = block.line, ""
    for offset, line in enumerate(block.code.splitlines()):
        if not pending:
            number = block.line + offset
        line = pending + re.sub(r"^\s*\$ ", "", line)
        if line.endswith("\\"):
            pending = line[:-1]
            continue
        pending = ""
        if not line.lstrip().startswith("#"):
            yield number, line


def calls_in(line: str, program: str) -> list[list[str]]:
    """What a line gives to a program, for each time it is called there."""
    line = re.sub(r"\$\([^)]*\)", FILLED, line)
    line = re.split(r"\s#", line)[0]
    try:
        words = shlex.split(line)
    except ValueError:  # a quotation mark in a sentence: nothing to type
        return []
    calls: list[list[str]] = []
    for place, word in enumerate(words):
        first = (
            place == 0 or words[place - 1] in {*END, "-m", "nohup", "srun", "$"} or "=" in words[place - 1]
        )
        if word == program and (first or words[0] in {"srun", "torchrun"}):
            rest = words[place + 1 :]
            end = next((i for i, each in enumerate(rest) if each in END), len(rest))
            calls.append(rest[:end])
    return calls


def trouble_with(arguments: list[str]) -> str | None:
    """What ``noiseproof`` would not understand; ``None`` where all is well."""
    command: Any = ROOT_COMMAND
    said: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            name, equals, _ = word.partition("=")
            option = _option(command, name)
            if option is None and name not in HELP:
                return f"no option {name} of {command.name}"
            if option is not None and not option.is_flag and not equals:
                if not words:
                    return f"{name} without a value"
                value = words.pop(0)
                own = name in ("--loss", "--noise") and "--import" in arguments  # what the page registers
                if not own and (problem := _trouble_with_value(name, value, command.name)):
                    return problem
        elif hasattr(command, "commands"):
            if word in command.commands:
                command, said = command.commands[word], []
            elif command.name == "runs":  # runs RUN
                command, said = command.commands["show"], [word]
            elif not PLACEHOLDER.fullmatch(word):
                return f"no command {word} of {command.name}"
        elif word != FILLED:
            said.append(word)
    return _trouble_with_arguments(command, said, arguments)


def _option(command: Any, name: str) -> Any:
    for each in command.params:
        if name.startswith("-") and name in (*each.opts, *each.secondary_opts):
            return each
    return None


def _trouble_with_arguments(command: Any, said: list[str], words: list[str]) -> str | None:
    taken = [each for each in command.params if not each.opts[0].startswith("-")]
    most = float("inf") if any(each.nargs == -1 for each in taken) else len(taken)
    if len(said) > most:
        return f"{command.name} takes {len(taken)} arguments, got {said}"
    first = said[0] if said and not PLACEHOLDER.fullmatch(said[0]) else None
    if first and command.name in ("bench", "table", "report") and not first.endswith(".toml"):
        from noiseproof.grids import names

        if first not in names():
            return f"no grid {first}"
    if first and command.name in ("train", "noise") and not re.match("folder:|csv:|tuning:", first):
        return _unknown_dataset(first)
    return None


def _trouble_with_value(option: str, value: str, command: str) -> str | None:
    from noiseproof.losses import record
    from noiseproof.noise import parse_name

    if PLACEHOLDER.fullmatch(value):
        return None
    try:
        if option == "--loss":
            record(value)
        if option == "--noise":
            for each in value.split(","):
                parse_name(each)
    except (KeyError, ValueError) as error:
        return f"{command} {option}: {error}"
    return None


def _unknown_dataset(name: str) -> str | None:
    from noiseproof.datasets import sources

    return None if name in {each.name for each in sources()} else f"no data set {name}"


def make_targets(makefile: Path) -> set[str]:
    """What ``make`` can be asked for."""
    return set(re.findall(r"^([a-z][\w-]*):", makefile.read_text(), re.M))
