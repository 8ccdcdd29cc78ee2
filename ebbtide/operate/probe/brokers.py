"""Check the message brokers of a stack by the controller's readings: the command has no password of a broker. Pure."""

from collections.abc import Iterator

from ebbtide.operate.objects import Document, at, rows_at
from ebbtide.operate.probe.facts import BrokerWant
from ebbtide.operate.probe.findings import Probed, ProbeFinding, missing, note, ok
from ebbtide.operate.wording import reading_state
from ebbtide.text.durations import format_duration


def message_brokers(probed: Probed) -> Iterator[ProbeFinding]:
    status, silence = probed.status
    for want in probed.wants.brokers:
        for pool in want.pools:
            yield _reading(want, pool, status, silence)
        if want.consumer_timeout is not None:
            needed = f"{format_duration(want.consumer_timeout)} for an acknowledgement"
            text = f"whether it waits {needed} (consumer_timeout) cannot be read; RabbitMQ's default is 30m"
            yield note(f"broker {want.name}", text)
    if probed.wants.brokers:
        for fault in at(status, "probe") or ():
            yield note("controller", f"its connections: {str(fault).removeprefix('warning: ')}")


def _reading(want: BrokerWant, pool: str, status: Document, silence: str) -> ProbeFinding:
    subject = f"pool {pool}"
    row = next((row for row in rows_at(status, "report", "pools") if row.get("name") == pool), None)
    if row is None:
        why = silence or "the controller does not act, or does not have this pool yet"
        return note(subject, f"whether its queues in broker {want.name} can be read is not known: {why}")
    reading = row.get("reading")
    state, why = reading_state(reading), at(reading, "why") or at(reading, "warning")
    if state == "unknown":
        return missing(subject, f"its queues in broker {want.name} cannot be read: {why}")
    return note(subject, str(why)) if why else ok(subject, f"the controller reads its queues in broker {want.name}")
