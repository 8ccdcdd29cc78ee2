"""The one secret of a stack, as `pulumi up` would read it, for a verdict about it. It never leaves this module."""

import subprocess

from ebbtide.settings.draft import REDIS_PASSWORD
from ebbtide.settings.redis_token import token_fault

_PATIENCE_S = 30  # a backend far away, and a key of AWS or Vault behind it


def fault_of_token(stack: str, program: str = "pulumi") -> str | None:
    """What a cache would refuse about the stack's token, "" for nothing; None where it cannot be read from here."""
    command = (program, "config", "get", REDIS_PASSWORD, "--stack", stack, "--non-interactive")
    try:
        told = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = told.stdout.decode(errors="replace").replace("\r\n", "\n")
    return token_fault(text.removesuffix("\n")) if told.returncode == 0 else None
