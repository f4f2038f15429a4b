# SPDX-License-Identifier: Apache-2.0
"""Run by test_code_of_pages.py in a process of its own: the code of a page, in a folder of its own."""

import os
import runpy

import torch


def run(page: str, folder: str, output: str) -> None:
    """Run a file as a program, with all that it and its children print in another file."""
    os.chdir(folder)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ["OMP_NUM_THREADS"] = "1"  # of processes that are still to come
    torch.set_num_threads(1)  # a second thread costs such small networks more than it brings
    runpy.run_path(page, run_name="__main__")


if __name__ == "run_page":
    run(*arguments)  # noqa: F821  (given by whoever runs this file)
