"""The Pulumi program: reads the settings, builds the stack, and exports its outputs."""
# ruff: noqa: E402 - what comes before the imports is for them

import gc

gc.disable()  # the SDKs are half a million objects that stay: looking for garbage among them takes a fifth of the run

from pathlib import Path
from secrets import token_hex

import pulumi

from ebbtide.settings import StackInvalid, parse_stack
from ebbtide.settings.file.contents import files_in
from ebbtide.settings.load import STACKS
from infra.config import redis_password, stack_config, stack_secrets
from infra.stack import compose

name = pulumi.get_stack()
try:
    beside = files_in(Path(__file__).parents[1] / STACKS)
    settings = parse_stack(stack_config(), stack=name, file=f"Pulumi.{name}.yaml", beside=beside)
    stack = compose(settings, redis_password=redis_password(), secrets=stack_secrets(), new_token=lambda: token_hex(32))
except StackInvalid as error:
    # Pulumi prints this error alone, without a traceback.
    raise pulumi.RunError(str(error)) from None

pulumi.export("clusterName", stack.cluster_name)
pulumi.export("ownership", stack.ownership.exported())
pulumi.export("controllerConfig", stack.controller_document)
