"""The cluster of a command: the options that select it, and one line for each failure."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.console import fail
from ebbtide.cli.options import Context, Kubeconfig
from ebbtide.monitoring.client import Prometheus
from ebbtide.operate.api import CannotOperate, OperatorApi, connect, failure_text
from ebbtide.operate.prometheus import link_of, named_link
from ebbtide.settings import StackSettings
from ebbtide.vocabulary.labels import NAMESPACE

__all__ = ["NAMESPACE", "Context", "Kubeconfig", "Namespace", "Url", "cluster", "reported", "watching"]

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="The controller's namespace.")]
_URL_HELP = "Address of the controller; default: through the API server."
Url = Annotated[str, typer.Option("--url", envvar="EBBTIDE_CONTROLLER_URL", help=_URL_HELP)]


@contextmanager
def cluster(kubeconfig: str | None, context: str | None) -> Generator[OperatorApi]:
    """Yield the API server; a refused or impossible request ends the command with one line."""
    try:
        api = connect(kubeconfig, context)
    except CannotOperate as error:
        fail(error, code=error.code)
    with reported(api):
        yield api


@contextmanager
def watching(
    settings: StackSettings, url: str, token_file: Path | None, context: str | None, kubeconfig: str | None
) -> Generator[Prometheus]:
    """Yield the Prometheus at `url`, which takes no cluster, else the stack's own; end the command without one."""
    if url:
        try:
            link = named_link(url, token_file)
        except CannotOperate as error:
            fail(error, code=error.code)
        yield Prometheus(link, settings.customer, lambda: datetime.now(UTC))
        return
    with cluster(kubeconfig, context or settings.cluster.context) as api:
        link = link_of(settings, api)
        if link is None:
            message = "has no Prometheus: wanted monitoring.prometheus in its file, or --prometheus URL"
            raise CannotOperate(f"{settings.customer} {message}", 2)
        yield Prometheus(link, settings.customer, lambda: datetime.now(UTC))


@contextmanager
def reported(api: OperatorApi) -> Generator[None]:
    try:
        yield
    except CannotOperate as error:
        fail(error, code=error.code)
    except ApiError as error:
        fail(failure_text(api, error))
