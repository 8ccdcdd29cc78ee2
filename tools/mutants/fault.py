"""Put a fault into code: into functions that are imported, or into the module that will be imported."""

import gc
import importlib.machinery
import json
import os
import types
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tools.mutants.product import mutated_module
from tools.mutants.sites import Site

FAULT = "EBBTIDE_MUTANT"
"""The environment variable for the programs that a test starts."""


class Unpatchable(Exception):
    """The faulty code ran when its module was imported."""


def patch(root: Path, module: str, site: Site) -> None:
    """Exchange the code of the functions that are imported already."""
    filename = str(root / module)
    codes = _codes(compile(mutated_module(root, module, site), filename, "exec", dont_inherit=True))
    new = {(code.co_qualname, code.co_firstlineno): code for code in codes}
    exchanged = False
    gc.unfreeze()
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and thing.__code__.co_filename == filename:
            old = thing.__code__
            thing.__code__ = new[old.co_qualname, old.co_firstlineno]
            name = old.co_qualname.replace("<locals>.", "")
            exchanged |= f"{site.function}.".startswith(f"{name}.")
    if not exchanged:
        raise Unpatchable


def load_with_fault(root: Path, module: str, site: Site) -> None:
    """Let the import system compile the faulty module instead of the file, in programs that tests start, too."""
    code = compile(mutated_module(root, module, site), str(root / module), "exec", dont_inherit=True)
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> types.CodeType | None:
        return code if self.path == code.co_filename else original(self, fullname)

    hook = Path(__file__).with_name("hook")
    os.environ["PYTHONPATH"] = f"{hook}:{root}:{root / 'tools/control-plane'}"
    os.environ[FAULT] = json.dumps([str(root), module, asdict(site)])
    importlib.machinery.SourceFileLoader.get_code = get_code  # pyright: ignore[reportAttributeAccessIssue]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
