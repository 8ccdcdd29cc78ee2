"""Read a stack file, check it as a whole, and return frozen models.

May import `ebbtide.vocabulary` and `ebbtide.prices`; never Pulumi, so that `ebbtide check` is quick.
"""

from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.settings.checks.cautions import warnings_of
from ebbtide.settings.file.problems import Caution, Problem, StackInvalid
from ebbtide.settings.json_schema import json_schema
from ebbtide.settings.load import load_stack, parse_stack, stack_names
from ebbtide.settings.model import StackSettings

__all__ = [
    "Caution",
    "Problem",
    "StackInvalid",
    "StackSettings",
    "controller_config",
    "json_schema",
    "load_stack",
    "parse_stack",
    "stack_names",
    "warnings_of",
]
