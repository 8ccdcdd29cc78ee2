"""The stack file: read, checked as a whole, and given back as frozen models.

May import `ebbtide.vocabulary` and `ebbtide.prices`; never Pulumi, so that `ebbtide check` is quick.
"""

from ebbtide.settings.checks.cautions import Caution, warnings_of
from ebbtide.settings.file.problems import Problem, StackInvalid
from ebbtide.settings.json_schema import json_schema
from ebbtide.settings.load import load_stack, parse_stack, stack_names
from ebbtide.settings.model import StackSettings
from ebbtide.settings.process_documents import controller_config

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
