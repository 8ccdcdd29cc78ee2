"""Asks AWS through its own command, `aws`: whoever deploys has it, logged in the way the company wants.

Pages are turned here, not by the command: it knows how for the price list and for spot prices, but of Savings Plan
rates it gives the first page and says nothing of the others (botocore `savingsplans/2019-06-28/paginators-1.json` is
empty). And so a page that was throttled is asked for again, and not all of them.

Failures are of two sorts: `NoAws` ends everything (no command, no login), `AwsRefused` ends one region.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

_PATIENCE_S = 300  # for one page; the command itself gives up on a dead connection after one minute
_PAUSES_S = (2.0, 5.0, 10.0, 20.0)
_MOST_PAGES = 5_000
_WORDS_KEPT = 240  # a refusal may carry an encoded message of many lines

# What the command writes to its error stream: the code that AWS answered in brackets, or words of its own.
_THROTTLED = re.compile(
    r"\((Throttl\w*|RequestLimitExceeded|TooManyRequests\w*|PriorRequestNotComplete)\)|Rate exceeded"
)
_UNREACHED = re.compile(
    r"Could not connect|[Cc]onnect timeout|[Rr]ead timeout|Connection was closed"
    r"|\((InternalError|InternalServer\w*|ServiceUnavailable|Unavailable)\)"
)
_LAPSED = re.compile(
    r"ExpiredToken|[Tt]oken has expired|SSO session .*(expired|invalid)|Error loading SSO Token|refresh failed"
    r"|\((InvalidClientTokenId|UnrecognizedClientException|InvalidToken|SignatureDoesNotMatch)\)"
)
_NO_LOGIN = re.compile(r"Unable to locate credentials|config profile .* could not be found")
_REFUSED = re.compile(r"\((AccessDenied\w*|UnauthorizedOperation|AuthFailure|OptInRequired)\)")
_OLD = re.compile(r"[Ii]nvalid choice|[Uu]nknown options")


class NoAws(Exception):
    """Nothing can be asked at all: one clear line."""


class AwsRefused(Exception):
    """This question was not answered: one clear line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One call and its pages."""

    command: tuple[str, ...]  # ("pricing", "get-products")
    arguments: tuple[str, ...]
    region: str  # whose endpoint is asked
    answers: str  # the key of the list in the answer
    token: str  # the key of what leads to the next page
    right: str  # the IAM action that it takes


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsCommand:
    wait: Callable[[float], None]
    program: str = "aws"

    def ask(self, question: Question) -> list[object]:
        """All pages of the answer, one list. Raises `NoAws`, `AwsRefused`."""
        found: list[object] = []
        token = ""
        for _ in range(_MOST_PAGES):
            page = self._page(question, token)
            answers = page.get(question.answers)
            if not isinstance(answers, list):
                raise AwsRefused(f"{_named(question)}: found no list {question.answers} in the answer")
            found += cast("list[object]", answers)
            following = str(page.get(question.token) or "")
            if not following:
                return found
            if following == token:
                break
            token = following
        raise AwsRefused(f"{_named(question)}: the pages of the answer do not end")

    def _page(self, question: Question, token: str) -> Mapping[str, object]:
        pauses = iter(_PAUSES_S)
        while True:
            ended = self._run(question, token)
            if ended.returncode == 0:
                return _parsed(question, ended.stdout)
            pause = next(pauses, None) if _passes(ended.stderr) else None
            if pause is None:
                raise _failure(question, ended.stderr)
            self.wait(pause)

    def _run(self, question: Question, token: str) -> subprocess.CompletedProcess[str]:
        paging = ("--next-token", token) if token else ()
        arguments = (*question.command, *question.arguments, "--region", question.region, "--output", "json")
        try:
            return subprocess.run(
                (self.program, *arguments, "--no-paginate", *paging),
                capture_output=True,
                check=False,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, "AWS_PAGER": "", "AWS_CLI_AUTO_PROMPT": "off"},
                stdin=subprocess.DEVNULL,
                timeout=_PATIENCE_S,
            )
        except FileNotFoundError:
            raise NoAws(
                f"the command {self.program} is not on PATH; wanted the AWS CLI, version 2 "
                "(https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html)"
            ) from None
        except OSError as error:
            raise NoAws(f"the command {self.program} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise AwsRefused(f"{_named(question)}: no answer within {_PATIENCE_S} seconds") from None


def _passes(stderr: str) -> bool:
    """Whether asking again later may help; the command itself has tried a few times by then."""
    return bool(_THROTTLED.search(stderr) or _UNREACHED.search(stderr))


def _parsed(question: Question, text: str) -> Mapping[str, object]:
    try:
        page: Any = json.loads(text.strip() or "{}")
    except ValueError:
        raise AwsRefused(f"{_named(question)}: found no JSON in the answer") from None
    if not isinstance(page, dict):
        raise AwsRefused(f"{_named(question)}: found no JSON object in the answer")
    return cast("Mapping[str, object]", page)


def _failure(question: Question, stderr: str) -> NoAws | AwsRefused:
    """What the command said, as what to do about it."""
    words = " ".join(stderr.split())[:_WORDS_KEPT] or "no output"
    if _LAPSED.search(stderr):
        return NoAws(f"the login of aws is not valid (any more); log in again, for example: aws sso login ({words})")
    if _NO_LOGIN.search(stderr):
        return NoAws(
            f"aws has no credentials; log in first, or set AWS_PROFILE, and try: aws sts get-caller-identity ({words})"
        )
    if _OLD.search(stderr):
        return NoAws(f"this aws does not know {' '.join(question.command)}; wanted AWS CLI version 2 ({words})")
    if _REFUSED.search(stderr):
        return AwsRefused(f"{_named(question)}: refused; wanted the right {question.right} ({words})")
    if _THROTTLED.search(stderr):
        return AwsRefused(f"{_named(question)}: AWS has too many questions at the moment; try again later ({words})")
    if _UNREACHED.search(stderr):
        return AwsRefused(f"{_named(question)}: not reached; is the region's name right, and the network up? ({words})")
    return AwsRefused(f"{_named(question)}: failed ({words})")


def _named(question: Question) -> str:
    return f"aws {' '.join(question.command)} in {question.region}"
