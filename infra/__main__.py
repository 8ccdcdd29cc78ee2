"""The Pulumi program: read the settings, build the stack, export what others ask for."""
# ruff: noqa: E402 - what comes before the imports is for them

import gc

gc.disable()  # the SDKs are half a million objects that stay: looking for garbage among them takes a fifth of the run

import pulumi

from ebbtide.settings import StackInvalid, parse_stack
from infra.config import redis_password, stack_config
from infra.stack import compose

name = pulumi.get_stack()
try:
    stack = compose(
        parse_stack(stack_config(), stack=name, file=f"Pulumi.{name}.yaml"), redis_password=redis_password()
    )
except StackInvalid as error:
    # Pulumi prints this error alone, without a traceback.
    raise pulumi.RunError(str(error)) from None

pulumi.export("clusterName", stack.cluster_name)
pulumi.export("ownership", stack.ownership.exported())
pulumi.export("controllerConfig", stack.controller_document)
