"""Build the control plane's programs into the cache: `python tools/control-plane/build.py`. Needs Go, once.

`--monitoring` adds Prometheus and Alertmanager. `--serving` adds those and the programs that scale and route served
models, half an hour's work on two cores. `--ray` adds KubeRay's operator, `--karpenter` Karpenter with KWOK's machines.
`--nodes` adds KubeRay's operator and what real nodes need: kubelet, kube-proxy and images. If nodes cannot run, one
line says why. With `--no-ray` they come without KubeRay's operator and Ray's image.
"""

import sys

from control_plane.plane.binaries import (
    OF_KARPENTER,
    OF_MONITORING,
    OF_RAY,
    OF_SERVING,
    PACKAGES,
    WITH_NODES,
    binaries,
    build,
)
from control_plane.plane.errors import ControlPlaneError


def main(arguments: list[str]) -> int:
    with_nodes = "--nodes" in arguments
    nodes_have_ray = with_nodes and "--no-ray" not in arguments
    with_ray = nodes_have_ray or "--ray" in arguments
    with_serving = "--serving" in arguments
    with_monitoring = with_serving or "--monitoring" in arguments
    programs = (
        *(WITH_NODES if with_nodes else PACKAGES),
        *(OF_RAY if with_ray else ()),
        *(OF_KARPENTER if "--karpenter" in arguments else ()),
        *(OF_MONITORING if with_monitoring else ()),
        *(OF_SERVING if with_serving else ()),
    )
    try:
        if with_nodes and (why := _why_no_nodes()):
            print(why)  # the tests print it too, and skip
            return 0
        build(_tell, programs)
        for program, path in binaries(programs).items():
            print(f"{program:24} {path}")
        if with_nodes:
            _build_images(with_ray=nodes_have_ray)
    except ControlPlaneError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: what was built stays, the rest is built next time", file=sys.stderr)
        return 130
    return 0


def _why_no_nodes() -> str:
    from control_plane.nodes import host

    lacking = host.missing()
    return host.one_line(lacking) if lacking else ""


def _build_images(*, with_ray: bool) -> None:
    """Build the images. Imported here, since only their names need Ebbtide's settings."""
    from control_plane.nodes.images import building, store

    names = () if with_ray else building.WITHOUT_RAY
    building.build(_tell, names)
    archives = building.archives(names)
    store.prepare(_tell, archives)
    for name, archive in archives.items():
        print(f"{name:24} {archive}")


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
