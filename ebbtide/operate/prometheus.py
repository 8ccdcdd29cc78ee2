"""Connect to the Prometheus that watches a stack: at an address, or through the API server's proxy.

The proxy uses the operator's own rights. A Prometheus under another path or Service needs an address.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from controllers.adapters.kube_api import ApiError
from ebbtide.monitoring.client import Prometheus
from ebbtide.monitoring.links import HttpLink, Link, NoReply, Reply
from ebbtide.operate.api import CannotOperate, OperatorApi, connect
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.monitoring import OPERATED_SERVICE, PROMETHEUS, PROMETHEUS_PORT, PrometheusKind
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.labels import NAMESPACE

_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):\s+(\S.*)")
_TIMEOUT = timedelta(seconds=20)  # for a day of a large cluster


class ProxyLink:
    """Link through the API server; requires `get` on `services/proxy`."""

    def __init__(self, api: OperatorApi, namespace: str, service: str) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/services/{service}:{PROMETHEUS_PORT}/proxy/api/v1"
        self.where = f"Prometheus behind the service {namespace}/{service}"

    def get(self, path: str, query: Mapping[str, object]) -> Reply:
        try:
            document = self._api.get(f"{self._path}/{path}", **{key: str(value) for key, value in query.items()})
        except ApiError as error:
            raise NoReply(f"{collapsed(error)}{_ADVICE.get(error.status, '')}") from error
        ahead = self._api.clock_ahead  # the proxy forwards Prometheus' own Date header
        return Reply(document, None if ahead is None else datetime.now(UTC) + ahead)


_ADVICE = {
    403: " (HTTP 403): an administrator can allow `get` on services/proxy; or give its address: --prometheus URL",
    404: ": is it there under this name? or give its address: --prometheus URL",
}


def prometheus_of(
    settings: StackSettings, url: str, token_file: Path | None, context: str | None, kubeconfig: str | None
) -> Prometheus:
    """Return the Prometheus at `url`, which needs no cluster, or else the stack's own. Raises `CannotOperate`."""
    link = named_link(url, token_file) if url else None
    if not url and settings.monitoring.prometheus is not PrometheusKind.NONE:
        link = link_of(settings, connect(kubeconfig, context or settings.cluster.context))
    if link is None:
        message = "has no Prometheus: wanted monitoring.prometheus in its file, or --prometheus URL"
        raise CannotOperate(f"{settings.customer} {message}", 2)
    return Prometheus(link, settings.customer, lambda: datetime.now(UTC))


def link_of(settings: StackSettings, api: OperatorApi) -> Link | None:
    """Return the link to the stack's own Prometheus; None if it has none."""
    monitoring = settings.monitoring
    if monitoring.prometheus is PrometheusKind.NONE:
        return None
    if monitoring.prometheus is PrometheusKind.BUNDLED:
        return ProxyLink(api, NAMESPACE, PROMETHEUS)
    return ProxyLink(api, str(monitoring.namespace), OPERATED_SERVICE)


def named_link(url: str, token_file: Path | None) -> Link:
    """Return the link to an address. Raises `CannotOperate` for an invalid address or token file."""
    try:
        return HttpLink(url, headers=_headers(token_file), timeout=_TIMEOUT)
    except ValueError as error:
        raise CannotOperate(f"--prometheus: {error}", 2) from error


def _headers(file: Path | None) -> Mapping[str, str]:
    """Read a file with one token, or with one header per line."""
    if file is None:
        return {}
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise CannotOperate(f"the token of Prometheus: {file}: {collapsed(error)}", 2) from error
    sound = all(line.isascii() and line.isprintable() for line in lines)
    headers = [_HEADER.fullmatch(line) for line in lines]
    if sound and len(lines) == 1 and headers == [None]:
        return {"Authorization": f"Bearer {lines[0]}"}
    if not sound or not lines or None in headers:
        expected = "wanted one line with a token, or headers (for example X-Scope-OrgID: acme)"
        raise CannotOperate(f"the token of Prometheus: {file}: {expected}", 2)
    return {match[1]: match[2] for match in headers if match is not None}
