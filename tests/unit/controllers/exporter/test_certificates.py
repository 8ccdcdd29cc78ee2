"""Expiry of the untrusted certificates of real TLS servers, and bytes that are no certificate."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controllers.exporter.certificates import Certificates, end_of, not_after
from tests.builders.authority import AUTHORITY

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on PATH")
DER = ssl.PEM_cert_to_DER_cert(AUTHORITY)
END = datetime(2027, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, datetime]:
    """A certificate of another host that signed itself, with its key, and its end."""
    folder = tmp_path_factory.mktemp("issued")
    file, key = folder / "server.pem", folder / "key.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", "/CN=elsewhere.example", "-days", "2"]
    command = ["openssl", "req", "-x509", *curve, *subject, "-keyout", str(key), "-out", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    told = subprocess.run(
        ["openssl", "x509", "-noout", "-enddate", "-in", str(file)], check=True, capture_output=True, text=True
    )
    file.write_text(file.read_text() + key.read_text())
    end = ssl.cert_time_to_seconds(told.stdout.strip().partition("=")[2])
    return file, datetime.fromtimestamp(end, UTC)


@contextmanager
def server(context: ssl.SSLContext | None) -> Generator[str]:
    """Its address: it shakes hands with one caller; without a context it accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                if context is not None:
                    with context.wrap_socket(connection, server_side=True):
                        pass
                else:
                    connection.recv(10_000)
                    threading.Event().wait(5)
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.process
@needs_openssl
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_end_is_read_of_a_certificate_that_nobody_trusts(
    issued: tuple[Path, datetime], version: ssl.TLSVersion
) -> None:
    file, end = issued
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(file)
    with server(context) as endpoint:
        assert end_of(endpoint) == end


@pytest.mark.process
@needs_openssl
def test_a_server_that_wants_a_certificate_of_its_callers_shows_its_own_first(issued: tuple[Path, datetime]) -> None:
    file, end = issued
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.verify_mode = ssl.TLSVersion.TLSv1_3, ssl.CERT_REQUIRED
    context.load_cert_chain(file)
    context.load_verify_locations(cadata=AUTHORITY)
    with server(context) as endpoint:
        assert end_of(endpoint) == end


@pytest.mark.process
def test_who_accepts_and_says_nothing_is_given_up() -> None:
    with server(None) as endpoint, pytest.raises(OSError, match="timed out"):
        end_of(endpoint, patience=0.2)


def test_an_end_after_2050_has_another_form() -> None:
    assert not_after(DER) == datetime(2126, 10, 28, 16, 39, 32, tzinfo=UTC)


@pytest.mark.parametrize("der", [b"", b"\x30", b"\x30\x82\xff\xff", b"\x00" * 100, DER[4:], b"\x30\x80" + DER])
def test_what_is_no_certificate_is_refused(der: bytes) -> None:
    with pytest.raises(ValueError, match=r"certificate|time data|codec"):
        not_after(der)


def test_no_beginning_of_a_certificate_is_one() -> None:
    for length in range(len(DER)):
        with pytest.raises(ValueError, match="certificate"):
            not_after(DER[:length])


class Endpoints:
    """Answers as scripted."""

    def __init__(self) -> None:
        self.answers: dict[str, datetime | Exception] = {}
        self.asked: list[str] = []
        self.now = 0.0
        self.certificates = Certificates(self.read, lambda: self.now)

    def read(self, endpoint: str) -> datetime:
        self.asked.append(endpoint)
        answer = self.answers[endpoint]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look(self, *endpoints: str, after: float = 0) -> dict[str, float]:
        self.now += after
        self.certificates.follow(endpoints)
        self.certificates.look()
        return self.certificates.ends


def test_each_is_asked_once_an_hour_and_a_new_one_at_once() -> None:
    scene = Endpoints()
    scene.answers = {"a:1": END, "b:1": END}
    scene.look("a:1")
    scene.look("a:1", after=3599)
    scene.look("a:1", "b:1")
    assert scene.asked == ["a:1", "b:1"]

    scene.look("a:1", "b:1", after=1)
    assert scene.asked == ["a:1", "b:1", "a:1"]


def test_between_two_looks_it_waits_though_it_has_nothing_to_ask() -> None:
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) == 3

    Endpoints().certificates.run(wait)
    assert waited == [5.0, 5.0, 5.0]


def test_one_that_fails_is_not_asked_sooner_and_keeps_the_others_from_nothing() -> None:
    scene = Endpoints()
    scene.answers = {"a:1": ConnectionRefusedError("refused"), "b:1": END}

    assert scene.look("a:1", "b:1") == {"b:1": END.timestamp()}
    assert scene.certificates.whys == {"a:1": "a:1: refused", "b:1": ""}
    scene.look("a:1", "b:1", after=3599)
    assert scene.asked == ["a:1", "b:1"]


def test_an_end_stays_until_another_is_read() -> None:
    scene = Endpoints()
    scene.answers = {"a:1": END}
    scene.look("a:1")
    scene.answers = {"a:1": ValueError()}
    assert scene.look("a:1", after=3600) == {"a:1": END.timestamp()}
    assert scene.certificates.whys == {"a:1": "a:1: ValueError()"}

    scene.answers = {"a:1": END + timedelta(days=90)}
    assert scene.look("a:1", after=3600) == {"a:1": (END + timedelta(days=90)).timestamp()}
    assert scene.certificates.whys == {"a:1": ""}


def test_an_endpoint_that_the_config_no_longer_names_is_no_longer_reported() -> None:
    scene = Endpoints()
    scene.answers = {"a:1": END}
    scene.look("a:1")

    assert scene.look() == {}
    assert scene.certificates.whys == {}
