"""Keys to vary, and what they change in a stack file."""

from typing import Any

import pytest

from ebbtide.lab.sweep.vary import CannotVary, label, read_vary, settings_of, varied

CONFIG: dict[str, object] = {
    "ebbtide:workers": {"train": {"max": 3}, "mail": {}},
    "ebbtide:nodeGroups": {"flexible": {"max": 9}},
}


def after(*texts: str) -> list[dict[str, Any]]:
    return [varied(CONFIG, setting) for setting in settings_of([read_vary(text) for text in texts])]


def test_a_bare_key_is_one_of_every_pool() -> None:
    (first, second) = after("max=5,6")

    assert first["ebbtide:workers"] == {"train": {"max": 5}, "mail": {"max": 5}}
    assert second["ebbtide:workers"]["mail"] == {"max": 6}
    assert CONFIG["ebbtide:workers"] == {"train": {"max": 3}, "mail": {}}


def test_a_path_names_one_place_and_makes_what_is_missing_on_its_way() -> None:
    (result,) = after("nodeGroups.flexible.reserved.cpu=250m")

    assert result["ebbtide:nodeGroups"] == {"flexible": {"max": 9, "reserved": {"cpu": "250m"}}}


def test_a_section_that_the_file_does_not_have_is_made() -> None:
    (result,) = after("controller.closingGuard=20m")

    assert result["ebbtide:controller"] == {"closingGuard": "20m"}


def test_values_are_lists_and_mappings_too() -> None:
    result = after("nodeGroups.*.instanceTypes=[m7i.2xlarge, m6i.2xlarge],[m7g.2xlarge]")

    assert [each["ebbtide:nodeGroups"]["flexible"]["instanceTypes"] for each in result] == [
        ["m7i.2xlarge", "m6i.2xlarge"],
        ["m7g.2xlarge"],
    ]


def test_several_keys_take_turns_in_every_combination() -> None:
    settings = settings_of([read_vary("max=5,6"), read_vary("stabilizationWindow=30s,2m")])

    assert [label(each) for each in settings] == [
        "max=5, stabilizationWindow=30s",
        "max=5, stabilizationWindow=2m",
        "max=6, stabilizationWindow=30s",
        "max=6, stabilizationWindow=2m",
    ]
    assert label(settings_of([])[0]) == "as it is"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max", "wanted KEY=VALUE,VALUE…, found 'max'"),
        ("max=", "wanted KEY=VALUE,VALUE…"),
        ("max=5,5", "wanted values that differ"),
        ("max=[5", "wanted values as a stack file has them"),
        ("customer=a,b", "cannot be varied: no replay reads customer"),
        ("ebbtide:network.nat=single", "no replay reads network"),
        ("maxx=5", "wanted a key of a pool or a path, found 'maxx' "),
        ("wrokers.train.max=5", "wanted a section of the stack file first, found 'wrokers'"),
    ],
)
def test_what_cannot_be_varied_is_told_in_one_line(text: str, told: str) -> None:
    with pytest.raises(CannotVary) as error:
        read_vary(text)

    assert told in str(error.value)
    assert "for example" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["workers.tarin.max=5", "workers.train.max.more=5"])
def test_a_path_that_leads_nowhere_is_told(text: str) -> None:
    with pytest.raises(CannotVary, match=r"wanted a (name that the stack has|mapping there)"):
        after(text)


def test_a_name_of_an_empty_section_has_no_hint() -> None:
    with pytest.raises(CannotVary, match=r"^services\.a: wanted a name that the stack has, found 'a'$"):
        after("services.a.image=b")
