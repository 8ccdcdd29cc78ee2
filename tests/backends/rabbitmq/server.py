"""Debian's RabbitMQ on loopback. Each server has its own node name, ports and directory."""

import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from socket import create_connection
from typing import Any, cast
from urllib.parse import quote

from ebbtide.demo.embedded import HOST, EmbeddedServer, free_port
from ebbtide.vocabulary.controller_config import BrokerEndpoint
from tests.builders.redis import wait_until
from tests.redis_faults.redis_server import Certificates

PROGRAMS = Path("/usr/lib/rabbitmq/bin")  # those on PATH are for root, and change to the user of the system's broker
READER, PASSWORD = "reader", "r"
_PLAIN = """
listeners.tcp.1 = {host}:{amqp}
management.tcp.ip = {host}
management.tcp.port = {management}
"""
_ENCRYPTED = """
listeners.tcp = none
listeners.ssl.1 = {host}:{amqp}
ssl_options.cacertfile = {files.authority}
ssl_options.certfile = {files.certificate}
ssl_options.keyfile = {files.key}
management.ssl.ip = {host}
management.ssl.port = {management}
management.ssl.cacertfile = {files.authority}
management.ssl.certfile = {files.certificate}
management.ssl.keyfile = {files.key}
"""


class NoRabbit(RuntimeError):
    """No broker could be started; the message is one line."""


def missing_parts() -> str:
    """Return what this machine lacks, in one line; "" if nothing."""
    if (PROGRAMS / "rabbitmq-server").exists() and shutil.which("openssl"):
        return ""
    return "no RabbitMQ or OpenSSL: apt-get install --no-install-recommends rabbitmq-server openssl"


class Gone(AssertionError):
    """The broker does not have it."""


