"""The stack file that `ebbtide new` writes: a customer's answers, with a comment on each key.

The text is a template, since a YAML library would lose the comments. Every value passes `_plain`, which quotes what the
two versions of YAML read differently: a queue, or a customer, may be named `on`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import yaml

from ebbtide.settings.file.bases import merged
from ebbtide.settings.file.contents import FileReader, no_files
from ebbtide.settings.file.document import StackDocument
from ebbtide.settings.file.keys import BASE, CLUSTER, COSTS, GROUPS, HOURS
from ebbtide.settings.file.problems import Problem, StackInvalid, value_at
from ebbtide.settings.file.scalars import differs, read_1_2
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.sections.eks_versions import KUBERNETES_VERSIONS
from ebbtide.settings.sections.node_groups import filled_groups
from ebbtide.settings.sections.zones import usual_letters

WORKERS = 4  # maximum of the first pool: enough to see it grow, and cheap enough for a mistake
_CPU, _MEMORY = "4", "16Gi"  # of one worker: a share of the default flexible node, and of the default GPU node

_GROUP_WORDS = {
    "fixed": "always there: the system's pods, Ebbtide's controller and what must not move",
    "flexible": "from zero and back to zero: everything else",
    "gpu": "from zero and back to zero: pods that request GPUs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """A new customer's answers as typed, empty for what a base has; `problems_of` validates them."""

    customer: str
    timezone: str
    hours: str  # "mon-thu 08:00-19:00, fri 08:00-17:00", as `ebbtide check` shows a week
    region: str
    image: str
    queue: str
    longest_job: str
    gpu: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    path: str  # from the stack file's folder
    values: Mapping[str, object]
    reader: FileReader

    @property
    def timezone(self) -> str:
        """The time zone, empty if the base has none."""
        return str(value_at(self.values, (HOURS, "timezone")) or "")


def read_base(path: str, stack_file: str, reader: FileReader) -> Base:
    """Return a base, merged with the bases that it names. Raises `StackInvalid`."""
    values = merged(StackDocument(config={BASE: path}), stack_file, reader, passed_by_pulumi=True)
    if values.problems:
        raise StackInvalid(values.problems)
    return Base(path=path, values=values.config, reader=reader)


def problems_of(answers: Answers, place: str, base: Base | None = None) -> tuple[Problem, ...]:
    """Return the problems of the file that these answers make; `place` replaces the file's name."""
    text, reader = file_text(answers, base), base.reader if base else no_files
    try:
        stack_of_text(text, stack=answers.customer, file=place, reader=reader)
    except StackInvalid as refused:
        return tuple(replace(each, line=None) if each.file == place else each for each in refused.problems)
    return ()


def file_text(answers: Answers, base: Base | None = None) -> str:
    """Return the commented file. It names the base, and leaves out what the base has."""

    def has(*at: str) -> bool:
        return base is not None and value_at(base.values, at) is not None

    parts = [
        _HEAD,
        f"  ebbtide:base: {_plain(base.path)}\n" if base else "",
        _identity(answers),
        _hours(answers, timezone=not base or answers.timezone != base.timezone),
        _cluster(answers, version=not has(CLUSTER, "version"), zones=not has(CLUSTER, "zones")),
        _node_groups(gpu=answers.gpu) if not has(GROUPS) else "",
        _WORKLOADS if base is None else "",
        _workers(answers) if answers.queue else "",
        _costs(answers.customer) if not has(COSTS, "tags", "cost-center") else "",
    ]
    return "".join(parts)


_HEAD = """\
# yaml-language-server: $schema=../docs/stack.schema.json
# One customer. `ebbtide docs stack-file` explains every key, `ebbtide check` finds what is wrong, `ebbtide render`
# shows what the file would build and cost. Quote times, dates and versions: YAML parsers disagree about bare ones.
config:
"""

_WORKLOADS = """\
  # Services that stay: fixed ones are never moved, flexible ones outside business hours, one pod at a time.
  # This one runs once its lines are uncommented and the namespace ebbtide has a Secret db-login:
  # ebbtide:workloads:
  #   api:
  #     category: flexible
  #     image: registry.example.com/ml/api:1
  #     replicas: 3
  #     cpu: 1
  #     memory: 2Gi
  #     ports: { http: 8080 } # of the container and of a Service called api
  #     probes: { readiness: { http: /healthz } } # by night the next pod is moved once this one serves again
  #     env: { LOG_LEVEL: info, DB_PASSWORD: { secret: db-login, key: password } }
  #     volumes: { cache: { scratch: 10Gi, at: /cache } } # goes with the pod
"""


def _identity(answers: Answers) -> str:
    return f"""\
  # Where everything runs. It cannot be changed later: another region is another cluster.
  aws:region: {_plain(answers.region)}
  # The cluster's name, and a tag on whatever is billed. It cannot be changed later either.
  ebbtide:customer: {_plain(answers.customer)}
"""


