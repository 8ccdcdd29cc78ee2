"""Pod sections from a seed: what docs/reference/pods.md offers, in unlikely combinations, legal and not.

Some values lie on purpose at or just beyond a border: whether `check` takes them is the question.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

_ENV_NAMES = ("LOG_LEVEL", "_x", "a.b-c", "PORT", "1X", "A B", "Ä", "A=B", "")
_NAMES = ("db-login", "a", "flags.v1", "DB", "-a", "a_b", "x" * 253, "x" * 254)
_KEYS = ("password", ".env", "a/b", "A_b-1.c", "..", "x" * 253)
_FIELDS = ("metadata.name", "status.podIP", "metadata.labels['team']", "spec.image", "metadata.labels", "status.phase")
_PORT_NAMES = ("http", "metrics", "a-1", "grpc", "8080", "HTTP", "a--b", "x" * 15, "x" * 16)
_PORT_NUMBERS = (1, 80, 8080, 9090, 65535, 0, 65536)
_PATHS = ("/data", "/var/lib/x", "/a/b/", "/a b", "relative", "/a:b", "/x/../y", "/dev/shm", "/ü")
_VOLUMES = ("cache", "data", "c0", "a-b", "A", "a.b", "x" * 63, "x" * 64, "shm")
_SIZES = ("1Gi", "512Mi", "10G", "1.5Gi", "0")
_LABEL_KEYS = ("team", "example.com/team", "a/b/c", "-a", "x" * 63, "x" * 64, "app.kubernetes.io/part-of")
_LABEL_VALUES = ("search", "", "a b", "A_1.b", "-x", "x" * 63, "x" * 64)
_PROBE_PATHS = ("/healthz", "/a?b=c", "healthz", "/")
_INTERVALS = ("1h", "12h", "24h", "5h", "1d", "0h", "48h")
_GPUS: tuple[Any, ...] = (
    *(1, {"count": 1}, {"memory": "16Gi"}),
    *({"resource": "gpu"}, {"resource": "a..com/gpu"}, {"resource": "requests.a.com/gpu"}, {"count": -1}),
)
_DURATIONS = ("1s", "5s", "10s", "90s", "2m", "0s")


def pod_section(seed: int) -> dict[str, Any]:
    """Keys of a pod section besides image, cpu and memory; the same for the same seed.

    Two seeds of three have one value from the far end of its list, and no more: what check says is about that one.
    """
    sound = _Draft(Random(seed))
    section = sound.section()
    bold = Random(seed).choice((None, *[sound.picks - 1] * 2))
    return section if bold is None else _Draft(Random(seed), bold=Random(seed).randint(0, bold)).section()


def sound_section(seed: int) -> dict[str, Any]:
    """One that is legal wherever its own keys are: see `fitted` for what a kind of pod refuses."""
    return _Draft(Random(seed)).section()


def fitted(section: dict[str, Any], *, serves: bool = True, claims: bool = False) -> dict[str, Any]:
    """Without what depends on the pod's size, and without what its kind refuses: a readiness probe where nothing
    serves, disks of its own where the pods keep no names, a priority where it is not given freely.
    """
    kept = {key: section[key] for key in section if key not in ("gpu", "limits", "shm", "ephemeralStorage", "priority")}
    if not serves:
        kept["probes"] = {kind: probe for kind, probe in kept.get("probes", {}).items() if kind != "readiness"}
    if not claims:
        kept["volumes"] = {name: it for name, it in kept.get("volumes", {}).items() if "perPod" not in it}
    return {key: value for key, value in kept.items() if value not in ({}, [])}


class _Draft:
    """`picks` counts the choices that were made; the one numbered `bold` is from the far end of its list."""

    def __init__(self, random: Random, bold: int | None = None) -> None:
        self.random = random
        self.bold = bold
        self.picks = 0
        self.ports: dict[str, int] = {}

    def section(self) -> dict[str, Any]:
        self.ports = dict(zip(self.some(_PORT_NAMES, sound=4), self.some(_PORT_NUMBERS, sound=5), strict=False))
        named = {"ports": self.ports} if self.ports else {}
        return named | self.maybe(
            command=lambda: ["python", "-m", "api"],
            args=lambda: ["--workers=4", "$(HOME)"],
            env=lambda: {name: self.variable() for name in self.some(_ENV_NAMES, sound=4)},
            envFrom=lambda: [self.env_source() for _ in range(self.random.randint(1, 2))],
            probes=lambda: self.maybe(readiness=self.probe, liveness=self.probe, startup=self.probe),
            limits=self.limits,
            ephemeralStorage=lambda: self.pick(_SIZES, sound=4),
            shm=lambda: self.pick(("1Gi", "512Mi", "64Gi"), sound=2),
            volumes=lambda: {name: self.volume(n) for n, name in enumerate(self.some(_VOLUMES, sound=4))},
            priority=lambda: self.pick((1, 1000, 0, -5), sound=2),
            user=lambda: self.pick((1000, 999, 65534, 0), sound=3),
            writableRoot=lambda: False,
            labels=lambda: {key: self.pick(_LABEL_VALUES, sound=2) for key in self.some(_LABEL_KEYS, sound=2)},
            annotations=lambda: dict.fromkeys(self.some(_LABEL_KEYS, sound=2), "any: text"),
            gpu=lambda: deepcopy(self.pick(_GPUS, sound=3)),  # one mapping in two places would be an alias in YAML
        )

    def limits(self) -> dict[str, Any]:
        return self.maybe(
            cpu=lambda: self.pick((2, "1500m", "500m"), sound=2),
            memory=lambda: self.pick(("4Gi", "2Gi", "1Gi"), sound=2),
        )

    def variable(self) -> object:
        kind = self.random.choice(("value", "secret", "configMap", "field"))
        if kind == "value":
            return "plain text"
        if kind == "field":
            return {"field": self.pick(_FIELDS, sound=3)}
        return {kind: self.pick(_NAMES, sound=3), "key": self.pick(_KEYS, sound=2)}

    def env_source(self) -> dict[str, Any]:
        kind = self.random.choice(("secret", "configMap"))
        prefix = self.maybe(prefix=lambda: self.pick(_ENV_NAMES, sound=3))
        return {kind: self.pick(_NAMES, sound=3), **prefix}

    def probe(self) -> dict[str, Any]:
        kind = self.random.choice(("http", "tcp", "grpc", "exec")) if self.ports else "exec"
        way: dict[str, Any] = {"exec": ["cat", "/etc/ok"]}
        if kind != "exec":
            port = self.pick((*self.ports, *self.ports.values(), "nowhere", 1234), sound=2 * len(self.ports))
            way = {"http": self.pick(_PROBE_PATHS, sound=2), "port": port} if kind == "http" else {kind: port}
        return way | self.maybe(
            every=lambda: self.pick(_DURATIONS, sound=5),
            timeout=lambda: "1s",
            failures=lambda: self.pick((1, 3, 0), sound=2),
        )

    def volume(self, number: int) -> dict[str, Any]:
        at = self.pick((_PATHS[number], *_PATHS), sound=1)
        kind = self.random.choice(("scratch", "perPod", "claim", "secret", "configMap", "files"))
        if kind == "files":
            return {"at": at, "files": dict.fromkeys(self.some(_KEYS, sound=2, least=1), "text: ü\n")}
        sizes = kind in ("scratch", "perPod")
        more = {
            "perPod": self.disk,
            "claim": lambda: self.maybe(readOnly=lambda: True),
        }
        given = self.pick(_SIZES, sound=4) if sizes else self.pick(_NAMES, sound=3)
        return {"at": at, kind: given, **more.get(kind, dict)()}

    def disk(self) -> dict[str, Any]:
        if self.random.random() < 0.5:
            return self.maybe(**{"class": lambda: self.pick(_NAMES, sound=3)})
        every, keep = self.pick(_INTERVALS, sound=3), self.pick((1, 7, 1000, 0, 1001), sound=3)
        return {"snapshots": {"every": every, "keep": keep}}

    def pick(self, choices: Sequence[Any], *, sound: int) -> Any:
        """One of the first `sound` choices, or of the others where this is the bold pick."""
        bold = self.picks == self.bold and len(choices) > sound
        self.picks += 1
        at = self.random.random()  # one draw, so that the bold section is otherwise the sound one
        return choices[sound + int(at * (len(choices) - sound))] if bold else choices[int(at * sound)]

    def some(self, choices: Sequence[Any], *, sound: int, least: int = 0) -> list[Any]:
        return list(dict.fromkeys(self.pick(choices, sound=sound) for _ in range(self.random.randint(least, 3))))

    def maybe(self, **values: Callable[[], Any]) -> dict[str, Any]:
        """Each with even odds, and nothing empty."""
        drawn = {key: value() for key, value in values.items() if self.random.random() < 0.5}
        return {key: value for key, value in drawn.items() if value not in ({}, [])}
