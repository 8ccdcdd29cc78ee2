"""A control plane that passes requests on to API servers and webhooks that run as pods, as a cluster's does."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from control_plane.plane.driver import ControlPlane
from control_plane.plane.mode import Mode

from ebbtide.vocabulary.labels import NODE_GROUP, NODE_KIND
from tests.serving.support.network import HOST

_SIZES = {"fixed": 2, "flexible": 3, "gpu": 1, "spot": 2}
NODES = [f"{kind}-{n}" for kind, number in _SIZES.items() for n in range(number)]
_WHO = "front-proxy-client"
_BY_KWOK = "played-by-kwok"  # nodes: it renews their leases, and its selector is of nodes and pods alike


@contextmanager
def plane(folder: Path) -> Generator[ControlPlane]:
    """With nodes whose pods nobody plays yet: `Kubelet` does."""
    authority, certificate, key = _front_proxy(folder)
    mode = Mode(
        host=HOST,
        access=("--authorization-mode=RBAC",),
        api_server=(
            f"--requestheader-client-ca-file={authority}",
            f"--requestheader-allowed-names={_WHO}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={certificate}",
            f"--proxy-client-key-file={key}",
            "--enable-aggregator-routing=true",  # to pods, since the API server plays no Services
        ),
        manager=(
            "--service-account-private-key-file={folder}/accounts.key",
            "--root-ca-file={folder}/certificates/apiserver.crt",
        ),
    )
    with ControlPlane(mode=mode, hands_off=f"!{_BY_KWOK}") as made:
        for kind, number in _SIZES.items():
            for n in range(number):
                labels = {
                    _BY_KWOK: "",
                    NODE_KIND: kind,
                    NODE_GROUP: kind,
                    "topology.kubernetes.io/zone": f"zone-{'abc'[n % 3]}",
                }
                made.add_node(f"{kind}-{n}", labels=labels, cpu=64, memory="256Gi", gpu=8 if kind == "gpu" else 0)
        yield made


def _front_proxy(folder: Path) -> tuple[Path, Path, Path]:
    """An authority and the certificate by which the API server says who it is: of this folder alone."""
    authority, certificate, key = folder / "front-ca.crt", folder / "front.crt", folder / "front.key"
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    _openssl(
        "req", "-x509", *new, "-keyout", f"{folder}/front-ca.key", "-out", str(authority), "-subj", "/CN=front-proxy"
    )
    _openssl("req", *new, "-keyout", str(key), "-out", f"{folder}/front.csr", "-subj", f"/CN={_WHO}")
    signed_by = ["-CA", str(authority), "-CAkey", f"{folder}/front-ca.key", "-CAcreateserial"]
    extensions = folder / "front.ext"
    extensions.write_text("extendedKeyUsage=clientAuth\n")
    _openssl(
        "x509", "-req", "-in", f"{folder}/front.csr", *signed_by, "-out", str(certificate), "-extfile", str(extensions)
    )
    return authority, certificate, key


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
