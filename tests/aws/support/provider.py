"""HashiCorp's AWS provider as a process of its own, asked over a socket of the file system: no AWS, no Terraform.

Where it is looked for, in this order:

- the program that EBBTIDE_AWS_PROVIDER names;
- where `terraform init` puts it for `tests/aws/terraform`, which also says the version;
- the folders that Terraform itself looks into: those that its CLI configuration names, the plugin cache, and the
  implied mirrors (Terraform's documentation, "CLI Configuration", "Implied Local Mirror Directories");
- mirrors below /opt, where images of machines often keep theirs.

A mirror has to be unpacked; `terraform providers mirror` writes packed ones.
"""

import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Self

import grpc

from tests.aws.support.messagepack import packed, unpacked
from tests.aws.support.protocol import MESSAGES
from tests.aws.support.schema import Block, block_of, empty, proposed
from tests.paths import ROOT

NAMED = "EBBTIDE_AWS_PROVIDER"
FOLDER = ROOT / "tests" / "aws" / "terraform"
VERSION = re.findall(r'version = "([0-9.]+)"', (FOLDER / "versions.tf").read_text(encoding="utf-8"))[0]
HOW = f"needs HashiCorp's AWS provider {VERSION}: `terraform -chdir=tests/aws/terraform init`, or name it in {NAMED}"

WHOLE = "the whole"
"""In place of a path."""

_COOKIE = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2"  # by which a plugin knows it has a caller
_LARGEST = 256 * 1024 * 1024  # bytes of one answer; the schema has millions
_SECONDS = 60
_LONGEST = 150  # to apply: the provider waits, as for AWS, before it asks whether a cache is there
_ERROR = 1
NOBODY: Mapping[str, Any] = {"access_key": "nobody", "secret_key": "nobody", "skip_metadata_api_check": "true"}
_WITHOUT_AWS: Mapping[str, Any] = {
    **NOBODY,
    "region": "us-east-1",
    "skip_credentials_validation": True,
    "skip_requesting_account_id": True,
}


@dataclass(frozen=True, slots=True)
class Complaint:
    path: str  # the names of the provider that lead to the property, without numbers
    text: str


@dataclass(frozen=True, slots=True)
class State:
    """What the provider says of a resource that is there, and what it keeps with that for itself."""

    values: Mapping[str, Any]
    private: bytes = b""


@dataclass(frozen=True, slots=True)
class Planned(State):
    """What a resource will be, and the names of the properties for which it has to be a new one."""

    replacing: frozenset[str] = frozenset()


class Refused(RuntimeError):
    """The provider, or what it asked, did not do as it was told."""

    def __init__(self, message: str, left: State | None = None) -> None:
        super().__init__(message)
        self.left = left  # what is there nevertheless


def found(environment: Mapping[str, str], home: Path, folder: Path = FOLDER, opt: Path = Path("/opt")) -> Path | None:
    """The provider's program, of the first place that has it; one that is named is taken or none."""
    if named := environment.get(NAMED):
        return Path(named) if Path(named).is_file() else None
    inside = f"registry.terraform.io/hashicorp/aws/{VERSION}/{_system()}/terraform-provider-aws_*"
    return next((program for place in _places(environment, home, folder, opt) for program in place.glob(inside)), None)


def _places(environment: Mapping[str, str], home: Path, folder: Path, opt: Path) -> Iterator[Path]:
    yield folder / ".terraform" / "providers"
    for file in (Path(environment.get("TF_CLI_CONFIG_FILE") or home / ".terraformrc"), home / ".terraformrc"):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            yield from map(Path, re.findall(r'^\s*(?:path|plugin_cache_dir)\s*=\s*"([^"$]+)"', text, re.MULTILINE))
    if cache := environment.get("TF_PLUGIN_CACHE_DIR"):
        yield Path(cache)
    yield home / ".terraform.d" / "plugins"
    data = (environment.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":")
    for place in (environment.get("XDG_DATA_HOME") or str(home / ".local" / "share"), *data):
        yield Path(place) / "terraform" / "plugins"
    yield from sorted(opt.glob("*/"))


def _system() -> str:
    machine = platform.machine()
    return "_".join((platform.system().lower(), {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)))


