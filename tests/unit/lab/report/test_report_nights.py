"""The page of a stack's nights: sound HTML, with its figures, assumptions and the command that repeats it."""

from functools import cache

from ebbtide.lab.report.pages.figures import WIDTHS
from ebbtide.lab.report.pages.nights import notes, render_nights
from ebbtide.lab.simulator.replay.nights import NightReplay, replay_nights
from ebbtide.lab.simulator.setup import ReplayOptions
from tests.builders.adoption import stack_with
from tests.unit.lab.report.looking import outline

SLEEP = {"when": "outsideBusinessHours", "scale": {"kind": "Deployment", "name": "web"}}


@cache
def nights() -> NightReplay:
    web = {"selector": {"app": "web"}, "replicas": 8, "cpu": 3, "memory": "8Gi", "sleep": SLEEP}
    return replay_nights(stack_with(None, web=web), ReplayOptions())


def test_every_tag_is_closed_ids_are_unique_and_links_lead_to_them() -> None:
    page = outline(render_nights(nights()))
    ids = [attributes["id"] for _, attributes, _ in page.tags if "id" in attributes]
    links = {attributes["href"].removeprefix("#") for tag, attributes, _ in page.tags if tag == "a"}
    labels = {name for _, attributes, _ in page.tags for name in attributes.get("aria-labelledby", "").split()}

    assert page.around == []
    assert len(ids) == len(set(ids))
    assert links | labels <= set(ids)
    assert {"groups", "nodes", "strip", "kept", "assumed", "again", "main"} == links


def test_each_picture_has_a_name_and_regions_have_different_ones() -> None:
    page = outline(render_nights(nights()))
    pictures = [kind["role"] for tag, kind, _ in page.tags if tag == "svg" and "aria-hidden" not in kind]
    regions = [kind["aria-label"] for tag, kind, _ in page.tags if tag == "div" and kind.get("class") == "scroll"]

    assert pictures == ["img"] * 3 * len(WIDTHS)
    assert len(regions) == len(set(regions)) == 4


def test_all_notes_of_the_terminal_are_on_the_page() -> None:
    text = render_nights(nights()).replace("\N{NO-BREAK SPACE}", " ")

    assert [note for note in notes(nights()) if note not in text] == []
    assert "ebbtide simulate acme" in text
