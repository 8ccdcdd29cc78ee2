"""Which RQ a safe worker starts with."""

import pytest

from ebbtide.jobs.rq_versions import refusal


@pytest.mark.parametrize("version", ["2.12.0", "2.13", "3.0.0", "3.4.1"])
def test_a_version_that_was_tried_is_taken(version: str) -> None:
    assert refusal(version, {}) == ""


@pytest.mark.parametrize("version", ["1.16.2", "2.11.0", "4.0.0", "4.0rc1", "unknown"])
def test_a_version_that_was_not_tried_is_refused_in_one_line(version: str) -> None:
    why = refusal(version, {})

    assert why.startswith("rq: expected version 2.12 to 3.x")
    assert f"got {version} (for example rq==3.0.0)" in why
    assert "\n" not in why


def test_keys_under_a_prefix_that_the_controller_does_not_read_are_refused() -> None:
    assert refusal("3.0.0", {"RQ_KEY_PREFIX": "rq"}) == ""
    assert "got acme:rq" in refusal("3.0.0", {"RQ_KEY_PREFIX": "acme:rq"})
