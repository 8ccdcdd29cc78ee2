"""The Pulumi program of this repository's stacks."""

from ebbtide.program import run

run()
