"""Calls AWS's APIs through boto3, with the login that boto3 finds, and turns each failure into one clear line.

Paging is done here: botocore has no paginator for Savings Plan rates (`savingsplans/2019-06-28/paginators-1.json`
is empty). Retries are botocore's own.

`NoAws` ends everything (no login), `AwsRefused` ends one region.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol, cast

import boto3
import botocore
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's name
    CredentialRetrievalError,
    HTTPClientError,
    LoginError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)

from ebbtide.prices.aws_questions import AwsCall, AwsRefused, NoAws
from ebbtide.text.one_line import collapsed

_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 8}, connect_timeout=10, read_timeout=60)
_WORDS_KEPT = 240  # a refusal may carry an encoded message of many lines
_HIDDEN = re.compile(r"arn:\S+|\b[0-9]{12}\b")  # accounts and people's sessions
_CLIENTS = {"elasticloadbalancing": "elbv2"}  # where boto3's name differs from IAM's

# Error codes of AWS's answers.
_THROTTLED = re.compile(r"Throttl\w*|RequestLimitExceeded|TooManyRequests\w*|PriorRequestNotComplete")
_UNAVAILABLE = re.compile(r"InternalError|InternalServer\w*|ServiceUnavailable\w*|Unavailable")
_EXPIRED = re.compile(
    r"ExpiredToken\w*|InvalidClientTokenId|UnrecognizedClientException|InvalidToken|SignatureDoesNotMatch"
)
_REFUSED = re.compile(r"AccessDenied\w*|UnauthorizedOperation|AuthFailure|OptInRequired")


class Client(Protocol):
    """A client of one service: boto3 makes its methods at run time, so their types are stated here."""

    def __getattr__(self, method: str) -> Callable[..., Mapping[str, object]]: ...


def new_client(service: str, region: str) -> Client:
    return cast("Client", boto3.Session().client(cast("Any", service), region_name=region, config=_CONFIG))


class AwsClient:
    def __init__(self, client_of: Callable[[str, str], Client]) -> None:
        self._client_of = cache(client_of)

    def ask(self, question: AwsCall) -> list[object]:
        """All pages of the answer, one list. Raises `NoAws`, `AwsRefused`."""
        service, _, operation = question.action.partition(":")
        answers: list[object] = []
        paging: dict[str, str] = {}
        try:
            client = self._client_of(_CLIENTS.get(service, service), question.region)
            call = getattr(client, botocore.xform_name(operation))
            while True:
                page = call(**question.parameters, **paging)
                answers += cast("list[object]", page.get(question.answers, ()))
                following = str(page.get(question.token) or "")
                if not following:
                    return answers
                if following in paging.values():
                    raise AwsRefused(f"{question}: the pages of the answer do not end")
                paging = {question.token_parameter or question.token: following}
        except (BotoCoreError, ClientError) as error:
            raise _failure(question, error) from None


def _failure(question: AwsCall, error: BotoCoreError | ClientError) -> NoAws | AwsRefused:
    """The error as a line that says what to do about it."""
    words = _HIDDEN.sub("…", collapsed(error))[:_WORDS_KEPT]
    code = cast("str", error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""
    if isinstance(error, NoCredentialsError | PartialCredentialsError | ProfileNotFound):
        return NoAws(
            f"AWS has no credentials; log in first, or set AWS_PROFILE, and try: aws sts get-caller-identity ({words})"
        )
    if isinstance(error, CredentialRetrievalError | LoginError | SSOError | TokenRetrievalError) or _EXPIRED.fullmatch(
        code
    ):
        return NoAws(f"the AWS login is not valid (any more); log in again, for example: aws sso login ({words})")
    if _REFUSED.fullmatch(code):
        return AwsRefused(f"{question}: refused; wanted the right {question.action} ({words})")
    if _THROTTLED.fullmatch(code):
        return AwsRefused(f"{question}: AWS receives too many requests at the moment; try again later ({words})")
    if isinstance(error, ConnectionError | HTTPClientError) or _UNAVAILABLE.fullmatch(code):
        return AwsRefused(f"{question}: not reached; is the region's name right, and the network up? ({words})")
    return AwsRefused(f"{question}: failed ({words})")
