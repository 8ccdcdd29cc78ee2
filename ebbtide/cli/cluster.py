"""The cluster of a command: the options that select it, and one line for each failure."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.console import fail
from ebbtide.cli.options import Context, Kubeconfig
from ebbtide.monitoring.client import Prometheus
from ebbtide.operate.api import CannotOperate, OperatorApi, connect, failure_text
from ebbtide.operate.prometheus import prometheus_of
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


def watching(
    settings: StackSettings, url: str, token_file: Path | None, context: str | None, kubeconfig: str | None
) -> Prometheus:
    """Return the Prometheus at `url`, which needs no cluster, or else the stack's own; end the command without one."""
    try:
        return prometheus_of(settings, url, token_file, context, kubeconfig)
    except CannotOperate as error:
        fail(error, code=error.code)


@contextmanager
def reported(api: OperatorApi) -> Generator[None]:
    try:
        yield
    except CannotOperate as error:
        fail(error, code=error.code)
    except ApiError as error:
        fail(failure_text(api, error))
