"""Access to the API server: the kubeconfig, the controller's config and Lease, and one-line failures.

All requests use the operator's own rights. Nothing that the API server knows is requested from the controller, so
these commands work while the controller is down.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar, cast

from kubernetes.client import Configuration
from kubernetes.config import list_kube_config_contexts  # pyright: ignore[reportUnknownVariableType] - the library is typed in part
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION
from urllib3.exceptions import SSLError

from controllers.adapters.kube_api import ApiError, Json, KubeApi, NoCluster, from_kubeconfig
from ebbtide.operate.objects import Document, at, parse_instant
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig, PoolPolicy
from ebbtide.vocabulary.documents import UnreadableConfig, load
from ebbtide.vocabulary.labels import CONTROLLER

_T = TypeVar("_T")

CONFIG_KEY = "config.json"
MANAGER = "ebbtide-operator"
"""Field manager of an operator's changes through these commands."""


class CannotOperate(Exception):
    """Ends the operation; the message is one line for the operator. `code` is the command's exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code  # 2 if the named object does not exist


@dataclass(frozen=True, slots=True)
class Target:
    """One object that a command acts on."""

    kind: str  # "pool", "budget", "workload" or "ray"
    name: str
    path: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class OperatorApi(KubeApi):
    """API client that knows its kubeconfig and context, so that a failure can name what to correct."""

    def __init__(self, configuration: Configuration, file: str, context: str) -> None:
        super().__init__(configuration, self._note_server_time)
        self.configuration = configuration
        self.clock_ahead: timedelta | None = None  # the server's clock minus this machine's
        self.source = f"kubeconfig {file}, context {context}"
        self.kubectl = f"kubectl --kubeconfig {file} --context {context}"
        token = configuration.get_api_key_with_prefix("authorization", alias="BearerToken")
        self.has_login = bool(token or configuration.cert_file)

    def _note_server_time(self, server_time: datetime) -> None:
        self.clock_ahead = server_time - datetime.now(UTC)


def connect(kubeconfig: str | None, context: str | None) -> OperatorApi:
    """Build the client without a request. Raises `CannotOperate` if no cluster is configured."""
    file = kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION
    if not any(Path(part).expanduser().exists() for part in file.split(os.pathsep) if part):
        raise CannotOperate(f"no cluster: kubeconfig {file}: no such file; {_WANTED}", 2)
    try:
        configuration = from_kubeconfig(kubeconfig, context)
    except NoCluster as error:
        why = _unknown_context(kubeconfig, context) or collapsed(error)
        raise CannotOperate(f"no cluster: kubeconfig {file}: {why}; {_WANTED}", 2) from error
    return OperatorApi(configuration, file, context or _contexts(kubeconfig)[1])


_WANTED = "wanted one that kubectl can use, for example --kubeconfig ~/.kube/config --context NAME"


def _contexts(kubeconfig: str | None) -> tuple[list[str], str]:
    """Return all context names and the current one; requires a usable current context."""
    contexts, current = cast("tuple[list[Mapping[str, str]], Mapping[str, str]]", list_kube_config_contexts(kubeconfig))
    return [context["name"] for context in contexts], current["name"]


def _unknown_context(kubeconfig: str | None, context: str | None) -> str:
    """Return a message with the existing contexts if `context` is not one of them; otherwise an empty string."""
    try:
        from_kubeconfig(kubeconfig)
    except NoCluster:
        return ""  # the file has another fault, which the caller reports
    names, _ = _contexts(kubeconfig)
    return f"no context {context}; there are: {', '.join(names)}" if context and context not in names else ""


def failure_text(api: OperatorApi, error: ApiError) -> str:
    """Return the API server's refusal, or why it cannot be reached, in one line."""
    return f"{api.source}: {collapsed(error)}{_advice(api, error)}"


def _advice(api: OperatorApi, error: ApiError) -> str:
    """Return the expected state, and a command that checks it."""
    if error.status == 0 and isinstance(error.__cause__, SSLError):
        expected = "a server whose certificate the kubeconfig's certificate-authority has signed"
        return f"; wanted {expected} (on EKS: aws eks update-kubeconfig --name CLUSTER)"
    if error.status == 0:
        return f"; wanted a server that answers: is it the right one, and the VPN up? try: {api.kubectl} version"
    if error.status in (401, 403) and not api.has_login:
        return "; wanted a login, and this kubeconfig gave none: is its login plugin installed, or its token missing?"
    if error.status == 401:
        return (
            f" (HTTP 401): the login is refused; wanted a valid one: log in again, then try: {api.kubectl} auth whoami"
        )
    if error.status == 403:
        return f" (HTTP 403): ask an administrator of the cluster; list your rights: {api.kubectl} auth can-i --list"
    return ""


