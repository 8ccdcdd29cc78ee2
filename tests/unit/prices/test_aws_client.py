"""boto3 as a source: pages, retries, and one line for each way to fail.

botocore's Stubber plays AWS's answers. Logins that fail are boto3's own, from configurations on this machine.
"""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from ebbtide.prices.aws_client import AwsClient, new_client
from ebbtide.prices.aws_questions import AwsCall, AwsRefused, NoAws
from tests.unit.prices.stubbed_aws import StubbedAws, price_list

QUESTION = AwsCall(
    action="pricing:GetProducts",
    parameters={"ServiceCode": "AmazonEKS"},
    region="us-east-1",
    answers="PriceList",
    token="NextToken",
)


def pages(*answers: tuple[str, dict[str, object]]) -> StubbedAws:
    """Answers to the questions with these tokens; "" is the first page."""
    aws = StubbedAws()
    for token, answer in answers:
        parameters = {**QUESTION.parameters, **({"NextToken": token} if token else {})}
        aws.answers("pricing:get_products", "us-east-1", answer, parameters)
    return aws


def test_all_pages_are_one_answer() -> None:
    aws = pages(
        ("", price_list(["a", "b"], "page-2")), ("page-2", price_list(["c"], "page-3")), ("page-3", price_list(["d"]))
    )

    assert AwsClient(aws.client).ask(QUESTION) == ["a", "b", "c", "d"]
    aws.assert_all_answers_given()


def test_pages_that_lead_back_to_themselves_end_with_one_line() -> None:
    aws = pages(("", price_list(["a"], "again")), ("again", price_list(["a"], "again")))

    with pytest.raises(AwsRefused, match="pricing:GetProducts in us-east-1: the pages of the answer do not end"):
        AwsClient(aws.client).ask(QUESTION)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("AccessDeniedException", "refused; wanted the right pricing:GetProducts"),
        ("UnauthorizedOperation", "refused; wanted the right pricing:GetProducts"),
        ("ThrottlingException", "AWS receives too many requests at the moment; try again later"),
        ("RequestLimitExceeded", "AWS receives too many requests at the moment; try again later"),
        ("TooManyRequestsException", "AWS receives too many requests at the moment; try again later"),
        ("ServiceUnavailable", "not reached; is the region's name right, and the network up"),
        ("NotFoundException", r"failed \(An error occurred \(NotFoundException\) when calling the GetProducts"),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(code: str, line: str) -> None:
    aws = StubbedAws()
    aws.refuses("pricing:get_products", "us-east-1", code)

    with pytest.raises(AwsRefused, match=f"pricing:GetProducts in us-east-1: {line}"):
        AwsClient(aws.client).ask(QUESTION)


@pytest.mark.parametrize("code", ["ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException"])
def test_a_login_that_aws_no_longer_accepts_ends_everything(code: str) -> None:
    aws = StubbedAws()
    aws.refuses("pricing:get_products", "us-east-1", code)

    with pytest.raises(NoAws, match="log in again, for example: aws sso login"):
        AwsClient(aws.client).ask(QUESTION)


def test_a_long_refusal_is_cut() -> None:
    aws = StubbedAws()
    aws.refuses("pricing:get_products", "us-east-1", "AccessDenied", "Encoded message: " + "x" * 5_000)

    with pytest.raises(AwsRefused) as refusal:
        AwsClient(aws.client).ask(QUESTION)
    assert len(str(refusal.value)) < 400


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No login and no region, whatever this machine has."""
    for name in ("PROFILE", "DEFAULT_PROFILE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


SSO = """
[default]
sso_session = acme
sso_account_id = 123456789012
sso_role_name = reader
[sso-session acme]
sso_region = us-east-1
sso_start_url = https://acme.awsapps.com/start
sso_registration_scopes = sso:account:access
"""


@pytest.mark.parametrize(
    ("config", "variables", "line"),
    [
        ("", {}, r"AWS has no credentials; log in first, .* \(Unable to locate credentials\)"),
        ("", {"AWS_PROFILE": "nobody"}, r"AWS has no credentials.* \(The config profile \(nobody\) could not be found"),
        (SSO, {}, "log in again, for example: aws sso login"),
        pytest.param(
            "[default]\ncredential_process = false\n",
            {},
            "log in again, for example: aws sso login",
            marks=pytest.mark.process,
        ),
    ],
)
def test_without_a_login_nothing_is_asked(
    config: str, variables: dict[str, str], line: str, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(config)
    for name, value in variables.items():
        environment.setenv(name, value)

    with pytest.raises(NoAws, match=line):
        AwsClient(new_client).ask(QUESTION)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before botocore's retries, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


class ThrottlesTwice(BaseHTTPRequestHandler):
    requests = 0

    def do_POST(self) -> None:
        type(self).requests += 1
        status, body = (400, b'{"__type": "ThrottlingException"}') if self.requests < 3 else (200, b'{"PriceList": []}')
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def endpoint(environment: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """An endpoint on this machine, which the client asks instead of AWS."""
    environment.setenv("AWS_ACCESS_KEY_ID", "key")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with HTTPServer(("127.0.0.1", 0), ThrottlesTwice) as server:
        environment.setenv("AWS_ENDPOINT_URL_PRICING", f"http://127.0.0.1:{server.server_port}")
        yield server


@pytest.mark.process
def test_a_throttled_page_is_asked_for_again(endpoint: HTTPServer, waits: list[float]) -> None:
    thread = Thread(target=endpoint.serve_forever)
    thread.start()
    try:
        assert AwsClient(new_client).ask(QUESTION) == []
    finally:
        endpoint.shutdown()
        thread.join()
    assert (ThrottlesTwice.requests, len(waits)) == (3, 2)


@pytest.mark.process
def test_a_region_that_is_not_reached_is_tried_again_and_then_reported(
    endpoint: HTTPServer, waits: list[float]
) -> None:
    endpoint.server_close()

    with pytest.raises(AwsRefused, match=r"not reached; is .* network up\? \(Could not connect to the endpoint URL"):
        AwsClient(new_client).ask(QUESTION)
    assert len(waits) == 7
