"""Demand read from message brokers.

One thread per broker asks for the named queues of all its pools, so that a frozen broker delays no other pool. Brokers
send no notification when a message is published or acknowledged. Producers with our hooks send one: they write a key in
Redis.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from redis import Redis

from controllers.adapters.broker_reports import ReportReader
from controllers.adapters.broker_rules import Answer, BrokerRules, Count, Timings
from controllers.adapters.redis_connection import MissingPassword
from controllers.adapters.redis_demand import LONGEST_PAUSE, UnknownSource
from controllers.one_line import one_line
from controllers.ports import PoolName, Reading, Unknown
from ebbtide.vocabulary.controller_config import ControllerConfig

KINDS = ("celery", "consumer")
FRESH = 3.0  # seconds beyond the pause after which a round proves nothing
_LONGEST_ROUND = 10.0  # seconds; after a longer one its answers may be too old before the next ones
_PATIENCE = 3.0  # seconds for a round that is under way at the end: a connection and two answers


class Broker(Protocol):
    """The connections to one broker. One thread calls `ask`, which never raises for what a broker or a network does."""

    @property
    def timings(self) -> Timings: ...
    @property
    def pause(self) -> float:
        """Return the seconds from the start of one round to the start of the next."""
        ...

    def ask(self, queues: Sequence[str]) -> tuple[str, Mapping[str, Answer]]:
        """Return an answer for each of the queues, and the link.

        The link identifies the broker and the connection to it: if it changes, running jobs may be delivered again. It
        is "" without a connection.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Round:
    """The answers of one round, which ended at `at`."""

    at: float
    link: str
    answers: Mapping[str, Answer]
    pause: float  # seconds until the end of the next round


class BrokerDemand:
    """Reads the pools of one broker. `notify` is called when its answers have changed."""

    def __init__(
        self,
        broker: Broker,
        reports: ReportReader,
        notify: Callable[[], object] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
        name: str = "",
    ) -> None:
        self.name = name
        self._answered: float | None = None  # when the newest round ended that has an answer for each queue
        self._broker, self._reports, self._notify, self._monotonic = broker, reports, notify, monotonic
        self.queues_of: Mapping[PoolName, Sequence[str]] = {name: pool.queues for name, pool in reports.pools.items()}
        self._queues = sorted({queue for queues in self.queues_of.values() for queue in queues})
        self._rules = {name: BrokerRules(name, broker.timings) for name in self.queues_of}
        self._round: Round | None = None
        self._active_at = self._monotonic()
        self._closing, self._published = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker-poll", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._published.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_PATIENCE)  # it closes the broker, which it may be asking
        else:
            self._broker.close()

    def published(self) -> None:
        """Ask the broker as soon as allowed: a producer has published a message, which its counts may show later."""
        self._active_at = self._monotonic()
        self._published.set()

    @property
    def calls(self) -> int:
        return self._reports.calls

    @property
    def answer_age(self) -> float | None:
        """Return the seconds since the broker last answered for each queue; None: never."""
        return None if self._answered is None else self._monotonic() - self._answered

    def read(self, pools: Sequence[PoolName]) -> Mapping[PoolName, Reading]:
        """Return the readings by the newest round, and by the reports of this instant."""
        at, newest, reports = self._monotonic(), self._round, self._reports.read()
        if isinstance(reports, Unknown) or any(pool.workers for pool in reports.values()):
            self._active_at = at
        readings: dict[PoolName, Reading] = {}
        for pool in pools:
            answers = self._answers(newest, self.queues_of[pool], at)
            link = "" if newest is None else newest.link
            known = reports if isinstance(reports, Unknown) else reports[pool]
            readings[pool] = self._rules[pool].look(at, link, answers, known)
        return readings

    def _answers(self, newest: Round | None, queues: Sequence[str], at: float) -> Mapping[str, Answer]:
        if newest is None:
            return dict.fromkeys(queues, Unknown("the broker was not asked yet"))
        if at - newest.at > newest.pause + FRESH:
            return dict.fromkeys(queues, Unknown(f"the broker has not answered for {at - newest.at:.0f} s"))
        return {queue: newest.answers[queue] for queue in queues}

    def poll(self) -> bool:
        """Ask the broker once; return True if the answers have changed."""
        began = self._monotonic()
        link, answers = self._ask()
        before, at = self._round, self._monotonic()
        if not any(isinstance(answer, Unknown) for answer in answers.values()):
            self._answered = at
        changed = before is None or (before.link, before.answers) != (link, answers)
        if changed or any(isinstance(answer, Count) and answer.ready + answer.unacked for answer in answers.values()):
            self._active_at = at
        self._round = Round(at, link, answers, max(self.pause, min(at - began, _LONGEST_ROUND)))
        if changed:
            self._notify()
        return changed

    def _ask(self) -> tuple[str, Mapping[str, Answer]]:
        """Return the link and the answers; unknown ones after an error that the broker's adapter does not know.

        An error that ended the thread would hold the pools until someone restarts the controller.
        """
        try:
            return self._broker.ask(self._queues)
        except Exception as error:
            why = f"broker {self.name} could not be asked: {type(error).__name__}: {error}"
            return "", dict.fromkeys(self._queues, Unknown(one_line(why)[:300]))

    @property
    def pause(self) -> float:
        """Return the seconds between two rounds, which grow while there are no messages, changes and workers."""
        inactive = self._monotonic() - self._active_at
        quiet = [pause for after, pause in self._broker.timings.quiet if inactive >= after]
        return max([self._broker.pause, *quiet])

    @property
    def shortest_pause(self) -> float:
        """Return the seconds from the start of a round to the earliest next one, after a notification.

        They grow with the pause, which is longer where a round is expensive.
        """
        return self._broker.pause / self._broker.timings.most_often

    def _run(self) -> None:
        while not self._closing.is_set():
            began, notified = self._monotonic(), self._published.is_set()
            self._published.clear()
            changed = self.poll()
            self._closing.wait(max(0.0, began + self.shortest_pause - self._monotonic()))
            if notified and not changed:
                continue  # the message may arrive after its notification
            # A worker may start meanwhile, which makes the pause shorter.
            while not self._closing.is_set() and (left := began + self.pause - self._monotonic()) > 0:
                if self._published.wait(min(left, self._broker.pause)):
                    break
        self._broker.close()


