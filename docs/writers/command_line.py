# SPDX-License-Identifier: Apache-2.0
"""Make docs/command-line.md from the commands themselves: what each does, its arguments, and examples."""

import inspect
import re
from typing import Any

import typer

from noiseproof.command_line import app

INTRODUCTION = """\
# Command line

<!-- Generated from the commands by docs/generate.py. Edit src/noiseproof/command_line instead. -->

`python -m noiseproof` is the same as `noiseproof`; `-h` or `--help` after any command prints its part of this page.
Exit status: 0 if all went well, 1 or 2 after an error, which is printed, and 130 if stopped by Ctrl-C, with
everything saved.

"""


def command_line_page() -> str:
    """Every command, with its arguments, options and examples."""
    root = typer.main.get_command(app)
    parts = [INTRODUCTION + "| command | what it does |\n|---|---|"]
    every = list(_commands(root, "noiseproof"))
    parts[0] += "".join(
        f"\n| [`{name}`](#{name.replace(' ', '-')}) | {_cell(_first_sentence(each))} |"
        for name, each in every
    )
    parts += [_section(name, each) for name, each in every]
    return "\n\n".join(parts) + "\n"


def _commands(command: Any, name: str) -> Any:
    """All commands below one, each after its group; a group that does nothing by itself is left out."""
    for word, each in command.commands.items():
        if each.hidden:
            continue
        if hasattr(each, "commands"):
            if each.invoke_without_command:
                yield f"{name} {word}", each
            yield from _commands(each, f"{name} {word}")
        else:
            yield f"{name} {word}", each


def _section(name: str, command: Any) -> str:
    seen = [each for each in command.params if not each.hidden]
    arguments = [each for each in seen if not each.opts[0].startswith("-")]
    options = [each for each in seen if each.opts[0].startswith("-")]
    usage = " ".join([name, *map(_usage, arguments), *(["[OPTIONS]"] if options else [])])
    lines = [f"## {name}", "", _text(inspect.cleandoc(command.help or "")), "", "```text", usage, "```"]
    if arguments or options:
        lines += ["", "| | meaning |", "|---|---|"]
        lines += [f"| `{_usage(each)}` | {_cell(each.help)} |" for each in arguments]
        lines += [f"| {_names(each)} | {_cell(each.help)}{_default(each)} |" for each in options]
    remarks, examples = _epilogue(command.epilog or "")
    if remarks:
        lines += ["", " ".join(remarks)]
    if examples:
        lines += ["", "```console", *examples, "```"]
    return "\n".join(lines)


def _usage(argument: Any) -> str:
    word = (argument.metavar or argument.name.upper()).strip("[]")
    word += "..." if argument.nargs != 1 else ""
    return word if argument.required else f"[{word}]"


def _names(option: Any) -> str:
    names = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names
    value = option.metavar or option.name.upper()
    return f"{names} `{value}`" + (" (repeatable)" if option.multiple else "")


def _default(option: Any) -> str:
    if option.required:
        return " Required."
    if option.default is None or option.default is False or option.default == []:
        return ""
    return f" Default: `{option.opts[0] if option.is_flag else option.default}`."


def _epilogue(text: str) -> tuple[list[str], list[str]]:
    """Sentences, and lines to type."""
    remarks, examples = [], []
    for line in (each.strip() for each in text.splitlines()):
        if re.match(r"(noiseproof|torchrun|python) ", line):
            examples.append(re.sub(r" {2,}(?=\S)", "   # ", line))
        elif line and not re.fullmatch(r"\[bold\]Examples\[/bold\]", line):
            remarks.append(_text(line))
    return remarks, examples


def _first_sentence(command: Any) -> str:
    return inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")


def _text(text: str) -> str:
    """Rich's markup as Markdown."""
    return re.sub(r"\[/?bold\]", "**", text)


def _cell(text: str | None) -> str:
    return _text(text or "").replace("|", "\\|").replace("\n", " ").replace("*", "\\*")
