"""Faults of connections: checked again while there are any."""

from collections.abc import Sequence

from controllers.adapters.probe import follow_faults

REFUSED = "warning: broker jobs: user reader: its rights could not be checked: login was refused"
EXCESS = "warning: broker jobs: user reader may take messages"


class Status:
    """What `status` shows after each check, and what the log got."""

    def __init__(self, *checks: Sequence[str], waits: int = 9) -> None:
        self._checks, self._waits = list(checks), waits
        self.shown: list[list[str]] = []
        self.logged: list[str] = []

    def check(self) -> list[str]:
        return list(self._checks.pop(0))

    def show(self, faults: list[str], new: Sequence[str]) -> None:
        self.shown.append(faults)
        self.logged += new

    def ended(self, seconds: float) -> bool:
        assert seconds > 0
        self._waits -= 1
        return self._waits < 0


def test_a_check_that_was_not_possible_at_start_is_made_later() -> None:
    status = Status([REFUSED], [REFUSED], [EXCESS], [])

    follow_faults(status.check, status.show, status.ended)

    assert status.shown == [[REFUSED], [REFUSED], [EXCESS], []]
    assert status.logged == [REFUSED, EXCESS], "each once"


def test_without_a_fault_there_is_one_check() -> None:
    status = Status([], [REFUSED])

    follow_faults(status.check, status.show, status.ended)

    assert status.shown == [[]]


def test_the_checks_end_with_the_process() -> None:
    status = Status([REFUSED], [REFUSED], [REFUSED], waits=1)

    follow_faults(status.check, status.show, status.ended)

    assert status.shown == [[REFUSED], [REFUSED]]
