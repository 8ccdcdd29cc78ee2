"""What the commands for a running cluster share: the operator's kubeconfig, the controller's config, one-line failures.

These commands have the rights of whoever runs them, and no others. The controller is asked for nothing that the API
server can say, so that they work while it is down.
"""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer
from kubernetes.client import Configuration
from kubernetes.config import list_kube_config_contexts  # pyright: ignore[reportUnknownVariableType] - the library is typed in part
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION
from rich.console import Console
from urllib3.exceptions import SSLError

from controllers.adapters.kube_api import ApiError, Json, KubeApi, NoCluster, from_kubeconfig
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig, PoolPolicy, UnreadableConfig, load
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE

CONFIG_KEY = "config.json"
DEFAULT_NAMESPACE = NAMESPACE
MANAGER = "ebbtide-operator"
"""Field manager of what an operator changes through these commands."""

Context = Annotated[str | None, typer.Option("--context", help="The kubeconfig's context; default: its current one.")]
Kubeconfig = Annotated[str | None, typer.Option("--kubeconfig", metavar="FILE", help="Default: as kubectl finds it.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where the controller runs.")]


@dataclass(frozen=True, slots=True)
class Target:
    """One object that a command acts on."""

    kind: str  # "pool" or "budget"
    name: str
    path: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def console(*, stderr: bool = False) -> Console:
    """Long lines are the terminal's to wrap; words are never styled by accident."""
    return Console(stderr=stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)


def fail(message: str, code: int = 1) -> NoReturn:
    """One clear line, and out."""
    console(stderr=True).print(message)
    raise typer.Exit(code)


class OperatorApi(KubeApi):
    """The API server as the operator reaches it; knows from where, so that a failure can name what to mend."""

    def __init__(self, configuration: Configuration, file: str, context: str) -> None:
        super().__init__(configuration, self._hear)
        self.clock_ahead: timedelta | None = None  # of the server's clock, against this machine's
        self.source = f"kubeconfig {file}, context {context}"
        self.kubectl = f"kubectl --kubeconfig {file} --context {context}"
        token = configuration.get_api_key_with_prefix("authorization", alias="BearerToken")
        self.has_login = bool(token or configuration.cert_file)

    def _hear(self, server_time: datetime) -> None:
        self.clock_ahead = server_time - datetime.now(UTC)


def connect(kubeconfig: str | None, context: str | None) -> OperatorApi:
    """Ends the command where no cluster is configured; nothing is sent yet."""
    file = kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION
    if not any(Path(part).expanduser().exists() for part in file.split(os.pathsep) if part):
        fail(f"no cluster: kubeconfig {file}: no such file; {_WANTED}", 2)
    try:
        configuration = from_kubeconfig(kubeconfig, context)
    except NoCluster as error:
        fail(f"no cluster: kubeconfig {file}: {_unknown_context(kubeconfig, context) or one_line(error)}; {_WANTED}", 2)
    return OperatorApi(configuration, file, context or _contexts(kubeconfig)[1])


_WANTED = "wanted one that kubectl can use, for example --kubeconfig ~/.kube/config --context NAME"


def _contexts(kubeconfig: str | None) -> tuple[list[str], str]:
    """The names of all, and the current one; only for a file whose current one can be used."""
    contexts, current = cast("tuple[list[Mapping[str, str]], Mapping[str, str]]", list_kube_config_contexts(kubeconfig))
    return [context["name"] for context in contexts], current["name"]


def _unknown_context(kubeconfig: str | None, context: str | None) -> str:
    """Which there are, where the one that was named is not among them."""
    try:
        from_kubeconfig(kubeconfig)
    except NoCluster:
        return ""  # the file has another fault, which is told as such
    names, _ = _contexts(kubeconfig)
    return f"no context {context}; there are: {', '.join(names)}" if context and context not in names else ""


@contextmanager
def told(api: OperatorApi) -> Generator[None]:
    """What the API server refuses, or a cluster that cannot be reached, as one line."""
    try:
        yield
    except ApiError as error:
        fail(f"{api.source}: {one_line(error)}{_hint(api, error)}")