def _hours(answers: Answers, *, timezone: bool) -> str:
    zone = f"    timezone: {_plain(answers.timezone)}\n" if timezone else ""
    week = f"    week:\n{_week(answers.hours)}\n" if answers.hours else ""
    if not zone and not week:
        return ""
    return f"""\
  # When people work. Inside these hours no running pod is moved; outside them nodes are emptied and removed. A day that
  # is not named is closed. So are public holidays, once a country is set: holidays: {{ country: DE, subdivision: BE }}
  ebbtide:businessHours:
{zone}{week}"""


def _cluster(answers: Answers, *, version: bool, zones: bool) -> str:
    """Name zones if the default does not suit: some regions give new accounts no zone b."""
    usual = usual_letters(answers.region)
    keys = [f'version: "{KUBERNETES_VERSIONS[-1]}"'] if version else []
    if zones and not {"a", "b"} <= {*usual}:
        keys.append(f"zones: [{', '.join(usual[:2])}]")
    if not keys:
        return ""
    reason = "  # EKS goes up by one minor version at a time, and never back.\n" if version else ""
    return f"{reason}  ebbtide:cluster: {{ {', '.join(keys)} }}\n"


def _node_groups(*, gpu: bool) -> str:
    return f"""\
  # min and max are totals over all zones. max is the most that a full queue can cost.
  ebbtide:nodeGroups:
{_groups(gpu=gpu)}
"""


def _workers(answers: Answers) -> str:
    return f"""\
  # Pools of workers that grow with their queue and go to zero with it. The key names the Deployment.
  ebbtide:workers:
    {_plain(pool_name(answers.queue))}:
      # One queue per pool: a job that moves between two queues can be in neither, and would not be counted. kind may
      # also be celery or list, and with queues in RabbitMQ or SQS (ebbtide:brokers) celery or consumer.
      source: {{ kind: rq, queues: [{_plain(answers.queue)}] }}
      # The image must contain ebbtide-jobs[rq], whose worker class the pool runs.
      image: {_plain(answers.image)}
      # Maximum number of workers; the minimum is 0.
      max: {WORKERS}
      # Per worker. Sizes that together fill a node leave nothing of it unused.
      cpu: {_CPU}
      memory: {_MEMORY}
{"      gpu: 1" + chr(10) if answers.gpu else ""}\
      # No job runs longer. A stopping worker gets this much time, so too short a guess kills jobs; too long a guess
      # keeps a node a little longer.
      longestJob: {_plain(answers.longest_job)}
"""


def _costs(customer: str) -> str:
    return f"""\
  # On every resource, so that the bill can be split. More keys are welcome.
  ebbtide:costs:
    tags: {{ cost-center: {_plain(customer)} }}
"""


def week_of(text: str) -> dict[str, str]:
    """Parse `mon-thu 08:00-19:00, fri 08:00-12:00, 13:00-17:00`: an interval without days belongs to the preceding
    days.
    """
    week: dict[str, list[str]] = {}
    days = ""
    for part in (part.strip() for part in text.split(",")):
        named_days, _, interval = part.rpartition(" ")
        bare = not named_days and any(letter.isdigit() for letter in part)
        days = days if bare and days else (named_days.strip() or part)
        week.setdefault(days, []).append(interval if named_days or bare else "")
    return {days: ", ".join(intervals) for days, intervals in week.items() if days}


def pool_name(queue: str) -> str:
    """Return the queue's name, or the most similar one that Kubernetes accepts."""
    letters = re.sub(r"[^a-z0-9]+", "-", queue.lower()).strip("-")
    name = letters if letters[:1].isalpha() else f"queue-{letters}"
    return name.removeprefix("ebbtide-")[:40].strip("-") or "workers"


def _week(hours: str) -> str:
    week = week_of(hours)
    return "\n".join(f"      {_plain(days)}: {_quoted(text)}" for days, text in week.items()) or "      {}"


def _groups(*, gpu: bool) -> str:
    """Write out the default groups, so that they can be edited."""
    lines: list[str] = []
    for name, group in filled_groups({}, gpus_wanted=gpu).items():
        keys = {key: value for key, value in cast("Mapping[str, object]", group).items() if key != "kind"}
        text = ", ".join(f"{key}: {_flow(value)}" for key, value in keys.items())
        lines += [f"    # {_GROUP_WORDS[name]}", f"    {name}: {{ {text} }}"]
    return "\n".join(lines)


def _flow(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_flow(item) for item in cast('list[object]', value))}]"
    return _plain(value) if isinstance(value, str) else str(value)


_PLAIN = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)


def _plain(text: str) -> str:
    """Return the text unquoted if every reader reads it as text, else quoted."""
    safe = _PLAIN.fullmatch(text) and not differs(text) and isinstance(read_1_2(text), str)
    return text if safe else _quoted(text)


def _quoted(text: str) -> str:
    return str(yaml.dump(text, default_style='"', allow_unicode=True, width=2**16)).rstrip("\n")
