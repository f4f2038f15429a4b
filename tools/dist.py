# SPDX-License-Identifier: Apache-2.0
"""Build the sdist and the wheel twice, compare them, and try the wheel in an empty environment.

    python tools/dist.py            leaves both in dist/

The current commit is built, with its time on every file, so that everybody gets the same bytes.
"""

import argparse
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*command: str, cwd: Path = ROOT, **environment: str) -> str:
    """Run a program and return its output; if it fails, exit."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> dict[str, str]:
    """Build from a fresh copy of the commit, and return the checksum of each file."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    when = run("git", "log", "-1", "--format=%ct").strip()
    run(sys.executable, "-m", "hatchling", "build", cwd=folder, SOURCE_DATE_EPOCH=when)
    files = sorted((folder / "dist").iterdir())
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def try_out(wheel: Path, folder: Path, demo: bool) -> None:
    """Install a wheel into an empty environment and use it, away from the sources."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(python, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel))
    print(run(python, "-m", "noiseproof", "--version", cwd=folder).strip(), "installed")
    run(python, "-m", "noiseproof", "losses", cwd=folder)
    if demo:
        print(run(python, "-m", "noiseproof", "demo", cwd=folder))


def main() -> None:
    """Build, compare, try."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-demo", action="store_true", help="do not train the demo")
    parser.add_argument("--no-install", action="store_true", help="only build and compare")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        first, second = build(Path(one)), build(Path(other))
        if first != second:
            raise SystemExit(f"two builds of the same commit differ: {first} and {second}")
        for name, checksum in first.items():
            print(f"{checksum}  {name}")
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(Path(one) / "dist", ROOT / "dist")
    if not args.no_install:
        with tempfile.TemporaryDirectory() as folder:
            (wheel,) = (ROOT / "dist").glob("*.whl")
            try_out(wheel, Path(folder), not args.no_demo)


if __name__ == "__main__":
    main()
