"""Find the control plane's programs, or build them from public Go modules.

Each is searched in `KUBEBUILDER_ASSETS`, then on PATH, then in a cache outside the tree; one of another minor version
than the go.mod files pin, or that does not run, is skipped. The cache folder is named by the content of the go.mod and
go.sum files, so each version has its folder and the cache never has to be emptied.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from control_plane.plane.errors import MissingBinaries, first_error
from control_plane.plane.versions import Version, Versions, minor_of, required

__all__ = ["MissingBinaries", "binaries", "build", "cache_directory", "cache_root", "find", "how_to_get", "missing"]

MODULES = Path(__file__).parents[2]
PACKAGES: Mapping[str, tuple[str, str]] = {  # program: the module that requires it (a folder), and its package
    "etcd": ("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kwok": ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
}
ON_NODES: Mapping[str, tuple[str, str]] = {  # for real nodes only, so that other runs do not wait for their build
    "kubelet": ("kubernetes", "k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": ("kubernetes", "k8s.io/kubernetes/cmd/kube-proxy"),
}
WITH_NODES = {**PACKAGES, **ON_NODES}
RAY_OPERATOR = "ray-operator-v1.6.2"  # it reports no version, so its name does
OF_RAY: Mapping[str, tuple[str, str]] = {  # for tests with Ray
    RAY_OPERATOR: ("../ray", "github.com/ray-project/kuberay/ray-operator"),
}
KARPENTER = "karpenter-kwok-v1.14.1"  # named as above; its core, with machines that KWOK plays
OF_KARPENTER: Mapping[str, tuple[str, str]] = {  # for tests with Karpenter
    KARPENTER: ("../karpenter", "sigs.k8s.io/karpenter/kwok"),
}
PROMETHEUS, PROMTOOL, ALERTMANAGER = "prometheus-v3.7.3", "promtool-v3.7.3", "alertmanager-v0.28.1"  # as above
OF_MONITORING: Mapping[str, tuple[str, str]] = {  # for tests with a Prometheus
    PROMETHEUS: ("../prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
    PROMTOOL: ("../prometheus", "github.com/prometheus/prometheus/cmd/promtool"),
    ALERTMANAGER: ("../prometheus", "github.com/prometheus/alertmanager/cmd/alertmanager"),
}
OF_SERVING: Mapping[str, tuple[str, str]] = {  # for tests of served models, named as above
    "envoy-gateway-v1.9.1": ("../serving/envoy-gateway", "github.com/envoyproxy/gateway/cmd/envoy-gateway"),
    "keda-operator-v2.21.0": ("../serving/keda", "github.com/kedacore/keda/v2/cmd/operator"),
    "keda-adapter-v2.21.0": ("../serving/keda", "github.com/kedacore/keda/v2/cmd/adapter"),
    "metrics-server-v0.9.0": ("../serving/metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server"),
    **{
        f"vpa-{part}-v1.8.1": ("../serving/vpa", f"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/{part}")
        for part in ("recommender", "updater", "admission-controller")
    },
}
_BY_NAME = {**OF_RAY, **OF_KARPENTER, **OF_MONITORING, **OF_SERVING}
_TAGS: Mapping[str, str] = {"../prometheus": "remove_all_sd,enable_kubernetes_sd"}  # else it builds each cloud's SDK
_ALL = {**WITH_NODES, **_BY_NAME}
_PINNED = {"etcd": "go.etcd.io/etcd/server/v3", "kubernetes": "k8s.io/kubernetes", "kwok": "sigs.k8s.io/kwok"}
# Kubernetes gets its version from the build, and would report v0.0.0.
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_FLAGS = "-s -w"


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: Path
    source: str
    version: Version


def cache_directory() -> Path:
    """Return this content's folder in `cache_root()`."""
    content = hashlib.sha256(f"{sys.platform} {platform.machine()} {_FLAGS} {' '.join(_STAMPED)}".encode())
    for file in sorted(MODULES.glob("*/go.*")):
        content.update(f"\n{file.parent.name}/{file.name}\n".encode() + file.read_bytes())
    return cache_root() / "control-plane" / content.hexdigest()[:16]


