"""The platform under examples/, and the pods that its notebook hub starts."""

from collections import defaultdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

from ebbtide.settings import StackSettings, load_stack
from tests.paths import ROOT

Json: TypeAlias = dict[str, Any]

FOLDER = ROOT / "examples" / "labelling-platform"
STACK_FILE = FOLDER / "Pulumi.labelling.yaml"
README = FOLDER / "README.md"
HUB_CONF = FOLDER / "conf" / "jupyterhub_config.py"


@cache
def example() -> StackSettings:
    return load_stack(str(STACK_FILE))


def hub_conf(file: Path = HUB_CONF) -> SimpleNamespace:
    """What the hub's configuration says to its spawner, run as JupyterHub runs it."""
    said: defaultdict[str, SimpleNamespace] = defaultdict(SimpleNamespace)

    class Config:
        def __getattr__(self, name: str) -> SimpleNamespace:
            return said[name]

    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), {"get_config": Config})
    return said["KubeSpawner"]


def notebook(name: str) -> Json:
    """A pod as KubeSpawner makes it of that configuration: `make_pod` in kubespawner/objects.py, 7.0."""
    conf = hub_conf()
    context = {"runAsUser": conf.uid, "runAsGroup": conf.gid, **conf.container_security_context}
    requests = {"cpu": str(conf.cpu_guarantee), "memory": f"{conf.mem_guarantee}i"}  # its G is 2**30
    container: Json = {
        "name": "notebook",
        "image": conf.image,
        "ports": [{"name": "notebook-port", "containerPort": 8888}],
        "resources": {"requests": requests, "limits": {"memory": f"{conf.mem_limit}i"}},
        "securityContext": context,
    }
    spec: Json = {
        "automountServiceAccountToken": False,
        "restartPolicy": "OnFailure",
        "nodeSelector": conf.node_selector,
        "securityContext": conf.pod_security_context,
        "containers": [container],
    }
    labels = {"component": "singleuser-server", "hub.jupyter.org/username": name, **conf.extra_labels}
    return {"metadata": {"name": name, "namespace": conf.namespace, "labels": labels}, "spec": spec}
