"""The commands, as console scripts: ``hypatiac``, ``hypatia`` and ``hypatia-egraph`` of the package, started in place
of Python."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def path(name: str) -> str:
    """The program: that of the package, or of the folder ``HYP_BIN``, as where it runs from a build."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
    program = os.path.join(folder, name)
    if not os.path.exists(program) and "HYP_BIN" in os.environ:
        program = os.path.join(os.environ["HYP_BIN"], name)
    if not os.path.exists(program):
        raise FileNotFoundError(f"the program {name} is not in {folder}; wheels have it there")
    return program


def _become(name: str) -> NoReturn:
    program = path(name)
    os.execv(program, [name, *sys.argv[1:]])


def hypatia() -> NoReturn:
    _become("hypatia")


def hypatiac() -> NoReturn:
    _become("hypatiac")


def hypatia_egraph() -> NoReturn:
    _become("hypatia-egraph")