def cache_root() -> Path:
    """Return `EBBTIDE_CACHE`, by default ~/.cache/ebbtide. Raises `MissingBinaries` without a home."""
    if root := os.environ.get("EBBTIDE_CACHE"):
        return Path(root).absolute()  # absolute, since Go builds in another folder
    try:
        return Path.home() / ".cache" / "ebbtide"
    except RuntimeError as error:
        raise MissingBinaries("control plane: no home folder for the cache: name a folder in EBBTIDE_CACHE") from error


def find(program: str) -> Path | None:
    """Return the program's path, or None if it has to be built."""
    if program in _BY_NAME:
        return _built(program)
    return next((candidate.path for candidate in _candidates(program) if _fits(program, candidate.version)), None)


def _built(program: str) -> Path | None:
    with suppress(MissingBinaries):
        path = cache_directory() / program
        return path if path.is_file() else None
    return None


def missing(programs: Iterable[str] = PACKAGES) -> list[str]:
    return [program for program in programs if find(program) is None]


def binaries(programs: Collection[str] = PACKAGES) -> dict[str, Path]:
    """Return every program's path. Raises `MissingBinaries`; building takes minutes and is a separate step."""
    paths = {program: path for program in programs if (path := find(program)) is not None}
    lacking = [program for program in programs if program not in paths]
    if lacking:
        raise MissingBinaries(how_to_get(lacking))
    return paths


def how_to_get(programs: Iterable[str]) -> str:
    lacking = ", ".join("; ".join((f"{name} {_version_of(name)}", *_skipped(name))) for name in programs)
    go = "" if shutil.which("go") else f"install Go {_go_wanted()} or later (https://go.dev/dl), "
    return (
        f"control plane: not found: {lacking}: {go}run `python tools/control-plane/build.py`, "
        "or name a folder that holds them in KUBEBUILDER_ASSETS"
    )


def module_files(program: str) -> Path:
    """Return the folder of the Go module that the program is in, such as for its CRDs; Go downloads it where it is not.

    Raises `MissingBinaries`.
    """
    module, package = _ALL[program]
    _require_go([program])
    done = _run(["go", "list", "-find", "-f", "{{.Module.Dir}}", package], MODULES / module)
    if done.returncode != 0:
        raise MissingBinaries(f"control plane: no files of the module of {program}: {first_error(done.stderr)}")
    return Path(done.stdout.strip())


def build(tell: Callable[[str], None], programs: Collection[str] = PACKAGES) -> None:
    """Build missing programs into the cache. Concurrent runs wait for each other. Raises `MissingBinaries`."""
    if not missing(programs):
        return
    _require_go(programs)
    folder = cache_directory()
    for program in missing(programs):
        with _locked(folder, _ALL[program][0]):
            if find(program) is not None:
                continue  # another run has built it
            for why in _skipped(program):
                tell(f"passed over: {why}")
            begun = time.monotonic()
            tell(f"building {program} (once, into {folder})")
            _build(program, folder)
            tell(f"built {program} in {time.monotonic() - begun:.0f} s")


# --- finding ----------------------------------------------------------------------------------------------------------


def _candidates(program: str) -> Iterator[_Candidate]:
    cache: Path | None = None
    with suppress(MissingBinaries):  # only building needs a home
        cache = cache_directory()
    versions = Versions(cache / "versions.json" if cache is not None else None)
    # kubectl knows no `--version`.
    arguments = ["version", "--client"] if program == "kubectl" else ["--version"]
    for source, folder in (
        ("KUBEBUILDER_ASSETS", os.environ.get("KUBEBUILDER_ASSETS")),
        ("PATH", os.environ.get("PATH")),
        ("the cache", str(cache) if cache is not None else None),
    ):
        path = shutil.which(program, path=folder) if folder else None
        if path is not None:
            yield _Candidate(Path(path), source, versions.of(Path(path), arguments))


