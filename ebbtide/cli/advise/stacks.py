"""The stack that advice is about."""

from ebbtide.cli.console import fail
from ebbtide.settings import StackInvalid, StackSettings, load_stack
from ebbtide.simulator.setup import ReplayError, require_node_groups


def stack_with_nodes(stack: str) -> StackSettings:
    """Or the command ends: advice in dollars takes a sound file, and nodes whose shape and price are known."""
    try:
        settings = load_stack(stack)
        require_node_groups(settings)
    except (StackInvalid, ReplayError) as error:
        fail(error)
    return settings
