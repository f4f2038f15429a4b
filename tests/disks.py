# SPDX-License-Identifier: Apache-2.0
"""Disks that are full or may not be written, for real: by mounts where the system lets us, else by limits."""

import contextlib
import os
import subprocess
import sys

import pytest


@contextlib.contextmanager
def small_disk(folder, size="4m"):
    """A disk of its own, of so many bytes."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk, and only on Linux outside of most containers")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def room_left(disk, size):
    """So many bytes left on a small disk, inside the block."""
    ballast = disk / "ballast"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    ballast.write_bytes(bytes(max(0, free - size)))
    try:
        yield
    finally:
        ballast.unlink()


@contextlib.contextmanager
def largest_file(size):
    """No file may grow beyond so many bytes: the system refuses to write, as it does where a disk is full."""
    resource = pytest.importorskip("resource", reason="Windows cannot limit the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def read_only(folder):
    """A folder that cannot be written, nor can the files in it, for root too."""
    if os.geteuid() != 0:
        files = [path for path in folder.iterdir() if path.is_file()]
        folder.chmod(0o555)
        for path in files:
            path.chmod(0o444)
        try:
            yield
        finally:
            folder.chmod(0o755)
            for path in files:
                path.chmod(0o644)
        return
    bind = ["mount", "--bind", str(folder), str(folder)]
    if sys.platform != "linux" or subprocess.run(bind, capture_output=True).returncode:
        pytest.skip("root can write everywhere, unless it may mount a read-only folder")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