def broker_demands(
    config: ControllerConfig,
    environment: Mapping[str, str],
    connect: Callable[[], Redis],
    notify: Callable[[], object] = lambda: None,
) -> Sequence[BrokerDemand]:
    """Return a source for each broker that has pools. Raises `MissingPassword` and `UnknownSource`."""
    for pool in config.pools:
        if pool.broker is not None and pool.source not in KINDS:
            raise UnknownSource(f"demand source {pool.source}: a broker holds queues of {' and '.join(KINDS)}")
    demands: list[BrokerDemand] = []
    for name, broker in _brokers(config, environment):
        pools = {pool.name: pool for pool in config.pools if pool.broker == name}
        if pools:
            reports = ReportReader(connect(), pools, time.monotonic, lambda: random.uniform(0, LONGEST_PAUSE))
            demands.append(BrokerDemand(broker, reports, notify, name=name))
    return demands


def _brokers(config: ControllerConfig, environment: Mapping[str, str]) -> Iterator[tuple[str, Broker]]:
    """Yield each broker with its name. Raises `MissingPassword`."""
    if config.brokers:
        from controllers.adapters.rabbit_broker import RabbitBroker  # its library takes 3 MiB of memory

        for endpoint in config.brokers:
            password = environment.get(endpoint.password_env)
            if password is None:
                why = f"the password of broker {endpoint.name} is missing: set the variable {endpoint.password_env}"
                raise MissingPassword(why)
            yield endpoint.name, RabbitBroker(endpoint, password)
    if config.sqs:
        from controllers.adapters.sqs_broker import SqsBroker  # its library takes 14 MiB of memory

        for region in config.sqs:
            yield region.name, SqsBroker(region, config.node_startup)
