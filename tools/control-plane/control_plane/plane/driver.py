"""Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK on free loopback ports.

Traps:

- KWOK renews node leases, or the controller manager marks every node unready after 40 s and no budget allows anything.
- Every node needs its own `kubernetes.io/hostname`: without that key the scheduler silently ignores anti-affinity.
- The ServiceAccount admission plugin waits for accounts and mounts tokens; without it a pod needs neither, and tests
  request an account's tokens. With real nodes (`Mode`) it is on. RBAC is always on, and only the administrator
  bypasses it.
"""

import base64
import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from kubernetes.client import Configuration

from control_plane.plane.binaries import binaries
from control_plane.plane.mode import PLAYED, Mode
from control_plane.plane.probes import accepts, free_ports, says_ok, text_at
from control_plane.plane.processes import Ended, NotStarted, Processes
from controllers.adapters.kube_api import ApiError, KubeApi

Component: TypeAlias = Literal["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
START_LIMIT = 60.0  # seconds; a busy machine is slow, not broken
_SERVED: tuple[Component, ...] = ("kube-controller-manager", "kube-scheduler")
_ATTEMPTS = 3  # another process may take a free port before ours does
_TICK = 0.02
_NODE_LEASE_SECONDS = 40
_ANSWER_LIMIT = 60.0  # seconds; a client under test has its own limit
_HPA_SYNC = 1  # seconds; Kubernetes' 15 would only take longer


class ControlPlane:
    """A control plane from `with` to its end; without nodes only etcd and the API server, which starts faster.

    `hands_off`: a label selector of pods that KWOK leaves to a `Kubelet` of this package.
    """

    def __init__(self, *, with_nodes: bool = True, hands_off: str = "", mode: Mode = PLAYED) -> None:
        self._with_nodes = with_nodes
        self._mode = mode
        self._hands_off = hands_off
        self._programs: Mapping[str, Path] = {}
        self._token = secrets.token_hex(16)
        self._ports: dict[Component, int] = {}
        self.url = ""
        self._api: KubeApi
        self.processes: Processes

    def __enter__(self) -> Self:
        """Start it. Raises `MissingBinaries` or `NotStarted`, and then leaves nothing behind."""
        self._programs = binaries(self._mode.programs)
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.processes.close()

    # --- access ---------------------------------------------------------------------------------------------------

    @property
    def api(self) -> KubeApi:
        """Client of the administrator. Raises `Ended` when a program has died, since no request shows more."""
        self.require_alive()
        return self._api

    @property
    def folder(self) -> Path:
        return self.processes.folder

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def token(self) -> str:
        """The administrator's token."""
        return self._token

    def configuration(self, token: str | None = None) -> Configuration:
        """Return a configuration for the client library, as the administrator or with another token."""
        configuration = Configuration()
        configuration.host = self.url
        configuration.ssl_ca_cert = str(self._ca_file)
        configuration.api_key["authorization"] = f"Bearer {token or self._token}"
        return configuration

    def token_for(self, namespace: str, service_account: str, *, seconds: int = 3600) -> str:
        """Return a real token of an existing account, as its pods would have."""
        request: dict[str, Any] = {"spec": {"expirationSeconds": seconds}}
        answer = self.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token", request)
        return str(answer["status"]["token"])

    def api_as(self, namespace: str, service_account: str) -> KubeApi:
        return KubeApi(self.configuration(self.token_for(namespace, service_account)))

    def kubeconfig_with(self, token: str, file: Path) -> None:
        """Write a kubeconfig file with that token."""
        self._write_kubeconfig(file, token)

    def kubeconfig_as(self, namespace: str, service_account: str) -> Path:
        """Return a kubeconfig file with that account's token, for a process under test."""
        file = self.folder / f"kubeconfig-{namespace}-{service_account}"
        self._write_kubeconfig(file, self.token_for(namespace, service_account))
        return file

    def kubectl(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None, limit: float = 60.0
    ) -> str:
        """Return kubectl's output, within `limit` seconds.

        Raises `subprocess.CalledProcessError`, whose `stderr` says why, or `Ended`.
        """
        self.require_alive()
        command = [str(self._programs["kubectl"]), f"--kubeconfig={kubeconfig or self.kubeconfig}", *arguments]
        environment = {**os.environ, "HOME": str(self.folder)}  # its cache is removed with the folder
        return subprocess.run(
            command, input=stdin, env=environment, capture_output=True, text=True, check=True, timeout=limit
        ).stdout

    def port_of(self, component: Component) -> int:
        """Return the component's port, over TLS except for etcd. Raises KeyError for KWOK, which has none."""
        return self._ports[component]

    def metrics(self, component: Component) -> str:
        """Return the metrics of the API server, the scheduler or the controller manager. Raises OSError."""
        return text_at(f"https://{self._mode.host}:{self.port_of(component)}/metrics", self._token)

    # --- nodes, and faults ----------------------------------------------------------------------------------------

    def add_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        cpu: str | int = 16,
        memory: str = "64Gi",
        gpu: int = 0,
        disk: str = "",
    ) -> None:
        """Add a node that KWOK simulates: pods bound to it run, and end when deleted."""
        size = {"cpu": str(cpu), "memory": memory, "pods": "110", **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
        size |= {"ephemeral-storage": disk} if disk else {}
        node: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "spec": {"taints": [dict(taint) for taint in taints]},
            "status": {"allocatable": size, "capacity": size},
        }
        self.api.create("/api/v1/nodes", node)

    def suspend(self, component: Component) -> None:
        """Freeze it: its connections stay open without answers."""
        self.processes.send(component, signal.SIGSTOP)

    def resume(self, component: Component) -> None:
        self.processes.send(component, signal.SIGCONT)

    def kill(self, component: Component) -> None:
        """Kill it, as with a lost machine. Its port and data stay for `restart`."""
        self.processes.kill(component)

    def restart(self, component: Component) -> None:
        """Kill it and start it again on the same port and data; return when it answers."""
        self.processes.restart(component)
        self._wait_until_ready("restarting")

    def hpa_every(self, seconds: int) -> None:
        """Restart the controller manager with this sync period of HPAs; it forgets their recommendations."""
        self.processes.stop("kube-controller-manager")
        self._launch_manager(seconds)
        self._wait_until_ready("restarting")

    def require_alive(self) -> None:
        """Raise `Ended`, with their last words, when programs have died that `kill` did not end."""
        self.processes.require_alive("in use")

    def heal(self) -> None:
        """Restart ended programs with their ports and data; if that fails, start an empty plane on other ports.

        Raises `NotStarted` if that fails too.
        """
        try:
            for component in self.processes.gone():
                self.processes.restart(component)
            self._wait_until_ready("restarting what was gone")
        except (NotStarted, OSError):  # its disk may be full
            self.processes.close()
            self._begin()

    # --- starting -------------------------------------------------------------------------------------------------

    @property
    def _ca_file(self) -> Path:
        return self.folder / "certificates" / "apiserver.crt"  # its certificate, followed by the signing authority

    def _begin(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._begin_once()
            except Ended:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _begin_once(self) -> None:
        try:
            folder = Path(tempfile.mkdtemp(prefix="ebbtide-control-plane-"))
        except OSError as error:
            raise NotStarted(f"control plane: no temporary folder can be made: {error.strerror or error}") from error
        self.processes = Processes(folder)
        try:
            self._start()
        except OSError as error:
            self.processes.close()
            raise NotStarted(f"control plane: cannot write to {folder}: {error.strerror or error}") from error
        except BaseException:  # also for Ctrl-C: nothing may stay behind
            self.processes.close()
            raise

    def _start(self) -> None:
        """Start all programs; each waits for those that it needs."""
        mode, host = self._mode, self._mode.host
        client, peer, api, manager, scheduler = free_ports(5, host)
        self.url = f"https://{host}:{api}"
        users = {self._token: "admin,admin,system:masters", **mode.accounts}
        (self.folder / "tokens.csv").write_text("".join(f"{token},{user}\n" for token, user in users.items()))
        (self.folder / "accounts.key").write_text(_new_signing_key())
        self._write_kubeconfig(self.kubeconfig, self._token)
        self._ports = {
            "etcd": client,
            "kube-apiserver": api,
            "kube-controller-manager": manager,
            "kube-scheduler": scheduler,
        }
        self._launch("etcd", self._etcd_arguments(client, peer))
        self.wait(lambda: accepts(client, host), "waiting for etcd")
        self._launch("kube-apiserver", self._api_server_arguments(client, api))
        self.wait(self._ca_file.exists, "waiting for the API server's certificate")
        self._api = KubeApi(self.configuration(), patience=_ANSWER_LIMIT)
        self.wait(lambda: self._answers("/api/v1/namespaces/default"), "waiting for the API server")
        if self._with_nodes:
            common = [f"--kubeconfig={self.kubeconfig}"]
            delegated = [f"--{kind}-kubeconfig={self.kubeconfig}" for kind in ("authentication", "authorization")]
            served = [
                *common,
                *delegated,
                f"--bind-address={host}",
                "--leader-elect=false",
                "--authentication-skip-lookup",
            ]
            qps = ["--kube-api-qps=200", "--kube-api-burst=400"]
            certificates = f"--cert-dir={self.folder / 'certificates'}"
            signs = [flag.format(folder=self.folder) for flag in mode.manager]
            self._manager = [*served, *qps, certificates, f"--secure-port={manager}", *signs]
            self._launch_manager(_HPA_SYNC)
            self._launch("kube-scheduler", [*served, *qps, certificates, f"--secure-port={scheduler}"])
            lease = f"--node-lease-duration-seconds={_NODE_LEASE_SECONDS}"
            played = [*mode.played, lease, "--server-address=", "--cidr=10.0.0.1/16"]
            spared = [f"--disregard-status-with-label-selector={self._hands_off}"] if self._hands_off else []
            self._launch("kwok", [*common, *played, *spared])
        self._wait_until_ready("starting")

    def _etcd_arguments(self, client: int, peer: int) -> list[str]:
        host = self._mode.host
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=http://{host}:{client}",
            f"--advertise-client-urls=http://{host}:{client}",
            f"--listen-peer-urls=http://{host}:{peer}",
            "--unsafe-no-fsync",
        ]

    def _api_server_arguments(self, etcd: int, port: int) -> list[str]:
        key = self.folder / "accounts.key"
        return [
            f"--etcd-servers=http://{self._mode.host}:{etcd}",
            f"--bind-address={self._mode.host}",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            *self._mode.access,
            *self._mode.api_server,
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
        ]

    def _launch_manager(self, hpa_sync: int) -> None:
        sync = f"--horizontal-pod-autoscaler-sync-period={hpa_sync}s"
        self._launch("kube-controller-manager", [*self._manager, sync])

    def _launch(self, component: Component, arguments: Sequence[str]) -> None:
        self.processes.start(component, [str(self._programs[component]), *arguments])

    def _write_kubeconfig(self, file: Path, token: str) -> None:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self._ca_file)}}
            ],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        file.touch(mode=0o600)
        file.write_text(json.dumps(document))  # JSON is YAML

    # --- waiting --------------------------------------------------------------------------------------------------

    def _wait_until_ready(self, doing: str) -> None:
        # The API server continues for a second with its last data of etcd, which may be dead by now.
        self.wait(lambda: says_ok(f"http://{self._mode.host}:{self.port_of('etcd')}/readyz"), doing)
        self.wait(lambda: self._answers("/readyz?verbose=false", text=True), doing)
        if self._with_nodes:
            for component in _SERVED:
                health = f"https://{self._mode.host}:{self.port_of(component)}/healthz"
                self.wait(lambda health=health: says_ok(health), doing)
        self.processes.require_alive(doing)  # another program on one of these ports may have answered

    def wait(self, done: Callable[[], bool], doing: str) -> None:
        deadline = time.monotonic() + START_LIMIT
        while not done():
            self.processes.require_alive(doing)
            self.processes.require_in_time(deadline, doing)
            time.sleep(_TICK)

    def _answers(self, path: str, *, text: bool = False) -> bool:
        if text:
            return says_ok(f"{self.url}{path}")
        try:
            self._api.get(path)
        except ApiError:
            return False
        return True


def _new_signing_key() -> str:
    """Return a new P-256 key in its shortest form (RFC 5915 without the public half), without program or library."""
    scalar = bytes([secrets.randbelow(0x7F) + 1]) + secrets.token_bytes(31)  # below the group's order, above zero
    der = bytes.fromhex("30310201010420") + scalar + bytes.fromhex("a00a06082a8648ce3d030107")
    return f"-----BEGIN EC PRIVATE KEY-----\n{base64.b64encode(der).decode()}\n-----END EC PRIVATE KEY-----\n"
