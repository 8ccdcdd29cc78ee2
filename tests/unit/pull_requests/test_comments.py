"""One comment per pull request: found, edited, created again; never somebody else's."""

import pytest

from ebbtide.pull_requests.comments import Done, PullRequest, Written, marker_line, put_comment
from ebbtide.pull_requests.github import GithubApi, Refused, Unreachable
from tests.unit.pull_requests.github_stand_in import REPO, SOMEBODY, TOKEN, FastClock, Hub, Trouble

OLD = f"{marker_line('preview')}\nold"
NEW = f"{marker_line('preview')}\nnew"


def put(hub: Hub, text: str = "new", key: str = "preview") -> Written:
    api = GithubApi(TOKEN, FastClock(), url=hub.url, tell=lambda _: None)
    return put_comment(api, PullRequest(REPO, 7), key, text)


def test_the_first_preview_creates_a_comment(hub: Hub) -> None:
    hub.comment("looks good", SOMEBODY)

    written = put(hub)

    assert (written.done, hub.bodies()) == (Done.CREATED, ["looks good", NEW])
    assert written.url.endswith("#issuecomment-102")


def test_a_later_preview_edits_it_in_place(hub: Hub) -> None:
    hub.comment(OLD)

    assert put(hub).done is Done.EDITED
    assert hub.bodies() == [NEW]


def test_the_comment_is_found_on_a_late_page(hub: Hub) -> None:
    for number in range(9):
        hub.comment(f"remark {number}", SOMEBODY)
    hub.comment(OLD)

    assert put(hub).done is Done.EDITED
    assert hub.asked[4].endswith("page=5")


def test_the_address_of_the_next_page_is_not_followed(hub: Hub) -> None:
    for _ in range(3):
        hub.comment("remark", SOMEBODY)

    put(hub)

    assert not any("elsewhere" in line for line in hub.asked)


def test_the_same_words_are_not_written_again(hub: Hub) -> None:
    hub.comment(NEW.replace("\n", "\r\n") + "\r\n")

    assert put(hub).done is Done.UNCHANGED
    assert hub.methods() == ["GET"]


def test_of_two_comments_the_first_is_edited_and_none_deleted(hub: Hub) -> None:
    hub.comment(OLD)
    second = hub.comment(OLD)

    assert put(hub).others == (second,)
    assert hub.bodies() == [NEW, OLD]
    assert hub.asked.count("POST /graphql") == 1


def test_a_marker_forged_by_somebody_else_is_left_alone(hub: Hub) -> None:
    hub.comment(OLD, SOMEBODY)

    written = put(hub)

    assert (written.done, written.foreign) == (Done.CREATED, 1)
    assert hub.bodies() == [OLD, NEW]


def test_a_comment_of_a_deleted_account_is_left_alone(hub: Hub) -> None:
    hub.comment(OLD)
    hub.comments[0]["user"] = None

    assert put(hub).done is Done.CREATED


@pytest.mark.parametrize("body", [f"> {OLD}", f"{marker_line('drift')}\nold", "old\n" + OLD])
def test_a_marker_counts_on_the_first_line_and_by_its_key(hub: Hub, body: str) -> None:
    hub.comment(body)

    assert put(hub).done is Done.CREATED
    assert hub.bodies()[0] == body


def test_a_comment_deleted_between_looking_and_editing_is_created_again(hub: Hub) -> None:
    hub.comment(OLD)
    hub.before = lambda method: hub.comments.clear() if method == "PATCH" else None

    assert put(hub).done is Done.CREATED
    assert hub.bodies() == [NEW]


def test_a_deleted_comment_that_is_still_listed_is_not_tried_for_ever(hub: Hub) -> None:
    hub.comment(OLD)
    hub.troubles.append(Trouble(method="PATCH", status=404, message="Not Found"))

    assert put(hub).done is Done.CREATED


def test_a_comment_is_not_created_twice_when_the_answer_is_lost(hub: Hub) -> None:
    hub.troubles.append(Trouble(method="POST", status=0, carried_out=True))

    put(hub)

    assert hub.bodies() == [NEW]
    assert hub.methods().count("POST") == 1


def test_a_comment_that_was_not_created_is_created_when_the_connection_is_back(hub: Hub) -> None:
    hub.troubles.append(Trouble(method="POST", status=502))

    assert put(hub).done is Done.CREATED
    assert hub.bodies() == [NEW]


def test_creating_ends_after_a_few_rounds(hub: Hub) -> None:
    hub.troubles.extend([Trouble(method="POST", status=502)] * 20)

    with pytest.raises(Unreachable, match="run the job again later"):
        put(hub)
    assert hub.methods().count("POST") == 4


def test_without_a_known_author_nothing_is_edited(hub: Hub) -> None:
    hub.comment(OLD)
    hub.troubles.append(Trouble(method="GRAPHQL", status=200, message="no viewer"))

    with pytest.raises(Refused, match="whom the token belongs to"):
        put(hub)
    assert hub.bodies() == [OLD]


def test_a_pull_request_that_is_gone_is_refused_at_once(hub: Hub) -> None:
    api = GithubApi(TOKEN, FastClock(), url=hub.url, tell=lambda _: None)

    with pytest.raises(Refused, match="404, no such repository, pull request"):
        put_comment(api, PullRequest(REPO, 8), "preview", "new")
    assert len(hub.asked) == 1


def test_an_edit_that_finds_no_comment_creates_none(hub: Hub) -> None:
    hub.comment(OLD, SOMEBODY)
    api = GithubApi(TOKEN, FastClock(), url=hub.url, tell=lambda _: None)

    assert put_comment(api, PullRequest(REPO, 7), "preview", "new", create=False).done is Done.ABSENT
    assert hub.bodies() == [OLD]