class Provider:
    """The running provider. It ends with the block that it is used in."""

    def __init__(self, program: Path, config: Mapping[str, Any] = _WITHOUT_AWS) -> None:
        self._program = program
        self._config = config
        self.schemas: Mapping[str, Block] = {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="ebbtide-")  # sockets have short names
        # Nothing of the caller's: neither a proxy nor a profile of AWS.
        environment = {
            "TF_PLUGIN_MAGIC_COOKIE": _COOKIE,
            "PLUGIN_PROTOCOL_VERSIONS": "5",
            "PATH": os.defpath,
            "HOME": self._folder.name,
            "TMPDIR": self._folder.name,
        }
        self._process = subprocess.Popen(
            [self._program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            self._channel = self._connected()
            answer = self._call("GetSchema", MESSAGES["Empty"](), "GetSchemaResponse")
            self.schemas = {each.key: block_of(each.value.block) for each in answer.resource_schemas}
            self._configure(block_of(answer.provider.block))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._end()

    def complaints(self, type_: str, config: Mapping[str, Any]) -> list[Complaint]:
        """The errors, not the warnings, of the provider's validators about a resource, else of its plan to make it."""
        if not (found := self.invalid(type_, config)):
            given = {"type_name": type_, "config": _value(config)}
            wanted = {"prior_state": _value(None), "proposed_new_state": _value(proposed(config, self.schemas[type_]))}
            answer = self._call("PlanResourceChange", MESSAGES["PlanRequest"](**given, **wanted), "PlanResponse")
            found = _errors(answer)
        return found

    def invalid(self, type_: str, config: Mapping[str, Any]) -> list[Complaint]:
        """The errors of the validators alone."""
        request = MESSAGES["ValidateRequest"](type_name=type_, config=_value(config))
        return _errors(self._call("ValidateResourceTypeConfig", request, "ValidateResponse"))

    def read(self, type_: str, state: State) -> State | None:
        """As it is now; None where it is gone."""
        given = {"type_name": type_, "current_state": _value(state.values), "private": state.private}
        answer = self._done("ReadResource", MESSAGES["ReadRequest"](**given), "ReadResponse", type_)
        values = unpacked(answer.new_state.msgpack)
        return None if values is None else State(values, answer.private)

    def plan(self, type_: str, config: Mapping[str, Any], prior: State | None) -> Planned:
        """What it will be; what only AWS can say of that is marked as not known."""
        before = prior.values if prior else None
        request = MESSAGES["PlanRequest"](
            type_name=type_,
            prior_state=_value(before),
            proposed_new_state=_value(proposed(config, self.schemas[type_], before)),
            config=_value(config),
            prior_private=prior.private if prior else b"",
        )
        answer = self._done("PlanResourceChange", request, "PlanResponse", type_)
        replacing: frozenset[str] = frozenset(
            path.steps[0].attribute_name for path in answer.requires_replace if path.steps
        )
        return Planned(unpacked(answer.planned_state.msgpack), answer.planned_private, replacing)

    def make(self, type_: str, config: Mapping[str, Any], planned: State) -> State:
        """What was planned of a new resource."""
        return self._applied(type_, None, planned.values, config, planned.private)

    def change(self, type_: str, config: Mapping[str, Any], prior: State, planned: State) -> State:
        """What was planned of a resource that is there and stays."""
        return self._applied(type_, prior.values, planned.values, config, planned.private)

    def delete(self, type_: str, state: State) -> None:
        self._applied(type_, state.values, None, None, state.private)

    def _applied(self, type_: str, prior: Any, planned: Any, config: Any, private: bytes) -> State:
        request = MESSAGES["ApplyRequest"](
            type_name=type_,
            prior_state=_value(prior),
            planned_state=_value(planned),
            config=_value(config),
            planned_private=private,
        )
        answer = self._call("ApplyResourceChange", request, "ApplyResponse", _LONGEST)
        values = unpacked(answer.new_state.msgpack) if answer.new_state.msgpack else None
        state = State(values or {}, answer.private)
        if wrong := _errors(answer):
            raise Refused(_told(type_, "ApplyResourceChange", wrong), state if values else None)
        return state

    def _done(self, method: str, request: Any, answer: str, type_: str) -> Any:
        done = self._call(method, request, answer, _LONGEST)
        if wrong := _errors(done):
            raise Refused(_told(type_, method, wrong))
        return done

    def _configure(self, block: Block) -> None:
        """A plan wants a configured provider. Without another configuration it asks nobody who it is."""
        nested = {
            name: [{**empty(about.block), **self._config[name]}]
            for name, about in block.blocks.items()
            if name in self._config
        }
        request = MESSAGES["ConfigureRequest"](config=_value({**empty(block), **self._config, **nested}))
        if wrong := _errors(self._call("Configure", request, "ConfigureResponse")):
            raise RuntimeError(f"the provider cannot be configured: {wrong}")

    def _connected(self) -> grpc.Channel:
        """The provider says where it listens in one line: `1|5|unix|/tmp/plugin123|grpc|`."""
        assert self._process.stdout is not None
        lines: list[str] = []
        said = self._process.stdout
        waiting = Thread(target=lambda: lines.append(said.readline()), daemon=True)
        waiting.start()
        waiting.join(_SECONDS)
        parts = lines[0].split("|") if lines else []
        if parts[:3] != ["1", "5", "unix"] or parts[4] != "grpc":
            raise RuntimeError(f"{self._program} is no provider of protocol 5; it said {lines}")
        options = [("grpc.max_receive_message_length", _LARGEST)]
        return grpc.insecure_channel(f"unix:{parts[3]}", options=options)

    def _call(self, method: str, request: Any, answer: str, seconds: int = _SECONDS) -> Any:
        unary_unary: Callable[..., Any] = self._channel.unary_unary
        asked = unary_unary(f"/tfplugin5.Provider/{method}", response_deserializer=MESSAGES[answer].FromString)
        return asked(request.SerializeToString(), timeout=seconds)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._folder.cleanup()


def _value(value: Any) -> dict[str, bytes]:
    return {"msgpack": packed(value)}


def _errors(answer: Any) -> list[Complaint]:
    return [_complaint(each) for each in answer.diagnostics if each.severity == _ERROR]


def _told(type_: str, method: str, wrong: list[Complaint]) -> str:
    return f"{type_}, {method}: " + "; ".join(f"{each.path}: {each.text}" for each in wrong)


def _complaint(message: Any) -> Complaint:
    names = (step.attribute_name for step in message.attribute.steps if step.attribute_name)
    return Complaint(".".join(names) or WHOLE, " ".join(f"{message.summary} {message.detail}".split()))
