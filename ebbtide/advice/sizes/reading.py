"""Reads from Prometheus what containers used and which pods ran, for as long as the evidence reaches back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.advice.sizes.answers import NothingRecorded, read_answers
from ebbtide.advice.sizes.containers import Container, Place
from ebbtide.advice.sizes.evidence import Evidence, Use
from ebbtide.advice.sizes.questions import Questions, namespaces
from ebbtide.advice.sizes.ran import Ran, ran_of
from ebbtide.advice.sizes.uses import use_of
from ebbtide.monitoring.client import Prometheus, Unknown
from ebbtide.monitoring.rules import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    uses: Mapping[Place, Use]  # of every container, those too that never ran
    ran: Sequence[Ran]
    missing: Mapping[str, str]  # what is not known, each with why
    source: str


def read_uses(
    prometheus: Prometheus, customer: str, wanted: Sequence[Container], until: datetime, evidence: Evidence
) -> Recorded:
    """Raises `NothingRecorded`."""
    if (doubt := prometheus.doubt()) is not None:
        raise NothingRecorded([doubt.why])
    of = Metrics(customer)
    watched = prometheus.ask(f"count({of('pod_info')})", stands_on=("pod_info",))
    if isinstance(watched, Unknown):
        raise NothingRecorded([f"{watched.why}; wanted one that scrapes Ebbtide's exporter of {customer}"])
    ask = Questions(of, namespaces(it.place.namespace for it in wanted), evidence.step)
    answers = read_answers(prometheus, ask, wanted, until, evidence)
    missing = dict(answers.missing)
    ran = ran_of(prometheus, ask, until, evidence, missing)
    uses = {it.place: use_of(it, answers, until, evidence) for it in wanted}
    return Recorded(uses=uses, ran=ran, missing=missing, source=prometheus.where)
