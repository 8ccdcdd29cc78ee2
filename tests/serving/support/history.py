"""A Prometheus of the site that remembers days which nobody lived through."""

import subprocess
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

from control_plane.plane.binaries import PROMTOOL, binaries

from controllers.adapters.kube_api import MERGE_PATCH, Json
from ebbtide.vocabulary.labels import NAMESPACE
from tests.serving.support.parts import PARTS
from tests.serving.support.site import Serving

Samples = Iterable[tuple[float, float]]
"""Unix time and value, in order."""
_OWN_PATH = "--storage.tsdb.path=/data"


def write_blocks(folder: Path, series: Mapping[str, Samples]) -> Path:
    """Of gauges, by name and labels."""
    lines: list[str] = []
    for name, samples in series.items():
        lines.append(f"# TYPE {name.partition('{')[0]} gauge")
        lines += [f"{name} {value!r} {at:.3f}" for at, value in samples]
    (folder / "history.txt").write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
    promtool = str(binaries([PROMTOOL])[PROMTOOL])
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", "history.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "data"


@contextmanager
def remembering(serving: Serving, data: Path) -> Generator[None]:
    """Prometheus keeps what it has in this folder, in place of one that goes with its pod."""
    with _arguments(serving, {_OWN_PATH: f"--storage.tsdb.path={data}"}):
        yield


@contextmanager
def _arguments(serving: Serving, others: Mapping[str, str]) -> Generator[None]:
    ((space, name, _),) = PARTS["prometheus"]
    assert space == NAMESPACE
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
    (container,) = serving.plane.api.get(path)["spec"]["template"]["spec"]["containers"]
    own = container["args"]

    def with_arguments(args: list[str]) -> None:
        serving.away("prometheus")
        template: Json = {"spec": {"containers": [{**container, "args": args}]}}
        serving.plane.api.patch(path, {"spec": {"template": template}}, MERGE_PATCH)
        serving.back("prometheus")

    with_arguments([others.get(word, word) for word in own])
    try:
        yield
    finally:
        with_arguments(own)
