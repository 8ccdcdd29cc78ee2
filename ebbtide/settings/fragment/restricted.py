"""Fields of a fragment that the Pod Security level `restricted` refuses. Otherwise the API server would, during an
`up`.

Fields that the level requires may be missing: Ebbtide's own security contexts set them.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ebbtide.settings.file.problems import Location, value_at
from ebbtide.settings.fragment.values import containers, entries_of, inside, items, mapping, name_of

Refused: TypeAlias = tuple[Location, object, str]
"""Location, value, and what would be accepted."""

_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
        *("persistentVolumeClaim", "projected", "secret"),
    }
)
_SYSCTLS = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_syncookies"),
        *("net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"),
        *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    }
)
_HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
# Fields of a security context: the values that the level accepts, and the text for a refused one.
_ONLY: Mapping[str, tuple[tuple[object, ...], str]] = {
    "privileged": ((False,), "no privileged container"),
    "allowPrivilegeEscalation": ((False,), "no privilege escalation"),
    "runAsNonRoot": ((True,), "no container that runs as root"),
    "procMount": (("Default",), "the default /proc"),
}
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")


def restricted_findings(fragment: object) -> Iterator[Refused]:
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        value = mapping(fragment).get(key, False)
        if value is not False:
            yield (key,), value, "no namespace of the node"
    if (system := value_at(fragment, ("os", "name"))) not in (None, "linux"):
        yield ("os", "name"), system, "Linux, which Ebbtide's nodes run"
    yield from _volumes(fragment)
    yield from _context(mapping(fragment).get("securityContext"), ("securityContext",))
    for at, container in containers(fragment):
        yield from _context(container.get("securityContext"), (*at, "securityContext"))
        yield from _reaching_the_node(container, at)


def _volumes(fragment: object) -> Iterator[Refused]:
    for at, volume in entries_of(fragment, "volumes"):
        for kind in volume.keys() - _VOLUMES - {"name"}:
            yield (*at, kind), volume[kind], f"a volume of {', '.join(sorted(_VOLUMES))}"


def _context(context: object, at: Location) -> Iterator[Refused]:
    fields = mapping(context)
    for key, (right, expected) in _ONLY.items():
        if key in fields and fields[key] not in right:
            yield (*at, key), fields[key], expected
    if fields.get("runAsUser") == 0:
        yield (*at, "runAsUser"), 0, "a user that is not root"
    for key in ("seccompProfile", "appArmorProfile"):
        if (kind := value_at(fields, (key, "type"))) == "Unconfined":
            yield (*at, key, "type"), kind, "RuntimeDefault or Localhost"
    for index, name in enumerate(items(value_at(fields, ("capabilities", "add")))):
        if name != "NET_BIND_SERVICE":
            yield (*at, "capabilities", "add", index), name, "no capability but NET_BIND_SERVICE"
    for index, sysctl in entries_of(fields, "sysctls"):
        if name_of(sysctl) not in _SYSCTLS:
            yield (*at, *index, "name"), sysctl.get("name"), "a safe sysctl"
    yield from _labels(fields, at)


def _labels(context: Mapping[str, object], at: Location) -> Iterator[Refused]:
    options = mapping(context.get("seLinuxOptions"))
    for key in ("user", "role"):
        if options.get(key):
            yield (*at, "seLinuxOptions", key), options[key], f"no SELinux {key}"
    if options.get("type", "") not in _SELINUX_TYPES:
        yield (*at, "seLinuxOptions", "type"), options["type"], f"one of {', '.join(filter(None, _SELINUX_TYPES))}"
    if "windowsOptions" in context:
        yield (*at, "windowsOptions"), context["windowsOptions"], "no Windows options"


def _reaching_the_node(container: Mapping[str, object], at: Location) -> Iterator[Refused]:
    for port_at, port in entries_of(container, "ports"):
        if port.get("hostPort", 0) != 0:
            yield (*at, *port_at, "hostPort"), port["hostPort"], "no port of the node"
    for handler in _HANDLERS:
        for inner, key, value in inside(container.get(handler), (*at, handler)):
            if key == "host" and value:
                yield (*inner, key), value, "a probe of the pod itself"
