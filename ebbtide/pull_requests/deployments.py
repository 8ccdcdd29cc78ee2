"""The deployments of each stack's GitHub environment, read with `gh api`.

A job that names an environment creates a deployment of its run's commit, which succeeds or fails with the job. So the
newest deployment that ever succeeded names the commit that is live: GitHub later marks it `inactive`, and a newer one
may be waiting, running or left behind by a cancelled run.

One GraphQL query covers many stacks. REST takes a request for each stack and each deployment, and the token of a
workflow has 1,000 requests an hour.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

_STACKS_PER_QUERY = 50
_FIELDS = "{ nodes { commitOid statuses(first: 20) { nodes { state createdAt } } } }"
_NEWEST = "first: 20, orderBy: { field: CREATED_AT, direction: DESC }"
_Node = TypeVar("_Node", bound=BaseModel)


class DeploymentsUnknown(Exception):
    """GitHub did not answer. Nothing is known about what is live, so nothing may be rolled out."""


@dataclass(frozen=True, slots=True)
class Failure:
    commit: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Deployed:
    live: str | None  # the commit of the newest success; None if none of the newest 20 deployments succeeded
    failure: Failure | None = None  # of the newest deployment


class _Status(BaseModel):
    state: str
    createdAt: datetime  # noqa: N815 - GitHub's name


class _Nodes(BaseModel, Generic[_Node]):
    nodes: list[_Node]


class _Deployment(BaseModel):
    commitOid: str  # noqa: N815 - GitHub's name
    statuses: _Nodes[_Status]


class _Data(BaseModel):
    repository: dict[str, _Nodes[_Deployment]]


class _Answer(BaseModel):
    data: _Data


def read_deployments(stacks: Sequence[str]) -> dict[str, Deployed]:
    """Return the deployments of each stack's environment. Raises `DeploymentsUnknown`."""
    answers: dict[str, Deployed] = {}
    for start in range(0, len(stacks), _STACKS_PER_QUERY):
        names = stacks[start : start + _STACKS_PER_QUERY]
        answers |= zip(names, _answers(names), strict=True)
    return answers


def _answers(stacks: Sequence[str]) -> Iterator[Deployed]:
    environments = " ".join(
        f"s{number}: deployments(environments: [{json.dumps(stack)}], {_NEWEST}) {_FIELDS}"
        for number, stack in enumerate(stacks)
    )
    query = f"query($owner: String!, $name: String!) {{ repository(owner: $owner, name: $name) {{ {environments} }} }}"
    text = _gh("api", "graphql", "-F", "owner={owner}", "-F", "name={repo}", "-f", f"query={query}")
    try:
        repository = _Answer.model_validate_json(text).data.repository
        yield from (_deployed(repository[f"s{number}"].nodes) for number in range(len(stacks)))
    except (ValidationError, KeyError):
        raise DeploymentsUnknown(f"gh api graphql: expected deployments, got {text.strip()[:80]!r}") from None


def _deployed(newest_first: Sequence[_Deployment]) -> Deployed:
    successes = (item.commitOid for item in newest_first if "SUCCESS" in (s.state for s in item.statuses.nodes))
    failure = None
    for item in newest_first[:1]:
        failed_at = [status.createdAt for status in item.statuses.nodes if status.state in {"FAILURE", "ERROR"}]
        failure = Failure(item.commitOid, max(failed_at)) if failed_at else None
    return Deployed(next(successes, None), failure)


def _gh(*arguments: str) -> str:
    try:
        done = subprocess.run(["gh", *arguments], capture_output=True, check=False)
    except OSError as error:
        raise DeploymentsUnknown(f"gh: {error.strerror or error}; expected GitHub's CLI on PATH") from None
    if done.returncode != 0:
        first = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise DeploymentsUnknown(f"gh api graphql: {first or f'failed with {done.returncode}'}")
    return done.stdout.decode(errors="replace")