def _hint(api: OperatorApi, error: ApiError) -> str:
    """What is wanted instead, and a command that shows whether it is so."""
    if error.status == 0 and isinstance(error.__cause__, SSLError):
        wanted = "a server whose certificate the kubeconfig's certificate-authority has signed"
        return f"; wanted {wanted} (on EKS: aws eks update-kubeconfig --name CLUSTER)"
    if error.status == 0:
        return f"; wanted a server that answers: is it the right one, and the VPN up? try: {api.kubectl} version"
    if error.status in (401, 403) and not api.has_login:
        return "; wanted a login, and this kubeconfig gave none: is its login plugin installed, or its token missing?"
    if error.status == 401:
        return (
            f" (HTTP 401): the login is refused; wanted a valid one: log in again, then try: {api.kubectl} auth whoami"
        )
    if error.status == 403:
        return f" (HTTP 403): ask whoever grants rights; those you have: {api.kubectl} auth can-i --list"
    return ""


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def config_of(api: KubeApi, namespace: str) -> ControllerConfig:
    """What the controller is told. Ends the command where there is no such document."""
    try:
        config_map = api.get(f"/api/v1/namespaces/{namespace}/configmaps/{CONTROLLER}")
        return load(str((config_map.get("data") or {CONFIG_KEY: ""}).get(CONFIG_KEY, "")))
    except UnreadableConfig as error:
        fail(f"the controller's config (ConfigMap {namespace}/{CONTROLLER}) cannot be read: {error}")
    except ApiError as error:
        if error.status == 404:
            fail(f"no ConfigMap {CONTROLLER} in namespace {namespace}: is Ebbtide installed there (--namespace)?")
        raise


def deployment_path(pool: PoolPolicy) -> str:
    return f"/apis/apps/v1/namespaces/{pool.namespace}/deployments/{pool.deployment}"


def budget_path(budget: BudgetPolicy) -> str:
    return f"/apis/policy/v1/namespaces/{budget.namespace}/poddisruptionbudgets/{budget.name}"


def targets_of(config: ControllerConfig, names: Sequence[str]) -> list[Target]:
    """The pools and flexible budgets of these names; without names, all. An unknown name ends the command."""
    known = [Target("pool", pool.name, deployment_path(pool)) for pool in config.pools]
    known += [Target("budget", budget.name, budget_path(budget)) for budget in config.budgets]
    unknown = sorted(set(names) - {target.name for target in known})
    if unknown:
        have = ", ".join(sorted(target.name for target in known)) or "none"
        fail(f"no worker pool and no flexible budget is called {' or '.join(unknown)}; there are: {have}", 2)
    return [target for target in known if not names or target.name in names]


def seen(api: KubeApi, path: str) -> Json | None:
    """The object; None if it does not exist."""
    try:
        return api.get(path)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def listed(api: KubeApi, path: str, **query: str) -> list[Json]:
    return list(api.get(path, **query).get("items") or ())


def annotations_of(item: Mapping[str, Any]) -> Mapping[str, str]:
    return item["metadata"].get("annotations") or {}


def labels_of(item: Mapping[str, Any]) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def instant_of(text: object) -> datetime | None:
    """An RFC 3339 instant as the API server and the controller write them; None where there is none."""
    try:
        parsed = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return parsed.astimezone(UTC) if parsed is not None and parsed.tzinfo is not None else None


def rfc3339(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lease_holder(lease: Mapping[str, Any] | None, now: datetime) -> str:
    """Who leads by the Lease; empty where nobody has renewed it in time."""
    spec: Mapping[str, Any] = (lease or {}).get("spec") or {}
    renewed = instant_of(spec.get("renewTime"))
    duration = spec.get("leaseDurationSeconds") or 0
    alive = renewed is not None and (now - renewed).total_seconds() <= duration
    return str(spec.get("holderIdentity") or "") if alive else ""


def lease_of(api: KubeApi, namespace: str) -> Json | None:
    return seen(api, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{CONTROLLER}")