def controller_config_of(api: KubeApi, namespace: str) -> ControllerConfig:
    """Return the controller's config document. Raises `ApiError`, and `CannotOperate` if there is none."""
    try:
        config_map = api.get(f"/api/v1/namespaces/{namespace}/configmaps/{CONTROLLER}")
        return load(ControllerConfig, str((config_map.get("data") or {CONFIG_KEY: ""}).get(CONFIG_KEY, "")))
    except UnreadableConfig as error:
        where = f"ConfigMap {namespace}/{CONTROLLER}"
        raise CannotOperate(f"the controller's config ({where}) cannot be read: {error}") from error
    except ApiError as error:
        if error.status == 404:
            where = f"namespace {namespace}"
            raise CannotOperate(
                f"no ConfigMap {CONTROLLER} in {where}: is Ebbtide installed there (--namespace)?"
            ) from error
        raise


def require_customer(config: ControllerConfig, customer: str) -> None:
    """Raise `CannotOperate` if the cluster is another customer's."""
    if config.customer != customer:
        raise CannotOperate(
            f"this cluster belongs to customer {config.customer}, the stack to {customer}: wanted the stack's context, "
            "for example --context NAME",
            2,
        )


def deployment_path(pool: PoolPolicy) -> str:
    return f"/apis/apps/v1/namespaces/{pool.namespace}/deployments/{pool.deployment}"


def budget_path(budget: BudgetPolicy) -> str:
    return f"/apis/policy/v1/namespaces/{budget.namespace}/poddisruptionbudgets/{budget.pdb}"


def targets_of(config: ControllerConfig, names: Sequence[str], more: Sequence[Target] = ()) -> list[Target]:
    """Return the named pools and controller-opened budgets; without names, all.

    `more` are Ray clusters and workloads that sleep, for commands that accept them. Raises `CannotOperate` for an
    unknown name.
    """
    targets = [Target("pool", pool.name, deployment_path(pool)) for pool in config.pools]
    targets += [*(Target("budget", budget.name, budget_path(budget)) for budget in config.budgets), *more]
    unknown = sorted(set(names) - {target.name for target in targets})
    if unknown:
        have = ", ".join(sorted({target.name for target in targets})) or "none"
        kinds = (
            "no worker pool, flexible budget, sleeping workload or Ray cluster"
            if more
            else "no worker pool and no flexible budget"
        )
        raise CannotOperate(f"{kinds} is called {' or '.join(unknown)}; there are: {have}", 2)
    return [target for target in targets if not names or target.name in names]


def find(api: KubeApi, path: str) -> Json | None:
    """Return the object at a path; None if it does not exist."""
    try:
        return api.get(path)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def items(api: KubeApi, path: str, **query: str) -> list[Json]:
    return list(api.get(path, **query).get("items") or ())


_PAUSES = (0.5, 1, 2, 4, 8, 8, 8, 8, 8, 8)  # seconds between attempts to undo: about a minute in total
_RETRIED = (408, 409, 429)  # refusals that a retry may overcome


def patch_surely(api: KubeApi, path: str, body: Mapping[str, object], action: str, tell: Callable[[str], None]) -> bool:
    """Patch with retries while the server is unreachable or busy; return True on success or if the object is gone."""
    for pause in (*_PAUSES, None):
        try:
            api.patch(path, body, fieldManager=MANAGER)
        except ApiError as error:
            if error.status == 404:
                return True
            tell(f"could not {action}: {error}")
            if pause is None or (400 <= error.status < 500 and error.status not in _RETRIED):
                return False
            time.sleep(pause)
        else:
            return True
    return False


def lease_holder(lease: Document | None, now: datetime) -> str:
    """Return the Lease's holder; empty if it was not renewed in time."""
    renewed = parse_instant(at(lease, "spec", "renewTime"))
    duration = at(lease, "spec", "leaseDurationSeconds") or 0
    alive = renewed is not None and (now - renewed).total_seconds() <= duration
    return str(at(lease, "spec", "holderIdentity") or "") if alive else ""


def leader(api: KubeApi, namespace: str, now: datetime, name: str = CONTROLLER) -> str:
    """Return the holder of the controller's Lease, or of Lease `name`; empty if there is none. Raises `ApiError`.

    `now` is this machine's time, which is corrected by the API server's clock.
    """
    lease = find(api, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    ahead = api.clock_ahead if isinstance(api, OperatorApi) else None
    return lease_holder(lease, now + (ahead or timedelta()))


def readable(part: str, unread: list[str], read: Callable[[], _T]) -> _T | None:
    """Read a part that the operator may lack rights for; on failure return None and note it in `unread`."""
    try:
        return read()
    except ApiError as error:
        unread.append(f"{part}: {collapsed(error)}")
        return None