class Rabbit(EmbeddedServer):
    """A broker from `with` to its end. It keeps its messages over `restart`.

    `settings` are terms of Erlang for the application `rabbit`. With `certificates`, for the name localhost, both ports
    speak TLS only.
    """

    name, failed, start_limit = "RabbitMQ", NoRabbit, 90.0

    def __init__(self, settings: str = "", certificates: Certificates | None = None) -> None:
        super().__init__()
        self._settings, self._certificates = settings, certificates
        self.management_port = self._epmd_port = self._dist_port = 0
        self._environment: dict[str, str] = {}
        self._arguments: Sequence[str] = ()

    def _choose_port(self) -> int:
        if lacking := missing_parts():
            raise NoRabbit(lacking)
        self.management_port, self._epmd_port, self._dist_port = free_port(), free_port(), free_port()
        return free_port()

    def _command(self, directory: Path) -> Sequence[str]:
        form = _PLAIN if self._certificates is None else _ENCRYPTED
        text = form.format(host=HOST, amqp=self.port, management=self.management_port, files=self._certificates)
        (directory / "rabbitmq.conf").write_text(text)
        (directory / "advanced.config").write_text(f"[{{rabbit, [{self._settings}]}}].")
        (directory / "enabled_plugins").write_text("[rabbitmq_management].")
        self._environment = {
            "HOME": str(directory),  # for the cookie
            "RABBITMQ_NODENAME": f"rabbit-{self.port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "logs"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": HOST,
            # One scheduler that does not spin: tests share few cores.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        }
        pairs = [f"{name}={value}" for name, value in self._environment.items()]
        self._arguments = ("env", *pairs, str(PROGRAMS / "rabbitmq-server"))
        return self._arguments

    def _answers(self) -> bool:
        with suppress(OSError, HTTPException, AssertionError):
            self.call("GET", "/api/healthchecks/node")
            create_connection((HOST, self.port), 1).close()  # AMQP comes after the management API
            return True
        return False

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{HOST}:{self.port}//"

    def version(self) -> tuple[int, ...]:
        return tuple(map(int, self.call("GET", "/api/overview")["rabbitmq_version"].split(".")))

    @property
    def _encrypted(self) -> bool:
        return self._certificates is not None

    def endpoint(self, user: str = READER, vhost: str = "/") -> BrokerEndpoint:
        host, scheme = ("localhost", "https") if self._encrypted else (HOST, "http")
        return BrokerEndpoint(
            name="jobs",
            host=host,
            port=self.port,
            vhost=vhost,
            tls=self._encrypted,
            management=f"{scheme}://{host}:{self.management_port}",
            username=user,
            password_env="RABBIT",
        )

    def stop(self) -> None:
        self.end_broker()
        if self._environment:
            wait_until(self._end_port_mapper, "the port mapper to end")
        directory = self._directory
        super().stop()
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def _end_port_mapper(self) -> bool:
        """End `epmd`, which the broker starts as a daemon; it refuses while it still knows a node."""
        environment = {**os.environ, **self._environment}
        ended = subprocess.run(["epmd", "-kill"], env=environment, capture_output=True, text=True, check=False)
        return "Killed" in ended.stdout or "Cannot connect" in ended.stdout + ended.stderr

    def end_broker(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.signal(how)
        if self._process is not None:
            self._process.wait()

    def restart(self) -> None:
        """End the node orderly and start it again, with its messages: a killed one may lose the newest of them."""
        self.end_broker(signal.SIGTERM)
        assert self._directory is not None
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(self._arguments, stdout=log, stderr=log, start_new_session=True)
        self._wait_until_it_answers(self._process)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the node's process group; SIGSTOP freezes the broker."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def call(self, method: str, path: str, **content: Any) -> Any:
        """Call the management API as its administrator, and return the JSON of the answer."""
        connection = self._connection()
        try:
            login = base64.b64encode(b"guest:guest").decode()
            headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(content) if content else None, headers)
            response = connection.getresponse()
            body = response.read()
            if response.status == 404:
                raise Gone(path)
            assert response.status < 300, (response.status, body)
            return json.loads(body) if body else None
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        if self._certificates is None:
            return HTTPConnection(HOST, self.management_port, timeout=5)
        trusted = ssl.create_default_context(cafile=self._certificates.authority)
        return HTTPSConnection("localhost", self.management_port, timeout=5, context=trusted)

    def control(self, *command: str) -> None:
        """Run `rabbitmqctl`."""
        environment = {**os.environ, **self._environment}
        done = subprocess.run([PROGRAMS / "rabbitmqctl", *command], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def add_reader(self, tags: str = "management", *, permitted: bool = True) -> None:
        """A user that may look and do nothing else."""
        self.call("PUT", f"/api/users/{READER}", password=PASSWORD, tags=tags)
        permissions = f"/api/permissions/%2F/{READER}"
        if permitted:
            self.call("PUT", permissions, configure="", write="", read="")
        else:
            self._delete(permissions)

    def declare(self, queue: str, *, quorum: bool = False, **arguments: object) -> None:
        kind = {"x-queue-type": "quorum"} if quorum else {}
        self.call("PUT", f"/api/queues/%2F/{quote(queue)}", durable=True, arguments={**kind, **arguments})

    def delete(self, queue: str) -> None:
        self._delete(f"/api/queues/%2F/{quote(queue)}")

    def reset(self) -> None:
        """Delete all queues, and the exchanges, whose kind an application may choose; repair the reader."""
        self.add_reader()
        for queue in self.queues():
            self.delete(queue)
        for exchange in self.call("GET", "/api/exchanges/%2F"):
            if exchange["name"] and not exchange["name"].startswith("amq."):
                self._delete(f"/api/exchanges/%2F/{quote(exchange['name'])}")

    def _delete(self, path: str) -> None:
        """Delete it unless its owner, which has just ended, did so."""
        with suppress(Gone):
            self.call("DELETE", path)

    def publish(self, queue: str, messages: int = 1, payload: str = "x") -> None:
        for _ in range(messages):
            content = {
                "properties": {"delivery_mode": 2},
                "routing_key": queue,
                "payload": payload,
                "payload_encoding": "string",
            }
            self.call("POST", "/api/exchanges/%2F/amq.default/publish", **content)

    def queues(self) -> list[str]:
        return [queue["name"] for queue in self.call("GET", "/api/queues/%2F?disable_stats=true")]

    def consumers(self) -> list[Any]:
        return cast("list[Any]", self.call("GET", "/api/consumers"))
