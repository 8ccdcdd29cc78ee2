"""Config files of a node's programs. Pure.

Traps:

- Without CAP_SYS_RESOURCE, as in many virtual machines, runc cannot lower a container's OOM score and dies with "can't
  get final child's PID from pipe": `restrict_oom_score_adj`.
- The kubelet removes images at 85 % of the machine's disk. They could not be pulled again, so this is disabled.
- A changed ConfigMap reaches a pod's files when the kubelet syncs the pod again: after 10 s here, not after 60.
- kube-proxy must not change the machine's limits of connection tracking: zeros.
- The API server reaches the kubelet only in this network, so anyone there may ask it for logs.
"""

import json
from typing import Any

from control_plane.nodes.images.recipes import PAUSE_TAG
from control_plane.nodes.network import HOST, PODS, pods_of

DOMAIN = "cluster.local"

_CONTAINERD = """\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [{disabled}]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""
_UNUSED = ("snapshotter.v1.btrfs", "snapshotter.v1.zfs", "snapshotter.v1.devmapper", "snapshotter.v1.aufs")


def containerd(folder: str, *, serves_pods: bool = True) -> str:
    unused = [*_UNUSED, *([] if serves_pods else ["grpc.v1.cri"])]
    disabled = ", ".join(f'"io.containerd.{name}"' for name in unused)
    return _CONTAINERD.format(disabled=disabled, pause=PAUSE_TAG, folder=folder)


def pod_network(number: int) -> str:
    pods = {"type": "host-local", "ranges": [[{"subnet": pods_of(number)}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "ipMasq": False, "hairpinMode": True, "ipam": pods}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "ebbtide", "plugins": [bridge, ports]})


def kubelet(cgroup: str, folder: str) -> str:
    document: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "clusterDNS": [HOST],
        "clusterDomain": DOMAIN,
        "resolvConf": f"{folder}/resolv.conf",
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "64Mi", "nodefs.available": "100Mi"},
        "oomScoreAdj": 0,
        "syncFrequency": "10s",
    }
    return json.dumps(document)


def proxy(kubeconfig: str) -> str:
    untouched = {
        "maxPerCore": 0,
        "min": 0,
        "tcpEstablishedTimeout": "0s",
        "tcpCloseWaitTimeout": "0s",
        "udpTimeout": "0s",
        "udpStreamTimeout": "0s",
    }
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": PODS,
        "clientConnection": {"kubeconfig": kubeconfig},
        "conntrack": untouched,
        "oomScoreAdj": 0,
    }
    return json.dumps(document)
