"""A stack's life against the imitation, in a process of its own: the provider mostly waits, so several run at once."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings, parse_stack
from tests.aws.support.imitation import Imitation
from tests.aws.support.life import Change, World
from tests.aws.support.malformed import malformed
from tests.aws.support.provider import Provider, found
from tests.aws.support.service_models import Sent
from tests.aws.support.stacks import VARIANTS, of_aws, recorded, settings_of
from tests.paths import ROOT

_AT_ONCE = 6
_SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    resources: int  # that the program registers
    applied: int
    changes: tuple[Change, ...]  # that the second plan would make
    destroyed: int
    left: Mapping[str, list[str]]
    requests: int
    malformed: tuple[str, ...]


class Lives:
    """By stack, begun when they are first asked for."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._begun: dict[str, Future[Lived]] = {}

    def begin(self, name: str) -> Future[Lived]:
        if name not in self._begun:
            self._begun[name] = self._pool.submit(_in_a_process, name)
        return self._begun[name]

    def of(self, name: str) -> Lived:
        return self.begin(name).result()

    def end(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _in_a_process(name: str) -> Lived:
    asked = [sys.executable, "-m", "tests.aws.support.lived", name]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-3000:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    changes = tuple(Change(**each) for each in told.pop("changes"))
    return Lived(changes=changes, malformed=tuple(told.pop("malformed")), **told)


def live(name: str) -> Lived:
    program = found(os.environ, Path.home())
    assert program is not None
    region = settings_of(name).region
    with Imitation() as imitation, Provider(program, imitation.config(region)) as provider:
        world = World(provider)
        with _settings(name, provider) as settings:
            world.run(settings)
            applied = len(world.things)
            world.run(settings)
            destroyed = world.destroy()
        requests = [Sent.of(line) for line in imitation.requests()]
        return Lived(
            resources=len(of_aws(recorded(name))),
            applied=applied,
            changes=tuple(world.changes),
            destroyed=destroyed,
            left=imitation.left(region),
            requests=len(requests),
            malformed=tuple(sorted({fault for sent in requests for fault in malformed(sent)})),
        )


@contextmanager
def _settings(name: str, provider: Provider) -> Generator[StackSettings]:
    """A network that a stack is given has to be there before it, and is there after it, by ids that AWS chose."""
    settings = settings_of(name)
    given = VARIANTS[name]().get("ebbtide:network", {}).get("vpc") if name in VARIANTS else None
    if given is None:
        yield settings
        return
    theirs = World(provider, runs=1)
    ids = {given["id"]: theirs.answer(_resource("vpc", cidrBlock="10.0.0.0/16"))["id"]}
    for number, (zone, subnet) in enumerate(given["privateSubnets"].items()):
        place = {"cidrBlock": f"10.0.{16 * number}.0/20", "availabilityZone": f"{settings.region}{zone}"}
        ids[subnet] = theirs.answer(_resource("subnet", vpcId=ids[given["id"]], **place))["id"]
    text = json.dumps(VARIANTS[name]())
    for before, after in ids.items():
        text = text.replace(before, after)
    yield parse_stack(json.loads(text), stack="variant", file="Pulumi.variant.yaml")
    theirs.destroy()


def _resource(kind: str, **inputs: Any) -> Resource:
    type_ = f"aws:ec2/{kind}:{kind.capitalize()}"
    return Resource(urn=f"{type_}{inputs}", type=type_, name=kind, parent="", custom=True, inputs=inputs)


if __name__ == "__main__":
    print(json.dumps(asdict(live(sys.argv[1]))))
