"""What the client makes of limits, refusals and broken connections; waiting takes no time here."""

import pytest

from ebbtide.pull_requests.github import GithubApi, GithubError, Refused, Unreachable
from tests.unit.pull_requests.github_stand_in import REPO, TOKEN, FastClock, Hub, Trouble

COMMENTS = f"/repos/{REPO}/issues/7/comments?per_page=100&page=1"


def asking(hub: Hub, clock: FastClock, told: list[str] | None = None) -> GithubApi:
    return GithubApi(TOKEN, clock, url=hub.url, tell=([] if told is None else told).append)


@pytest.mark.parametrize(
    ("headers", "message", "waits"),
    [
        ({"Retry-After": "17"}, "", [17.0]),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1000030"}, "", [31.0]),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "999000"}, "", [1.0]),
        ({"x-ratelimit-remaining": "0"}, "", [60.0]),
        ({}, "You have exceeded a secondary rate limit.", [60.0]),
    ],
)
@pytest.mark.parametrize("status", [403, 429])
def test_a_rate_limit_is_waited_for(
    hub: Hub, clock: FastClock, status: int, headers: dict[str, str], message: str, waits: list[float]
) -> None:
    hub.troubles.append(Trouble(method="GET", status=status, headers=headers, message=message))

    assert asking(hub, clock).get(COMMENTS).status == 200
    assert clock.waits == waits


def test_a_limit_without_a_time_is_given_longer_each_time(hub: Hub, clock: FastClock) -> None:
    hub.troubles.extend([Trouble(method="GET", status=429)] * 2)

    asking(hub, clock).get(COMMENTS)

    assert clock.waits == [60.0, 120.0]


def test_a_limit_that_lasts_too_long_is_not_waited_for(hub: Hub, clock: FastClock) -> None:
    hub.troubles.append(Trouble(method="GET", status=403, headers={"Retry-After": "3000"}))

    with pytest.raises(Unreachable, match="rate limit is reached, for 3000 s more"):
        asking(hub, clock).get(COMMENTS)
    assert clock.waits == []


def test_patience_is_for_all_requests_together(hub: Hub, clock: FastClock) -> None:
    api = asking(hub, clock)
    hub.troubles.extend([Trouble(method="GET", status=429, headers={"Retry-After": "200"})] * 2)

    with pytest.raises(Unreachable):
        api.get(COMMENTS)
    assert clock.waits == [200.0]


@pytest.mark.parametrize("status", [0, 500, 502, 503])
def test_a_broken_answer_is_asked_for_again(hub: Hub, clock: FastClock, status: int) -> None:
    told: list[str] = []
    hub.troubles.extend([Trouble(method="GET", status=status)] * 3)

    assert asking(hub, clock, told).get(COMMENTS).status == 200
    assert (clock.waits, len(told)) == ([1.0, 2.0, 4.0], 3)


def test_asking_again_has_an_end(hub: Hub, clock: FastClock) -> None:
    hub.troubles.extend([Trouble(method="GET", status=500)] * 20)

    with pytest.raises(Unreachable, match="GitHub answers 500, 5 times: run the job again later"):
        asking(hub, clock).get(COMMENTS)
    assert len(hub.asked) == 5


def test_a_limit_on_creating_is_waited_for_since_nothing_was_created(hub: Hub, clock: FastClock) -> None:
    hub.troubles.append(Trouble(method="POST", status=403, headers={"Retry-After": "3"}))

    asking(hub, clock).post(COMMENTS.partition("?")[0], {"body": "new"})

    assert (clock.waits, hub.bodies()) == ([3.0], ["new"])


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "the token is wrong or has expired"),
        (403, "pull-requests: write"),
        (404, "no such repository"),
        (410, "it was deleted"),
        (422, "was not accepted"),
        (418, "not accepted"),
    ],
)
def test_a_refusal_is_one_line_and_final(hub: Hub, clock: FastClock, status: int, words: str) -> None:
    hub.troubles.append(Trouble(method="GET", status=status, message="Said\n so"))

    with pytest.raises(Refused) as refused:
        asking(hub, clock).get(COMMENTS)
    assert f"{status}, " in str(refused.value)
    assert words in str(refused.value)
    assert str(refused.value).endswith("(GitHub: Said so)")
    assert (clock.waits, len(hub.asked)) == ([], 1)


def test_a_redirect_is_refused_so_that_the_token_goes_nowhere_else(hub: Hub, clock: FastClock) -> None:
    hub.troubles.append(Trouble(method="GET", status=301, headers={"Location": f"{hub.url}/elsewhere"}))

    with pytest.raises(Refused, match="another name"):
        asking(hub, clock).get(COMMENTS)
    assert len(hub.asked) == 1


def test_the_token_travels_and_is_never_shown(hub: Hub, clock: FastClock) -> None:
    hub.troubles.append(Trouble(method="GET", status=401, message=f"Bad credentials {TOKEN}"))

    with pytest.raises(Refused) as refused:
        asking(hub, clock).get(COMMENTS)
    assert hub.tokens == {f"Bearer {TOKEN}"}
    assert str(refused.value).endswith("(GitHub: Bad credentials ***)")


def test_a_server_that_is_not_there_is_named(clock: FastClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    api = GithubApi(TOKEN, clock, url="http://127.0.0.1:9", tell=lambda _: None)

    with pytest.raises(GithubError, match=r"http://127.0.0.1:9: .*refused"):
        api.get(COMMENTS)
    assert len(clock.waits) == 4


@pytest.mark.parametrize("page", ["<html>", ""])
def test_an_answer_that_is_no_json_is_named(hub: Hub, clock: FastClock, page: str) -> None:
    answer = asking(hub, clock).get(COMMENTS)

    with pytest.raises(Refused, match="not JSON"):
        type(answer)(200, {}, page.encode()).json()
