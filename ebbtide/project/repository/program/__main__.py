"""The Pulumi program of every stack in stacks/."""

from ebbtide.program import run

stack = run()
