"""Real processes on one machine for demo and tests: a Redis, RQ workers as pods, a gateway, model servers."""

from pathlib import Path

STACK_FILE = Path(__file__).with_name("Pulumi.demo.yaml")
"""The stack of the demo. `stacks/` holds a copy as an example, which a team replaces."""
