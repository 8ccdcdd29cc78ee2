"""Real nodes under a real control plane: `with RealCluster() as cluster: cluster.boot("n1")`.

However the driver ends, nothing stays: its programs end with the pipe to their reaper, network namespaces and mounts
with the last process in them, and the next run removes folders. The thread that enters is in another network until it
leaves, so it reaches only the cluster.
"""

import secrets
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from control_plane.nodes import cgroups, files, leftovers, network
from control_plane.nodes.host import missing, one_line
from control_plane.nodes.images import building, store
from control_plane.nodes.run import Failed, run
from control_plane.plane.binaries import WITH_NODES, binaries
from control_plane.plane.driver import ControlPlane
from control_plane.plane.mode import Mode, real_nodes
from control_plane.plane.processes import Processes
from controllers.adapters.kube_api import ApiError, Json

NAMES = ("n1", "n2", "n3", "n4")
_PROXY = "system:kube-proxy"
_HERE = Path(__file__).parent
_ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"
_TICK = 0.1
_PATIENCE = 300.0  # seconds; a shared machine starts slowly


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    name: str
    number: int
    folder: Path
    cgroup: str
    options: tuple[str, ...]  # the kubelet's


class RealCluster:
    """A control plane, and nodes of `NAMES` to be booted. Context manager.

    `images`: the names of the images that its nodes have, by default all.
    """

    def __init__(self, images: Collection[str] = ()) -> None:
        self._images = images
        self._tokens = {name: secrets.token_hex(16) for name in (*NAMES, _PROXY)}
        self._nodes: dict[str, _Node] = {}
        self._end = ExitStack()
        self.plane: ControlPlane

    def __enter__(self) -> Self:
        """Start the control plane. Raises `ControlPlaneError`, and then leaves nothing behind."""
        if lacking := missing():
            raise Failed(one_line(lacking))
        binaries(tuple(WITH_NODES))  # fails before anything begins if one is missing
        self._store = store.prepare(lambda _: None, building.archives(self._images))
        root = building.folder()
        leftovers.sweep(root)
        self._name = leftovers.name_of_this_run()
        self.folder = leftovers.folder_of_runs(root) / self._name
        with ExitStack() as begun:
            begun.callback(leftovers.remove, root, self._name)
            self.folder.mkdir(parents=True)
            begun.enter_context(network.entered())
            self.plane = begun.enter_context(ControlPlane(mode=self._mode()))
            self._move_into_cgroup()
            self._start_dns()
            self._end = begun.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.close()

    @property
    def processes(self) -> Processes:
        return self.plane.processes

    # --- nodes ----------------------------------------------------------------------------------------------------

    def boot(self, name: str, *, labels: Mapping[str, str] | None = None, taints: Sequence[str] = ()) -> None:
        """Boot a node, with its former disk; labels and taints (`key=value:Effect`) are for its registration.

        A later boot without any uses the previous ones.
        """
        if name in self._nodes and name in self.processes.names() and name not in self.processes.gone():
            raise Failed(f"real nodes: {name} runs")
        if name not in self._nodes or labels is not None or taints:
            node = self._nodes.get(name) or self._new(name)
            self._nodes[name] = replace(node, options=_options(node.number, labels or {}, taints))
        node = self._nodes[name]
        cgroups.make(f"{node.cgroup}/{cgroups.SYSTEM}")
        programs = binaries(tuple(WITH_NODES))["kubelet"].parent
        script = [str(_HERE / "node.sh"), node.name, str(node.number), node.cgroup, str(node.folder), str(programs)]
        namespaces = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        if name in self.processes.names():
            self.processes.stop(name)
        self.processes.start(name, ["unshare", "--net", *namespaces, "bash", *script, *node.options])
        pid = self.processes.pid(name)
        self._wait(lambda: network.is_separate(pid), f"{name}'s network namespace")
        network.connect(node.number, pid)

    def cut_power(self, name: str) -> None:
        """End everything on the node at once, without notice. Its disk stays."""
        node = self._nodes[name]
        self.processes.kill(name)
        cgroups.end(node.cgroup)
        network.disconnect(node.number)

    def cut_off(self, name: str) -> None:
        """Disconnect the node, which keeps running, until `join`."""
        network.unplug(self._nodes[name].number)

    def join(self, name: str) -> None:
        network.plug_in(self._nodes[name].number)

    def ask_from(self, name: str, url: str) -> str:
        """Read a page from the node's own network, cut off or not."""
        inside = ["nsenter", f"--net=/proc/{self.processes.pid(name)}/ns/net"]
        return run([*inside, sys.executable, "-S", "-E", "-c", _ASK, url])

    def wait_until_ready(self, *names: str) -> None:
        for name in names:
            self._wait(lambda name=name: self.is_ready(name), f"{name} to be ready")

    def is_ready(self, name: str) -> bool:
        try:
            node = self.plane.api.get(f"/api/v1/nodes/{name}")
        except ApiError:
            return False
        return any(row["type"] == "Ready" and row["status"] == "True" for row in node["status"].get("conditions", []))

    def processes_on(self, name: str) -> set[int]:
        return cgroups.processes(self._nodes[name].cgroup)

    def processes_of(self, pod: Json) -> set[int]:
        """Return the processes of the pod's first container, by the machine's own ids."""
        return {pid for group in self._groups_of(pod) for pid in cgroups.processes(group)}

    def killed_for_memory(self, pod: Json) -> int:
        """Return how many processes of its first container the kernel has killed for lack of memory."""
        return sum(cgroups.killed_for_memory(group) for group in self._groups_of(pod))

    def _groups_of(self, pod: Json) -> set[str]:
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        return cgroups.below(self._nodes[pod["spec"]["nodeName"]].cgroup, container)

    def folder_of(self, name: str) -> Path:
        """Return the folder of the node's disk and of its programs' logs."""
        return self._nodes[name].folder

    def local_volume(self, name: str, node: str, size: str = "8Gi") -> Json:
        """Create a PersistentVolume on that node's disk, which outlives a power cut."""
        return self._volume(name, self.folder_of(node) / "volumes" / name, (node,), "ReadWriteOnce", size)

    def shared_volume(self, name: str, nodes: Sequence[str], size: str = "8Gi") -> Json:
        """Create a volume that pods on all of these nodes mount at once: they share this machine's disk, like NFS."""
        return self._volume(name, self.folder / "shared" / name, nodes, "ReadWriteMany", size)

    def _volume(self, name: str, path: Path, nodes: Sequence[str], mode: str, size: str) -> Json:
        path.mkdir(parents=True)
        on_nodes = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
        return self.plane.api.create(
            "/api/v1/persistentvolumes",
            {
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": size},
                    "accessModes": [mode],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "local": {"path": str(path)},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_nodes]}]}},
                },
            },
        )

    # --- starting -------------------------------------------------------------------------------------------------

    def _mode(self) -> Mode:
        accounts = {self._tokens[name]: f'system:node:{name},{name},"system:nodes"' for name in NAMES}
        accounts[self._tokens[_PROXY]] = f"{_PROXY},{_PROXY}"
        return real_nodes(network.HOST, tuple(WITH_NODES), accounts)

    def _move_into_cgroup(self) -> None:
        """Move the programs into a cgroup, so that the next run finds them if this one cannot end them."""
        (self.folder / leftovers.PLANE).symlink_to(self.plane.folder)
        group = f"{self._name}/plane"
        cgroups.make(group)
        for name in self.processes.names():
            cgroups.enter(group, self.processes.pid(name))

    def _start_dns(self) -> None:
        token = self.folder / "dns-token"
        token.touch(mode=0o600)
        token.write_text(self._tokens[_PROXY])
        ca = self.plane.folder / "certificates" / "apiserver.crt"
        command = [sys.executable, "-S", "-E", str(_HERE / "dns.py"), network.HOST, self.plane.url, str(ca), str(token)]
        self.processes.start("dns", command)
        cgroups.enter(f"{self._name}/plane", self.processes.pid("dns"))

    def _new(self, name: str) -> _Node:
        number = NAMES.index(name) + 1
        folder, cgroup = self.folder / name, f"{self._name}/{name}"
        store.copy(self._store, folder / "lib" / "containerd")
        (folder / "cni").mkdir()
        (folder / "resolv.conf").touch()
        (folder / "containerd.toml").write_text(files.containerd(str(folder)))
        (folder / "cni" / "10-pods.conflist").write_text(files.pod_network(number))
        (folder / "kubelet.json").write_text(files.kubelet(cgroup, str(folder)))
        (folder / "proxy.json").write_text(files.proxy(str(folder / "proxy-kubeconfig")))
        self.plane.kubeconfig_with(self._tokens[name], folder / "kubeconfig")
        self.plane.kubeconfig_with(self._tokens[_PROXY], folder / "proxy-kubeconfig")
        return _Node(name=name, number=number, folder=folder, cgroup=cgroup, options=())

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not done():
            self.plane.require_alive()
            if time.monotonic() > deadline:
                raise Failed(f"real nodes: still waiting for {what}")
            time.sleep(_TICK)


def _options(number: int, labels: Mapping[str, str], taints: Sequence[str]) -> tuple[str, ...]:
    marks = ",".join(f"{key}={value}" for key, value in labels.items())
    options = (f"--node-ip={network.address(number)}", f"--node-labels={marks}", "--v=1")
    return (*options, f"--register-with-taints={','.join(taints)}") if taints else options
