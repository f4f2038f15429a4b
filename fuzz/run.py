# SPDX-License-Identifier: Apache-2.0
"""Fuzz one reader, guided by coverage, with atheris; see README.md.

python fuzz/run.py csv --seconds 600 --work FOLDER
python fuzz/run.py csv --measure --work FOLDER       lines of the reader that the corpus reaches
python fuzz/run.py csv --keep --work FOLDER          keep what reaches new lines in fuzz/corpus
"""

import argparse
import contextlib
import hashlib
import importlib
import io
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

LIBRARIES = ["pickletools", "tomllib", "tarfile", "csv", "PIL"]
"""Readers of others behind ours, whose branches lead the way too."""

OF_TORCH = ("checkpoint", "torch-weights", "human")
"""Targets whose files torch's restricted unpickler reads; the rest of torch would take minutes to instrument."""

ADDED_BYTES = 4_000
"""What is added to a target's corpus in the repository at once, at most."""


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--work", type=Path, required=True, help="corpus and crashes grow here")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--keep", action="store_true")
    said = parser.parse_args()
    grown = said.work / said.target
    grown.mkdir(parents=True, exist_ok=True)
    if said.measure or said.keep:
        replay(said.target, [HERE / "corpus" / said.target, grown], keep=said.keep)
    else:
        fuzz(said.target, grown, said.work / "crashes", said.seconds)


def fuzz(name: str, grown: Path, crashes: Path, seconds: int) -> None:
    """Run atheris until the time is over; errors that are not ours are kept, one for each place."""
    import atheris

    with atheris.instrument_imports(include=["noiseproof", *LIBRARIES]):
        from targets import TARGETS, NotOurOwnError, run, source

        for file, _ in map(parted, TARGETS[name].modules):
            importlib.import_module("noiseproof." + file.removesuffix(".py").replace("/", "."))
    for name_of_module, module in list(sys.modules.items()):
        if name_of_module.startswith("noiseproof") and module.__file__:
            source(module.__file__)
    if name in OF_TORCH:
        from torch._weights_only_unpickler import Unpickler

        Unpickler.load = atheris.instrument_func(Unpickler.load)
    target, seen = TARGETS[name], set()
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))

    def one(content: bytes) -> None:
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                run(target, content, folder)
        except NotOurOwnError as error:
            place = str(error).partition(": ")[0]
            if place not in seen:
                seen.add(place)
                crashes.mkdir(exist_ok=True)
                digest = hashlib.sha256(content).hexdigest()[:12]
                (crashes / f"{name}-{digest}").write_bytes(content)
                (crashes / f"{name}-{digest}.txt").write_text(f"{error}\n")

    limits = ["-max_len=8192", "-timeout=30", "-rss_limit_mb=6000", "-malloc_limit_mb=0"]
    where = [str(grown), str(HERE / "corpus" / name)]
    prefix = f"-artifact_prefix={crashes.parent}/{name}-"
    options = [f"-max_total_time={seconds}", "-print_final_stats=1", prefix]
    atheris.Setup([sys.argv[0], *limits, *options, *where], one)
    atheris.Fuzz()


def replay(name: str, folders: list[Path], *, keep: bool) -> None:
    """Feed a corpus to the reader again and count the lines of its modules that are reached."""
    import coverage

    from targets import TARGETS, NotOurOwnError, run

    target = TARGETS[name]
    source = HERE.parent / "src" / "noiseproof"
    files = {str(source / module): functions for module, functions in map(parted, target.modules)}
    seeds, grown = (sorted({path.read_bytes() for path in folder.iterdir()}, key=len) for folder in folders)
    reached: set[tuple[str, int]] = set()
    kept: list[bytes] = []
    with tempfile.TemporaryDirectory() as scratch:
        measured = coverage.Coverage(include=list(files), data_file=None, config_file=False)
        for content in [*seeds, *grown]:
            measured.erase()
            measured.start()
            with contextlib.suppress(NotOurOwnError), contextlib.redirect_stderr(io.StringIO()):
                run(target, content, Path(scratch))
            measured.stop()
            data = measured.get_data()
            lines = {(file, line) for file in data.measured_files() for line in data.lines(file) or ()}
            added = content not in seeds and lines - reached
            if added and sum(map(len, kept)) + len(content) <= ADDED_BYTES:
                kept.append(content)
            reached |= lines
    for file, functions in files.items():
        _, statements, _, _, _ = measured.analysis2(file)
        of_functions = _inside(functions, Path(file), set(statements))
        found = {line for where, line in reached if where == file} & of_functions
        missing = ", ".join(map(str, sorted(of_functions - found)))
        print(f"{name}: {Path(file).name}: {len(found)} of {len(of_functions)} lines; not reached: {missing}")
    if keep:
        _keep(name, kept)


def parted(module: str) -> tuple[str, list[str]]:
    """The file and the functions of an entry of :attr:`targets.Target.modules`."""
    file, _, functions = module.partition(": ")
    return file, functions.split()


def _inside(functions: list[str], path: Path, statements: set[int]) -> set[int]:
    """The lines of some functions, else of all: those outside of functions run when the module is imported."""
    import ast

    inside: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and (node.name in functions or not functions):
            inside |= set(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
    return inside & statements


def _keep(name: str, contents: list[bytes]) -> None:
    for content in contents:
        (HERE / "corpus" / name / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)


if __name__ == "__main__":
    main()