def _fits(program: str, version: Version) -> bool:
    return version.minor == minor_of(_version_of(program))


def _version_of(program: str) -> str:
    """Return the pinned version, such as v1.36.3; another patch version is accepted too."""
    module, _ = _ALL[program]
    if program in _BY_NAME:
        return program.rpartition("-")[2]
    return required(MODULES / module / "go.mod", _PINNED[module])


def _skipped(program: str) -> list[str]:
    """Return the candidates that do not fit, with the reason."""
    if program in _BY_NAME:
        return []
    return [
        f"{candidate.path} (from {candidate.source}) "
        f"{'is ' if candidate.version.minor else ''}{candidate.version.description}"
        for candidate in _candidates(program)
    ]


# --- building ---------------------------------------------------------------------------------------------------------


def _go_wanted() -> str:
    return required(MODULES / "kubernetes" / "go.mod", "go")


def _require_go(programs: Iterable[str]) -> None:
    """Check Go's version in the module's folder, since an old Go may fetch a newer one by itself."""
    go = shutil.which("go")
    if go is None:
        raise MissingBinaries(how_to_get(missing(programs)))
    needed = f"control plane: Go {_go_wanted()} or later is needed (https://go.dev/dl); {go}"
    try:
        done = _run([go, "version"], MODULES / "kubernetes")
    except OSError as error:
        raise MissingBinaries(f"{needed} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        raise MissingBinaries(f"{needed} says: {first_error(done.stderr)}")
    if _go_number(done.stdout.partition(" go1.")[2]) < _go_number(_go_wanted().partition("1.")[2]):
        raise MissingBinaries(f"{needed} is {done.stdout.strip()}")


def _go_number(text: str) -> int:
    """Return 26 for "26.8 linux/amd64"."""
    digits = text.partition(" ")[0].partition(".")[0]
    return int(digits) if digits.isdecimal() else 0


def _build(program: str, folder: Path) -> None:
    """Build under a temporary name first, so that a partial build never looks finished."""
    module, package = _ALL[program]
    for partial in folder.glob(f".{program}.*"):  # of a killed build; this process has the lock
        partial.unlink(missing_ok=True)
    unfinished = folder / f".{program}.{os.getpid()}"
    tags = [f"-tags={_TAGS[module]}"] if module in _TAGS else []
    command = ["go", "build", *tags, "-trimpath", "-ldflags", _link_flags(program), "-o", str(unfinished), package]
    try:
        done = _run(command, MODULES / module)
        if done.returncode != 0:
            raise MissingBinaries(f"control plane: go build of {program} failed: {first_error(done.stderr)}")
        unfinished.rename(folder / program)
    except OSError as error:
        raise MissingBinaries(f"control plane: go build of {program} failed: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    if find(program) is None:
        raise MissingBinaries(f"control plane: what go build made does not fit: {how_to_get([program])}")


def _link_flags(program: str) -> str:
    module, _ = _ALL[program]
    if module != "kubernetes":
        return _FLAGS
    version = _version_of(program)
    major, minor = minor_of(version).split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join([_FLAGS, *(f"-X {package}.{key}={value}" for package in _STAMPED for key, value in values.items())])


def _run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "CGO_ENABLED": "0"}
    return subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )


@contextmanager
def _locked(folder: Path, module: str) -> Generator[None]:
    """Lock each module separately, so that a build of half an hour does not block others."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / f"lock-{module.replace('/', '-')}").open("w")
    except OSError as error:
        where = f"cannot write to the cache {folder}: {error.strerror}"
        raise MissingBinaries(f"control plane: {where}; name another folder in EBBTIDE_CACHE") from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # released with the process, however it ends
        yield
