"""One comment of a pull request, found again by a hidden marker and edited in place.

The marker is the first line of the comment, and the comment must be written by the token's own user: anybody may write
a marker, and must not get their words edited by it. Comments are never deleted here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from ebbtide.pull_requests.github import Answer, GithubApi, Gone, Refused, Unreachable, Unsure

_PER_PAGE = 100
_PAGES = 100
"""10,000 comments, more than GitHub lets anybody write: a server that goes on and on is not GitHub."""
_ROUNDS = 4


class Done(StrEnum):
    CREATED = "created"
    EDITED = "edited"
    UNCHANGED = "unchanged: the text is the same"
    ABSENT = "not created: there is none to edit"


@dataclass(frozen=True, slots=True)
class PullRequest:
    repo: str  # owner/name
    number: int

    @property
    def comments(self) -> str:
        return f"/repos/{self.repo}/issues/{self.number}/comments"


@dataclass(frozen=True, slots=True)
class Written:
    done: Done
    url: str
    others: tuple[int, ...]  # further comments of ours with the marker: left alone
    foreign: int  # comments of somebody else with the marker


@dataclass(frozen=True, slots=True)
class _Comment:
    number: int
    author: int
    body: str
    url: str


def marker_line(key: str) -> str:
    return f"<!-- ebbtide:{key} -->"


def put_comment(api: GithubApi, where: PullRequest, key: str, text: str, *, create: bool = True) -> Written:
    """Edit our comment with this marker, or create it unless told not to. Raises: `GithubError`.

    It looks again, rather than trust what it knew, when the comment was deleted meanwhile and when the answer to a
    creation got lost.
    """
    body = f"{marker_line(key)}\n{text}"
    deleted: set[int] = set()
    for _ in range(_ROUNDS):
        marked = [c for c in _marked(api, where, key) if c.number not in deleted]
        us = api.own_id() if marked else None  # asked only when there is something to tell apart
        own = [c for c in marked if c.author == us]
        foreign = len(marked) - len(own)
        if not own and not create:
            return Written(Done.ABSENT, "", (), foreign)
        if not own:
            try:
                return Written(Done.CREATED, _url(api.post(where.comments, {"body": body})), (), foreign)
            except Unsure:
                continue
        first, others = own[0], tuple(c.number for c in own[1:])
        if _same(first.body, body):
            return Written(Done.UNCHANGED, first.url, others, foreign)
        try:
            answer = api.patch(f"/repos/{where.repo}/issues/comments/{first.number}", {"body": body})
        except Gone:
            deleted.add(first.number)
            continue
        return Written(Done.EDITED, _url(answer), others, foreign)
    raise Unreachable(f"the comment was deleted, or creating it not answered, {_ROUNDS} times: run the job again later")


def _marked(api: GithubApi, where: PullRequest, key: str) -> list[_Comment]:
    """Oldest first, as GitHub lists them."""
    marker = marker_line(key)
    return [c for c in _all(api, where) if c.body.partition("\n")[0].strip() == marker]


def _all(api: GithubApi, where: PullRequest) -> Iterator[_Comment]:
    for page in range(1, _PAGES + 1):
        answer = api.get(f"{where.comments}?per_page={_PER_PAGE}&page={page}")
        items = answer.json()
        if not isinstance(items, list):
            raise Refused("the answer is not a list of comments: does --api name GitHub's REST API?")
        yield from (c for item in cast("list[object]", items) if (c := _comment(item)) is not None)
        # The link is not followed, only noticed: an address from an answer would get the token.
        if 'rel="next"' not in answer.headers.get("link", ""):
            return
    raise Refused(f"more than {_PAGES * _PER_PAGE:,} comments: does --api name GitHub's REST API?")


def _comment(item: object) -> _Comment | None:
    """None for a comment without an author (a deleted account): it is not ours."""
    match item:
        case {"id": int(number), "body": str(body), "html_url": str(url), "user": {"id": int(author)}}:
            return _Comment(number, author, body, url)
        case _:
            return None


def _same(one: str, other: str) -> bool:
    """GitHub may change the ends of lines."""
    return one.replace("\r\n", "\n").strip() == other.replace("\r\n", "\n").strip()


def _url(answer: Answer) -> str:
    match answer.json():
        case {"html_url": str(url)}:
            return url
        case _:
            return ""
