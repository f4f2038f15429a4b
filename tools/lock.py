# SPDX-License-Identifier: Apache-2.0
"""Write requirements.lock: the versions of constraints.txt with the checksums of all their files.

    python tools/lock.py            then: pip install --require-hashes -r requirements.lock

Checksums come from the package index, for every platform. Those of the files that pip would choose on this machine
are added, since a machine may have its own builds. That is the case for torch: on Linux the index has only CUDA
builds, which need many more packages and are not what CI tests. They are left out, and the CPU build is locked.
"""

import html
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pip._internal.models.index import PyPI

ROOT = Path(__file__).parent.parent
INDEX = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
HEADER = "# Made from constraints.txt by tools/lock.py: pip install --require-hashes -r requirements.lock\n"


def pinned() -> list[tuple[str, str]]:
    """Names and versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [tuple(line.split("==")) for line in lines if line and not line.startswith("#")]


def on_index(name: str, version: str) -> set[str]:
    """Checksums of all files of a version."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    with urllib.request.urlopen(f"{INDEX}/{normal}/", timeout=60) as answer:
        page = html.unescape(answer.read().decode())
    spelled = re.sub(r"[-_.]+", "[-_.]+", re.escape(name).replace(r"\-", "-").replace(r"\.", "."))
    file = rf"/({spelled}-{re.escape(version)}(?:-[^/#\"]+\.whl|\.tar\.gz|\.zip))"
    found = re.findall(rf"{file}#sha256=([0-9a-f]{{64}})", page, flags=re.IGNORECASE)
    return {checksum for file, checksum in found if not (name == "torch" and "linux" in file)}


def of_this_machine(pins: list[tuple[str, str]]) -> dict[str, set[str]]:
    """Checksums of the files that pip chooses on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        wanted = [f"{name}=={version}" for name, version in pins]
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--no-deps",
            "--ignore-installed",
        ]
        subprocess.run([*command, "--report", str(report), *wanted], check=True)
        installs = json.loads(report.read_text())["install"]
    found: dict[str, set[str]] = {}
    for each in installs:
        name = re.sub(r"[-_.]+", "-", each["metadata"]["name"]).lower()
        found.setdefault(name, set()).add(each["download_info"]["archive_info"]["hashes"]["sha256"])
    return found


def main() -> None:
    """Write the file."""
    pins = pinned()
    here = of_this_machine(pins)
    with ThreadPoolExecutor(8) as pool:
        listed = list(pool.map(lambda pin: on_index(*pin), pins))
    entries = []
    for (name, version), hashes in zip(pins, listed, strict=True):
        known = hashes | here.get(re.sub(r"[-_.]+", "-", name).lower(), set())
        if not known:
            raise SystemExit(f"{name}=={version}: neither the index nor this machine has a file of it")
        entries.append(
            f"{name}=={version}" + "".join(f" \\\n    --hash=sha256:{each}" for each in sorted(known))
        )
    (ROOT / "requirements.lock").write_text(HEADER + "\n".join(entries) + "\n")
    print(f"requirements.lock: {len(entries)} packages")


if __name__ == "__main__":
    main()
