# SPDX-License-Identifier: Apache-2.0
"""noiseproof in other people's training loops: one module a library, each imported only when asked for.

The losses themselves need nothing of this: they are ``nn.Module``s with cross-entropy's signature. Here stands what
a library asks for beyond that: its own order of arguments, its own place for the L1 penalty.
"""

import importlib
from typing import Any


def required(*modules: str) -> Any:
    """The first of these modules that can be imported; the error says what to install.

    >>> required("no_such_module", "math").pi > 3
    True
    >>> required("no_such_module")
    Traceback (most recent call last):
    ImportError: no_such_module is not installed; pip install 'noiseproof[integrations]'
    """
    for name in modules:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as missing:
            # A library that is there, but lacks one it needs itself, speaks for itself.
            if (missing.name or "").partition(".")[0] != name.partition(".")[0]:
                raise
    raise ImportError(f"{modules[0]} is not installed; pip install 'noiseproof[integrations]'")


def base_class(name: str, *modules: str) -> Any:
    """A class of the first of these modules that is installed, or ``object`` where none is.

    It lets a module that extends another library's class be imported without that library; constructors call
    :func:`required`.
    """
    try:
        return getattr(required(*modules), name)
    except ImportError:
        return object
