"""The users of Redis whose rights the page about queues gives, as they are written there."""

import re

from redis import Redis

from tests.paths import ROOT

PASSWORD = "secret"
_PAGE = ROOT / "docs" / "reference" / "queues.md"


def rule(name: str) -> str:
    """The words after the password of the user `jobs` or `reader`."""
    return _after(name).partition("\n")[0]


def make_user(client: Redis, name: str, framework: str, queue: str) -> None:
    """Make this user as the page says, for one framework and one queue."""
    row = re.search(rf"^\| `{framework}` \|(.*)\|$", _after(name), re.MULTILINE)
    assert row is not None, f"no row of {framework} for {name}"
    keys, *channels = (cell.strip().strip("`").replace("<queue>", queue) for cell in row[1].split("|"))
    words = rule(name).replace("KEYS", keys).replace("CHANNELS", channels[0] if channels else "").split()
    client.execute_command("ACL", "SETUSER", name, "reset", "on", f">{PASSWORD}", *words)


def _after(name: str) -> str:
    return _PAGE.read_text(encoding="utf-8").partition(f"ACL SETUSER {name} on >…")[2]
