"""Fragments of PodSpecs for tests: further containers, and a strategy for fragments that people may write."""

from typing import Any

from hypothesis import strategies as st

EMPTY: dict[str, Any] = {}
SMALL = {"requests": {"cpu": "50m", "memory": "64Mi"}}


def container(name: str = "shipper", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "example.com/shipper:1", "resources": SMALL, **fields}


def native_sidecar(name: str = "shipper", **fields: Any) -> dict[str, Any]:
    return container(name, restartPolicy="Always", **fields)


_names = st.sampled_from(["shipper", "proxy"])


def _some(mapping: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(mapping, optional=optional or {})


def _rarely(usual: Any, other: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([*[usual] * 7, other])


_keys = st.sampled_from(
    ["example.com/disk", "example.com/rack", "app", "nvidia.com/gpu", "ebbtide.dev/node-kind", "ebbtide.dev/category"]
)
_labels = st.dictionaries(_keys, st.sampled_from(["ssd", "flexible", "true"]), min_size=1, max_size=1)
_term = _some({"labelSelector": _some({"matchLabels": _labels}), "topologyKey": st.just("kubernetes.io/hostname")})
_terms = _some(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(_term, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            _some({"weight": st.integers(1, 100), "podAffinityTerm": _term}), max_size=2
        ),
    },
)
_toleration = _some(
    {"operator": st.just("Equal"), "key": _keys},
    optional={"value": st.just("true"), "effect": st.sampled_from(["NoSchedule", "NoExecute"])},
)
_context = _some(
    {},
    optional={
        "privileged": _rarely(False, True),
        "readOnlyRootFilesystem": st.booleans(),
        "runAsUser": _rarely(2000, 0),
        "capabilities": _some({}, optional={"add": st.just(["NET_BIND_SERVICE"]), "drop": st.just(["NET_RAW"])}),
    },
)
_container = _some(
    {"name": _names, "image": st.just("example.com/shipper:1"), "resources": _rarely(SMALL, {})},
    optional={
        "securityContext": _context,
        "tty": st.booleans(),
        "volumeMounts": st.just([{"name": "models", "mountPath": "/models"}]),
    },
)


_BREAKING: dict[str, Any] = {
    "terminationGracePeriodSeconds": 5,
    "shareProcessNamespace": False,
    "priorityClassName": "system-node-critical",
    "hostNetwork": True,
    "nodeName": "ip-10-0-0-1",
}


def _name(entry: dict[str, Any]) -> str:
    return str(entry["name"])


def _is_before(each: dict[str, Any], stays: bool) -> dict[str, Any]:
    return {**each, "name": f"{each['name']}-0", **({"restartPolicy": "Always"} if stays else {})}


_before = st.builds(_is_before, _container, st.booleans())


@st.composite
def fragments(draw: st.DrawFn, main: str) -> dict[str, Any]:
    """Plausible ones; many of them break a promise."""
    of_main = _some({"name": st.just(main)}, optional={"workingDir": st.just("/srv"), "securityContext": _context})
    volume = st.sampled_from([{"emptyDir": {}}, {"csi": {"driver": "secrets-store.csi.k8s.io"}}])
    given = draw(
        _some(
            {"volumes": volume.map(lambda kind: [{"name": "models", **kind}])},
            optional={
                "affinity": _some({}, optional={"podAffinity": _terms, "podAntiAffinity": _terms}),
                "containers": st.lists(st.one_of(of_main, of_main, _container), max_size=2, unique_by=_name),
                "dnsPolicy": st.sampled_from(["ClusterFirst", "Default"]),
                "hostAliases": st.just([{"ip": "10.0.0.9", "hostnames": ["licences.example.com"]}]),
                "initContainers": st.lists(_before, max_size=2, unique_by=_name),
                "nodeSelector": _labels,
                "securityContext": _some({}, optional={"runAsUser": _rarely(2000, 0)}),
                "tolerations": st.lists(_toleration, max_size=2),
            },
        )
    )
    breaking = draw(st.sampled_from([*[None] * 10, *_BREAKING]))
    return given if breaking is None else {**given, breaking: _BREAKING[breaking]}
