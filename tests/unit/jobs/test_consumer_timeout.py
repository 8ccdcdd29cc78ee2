"""The wait for an acknowledgement, as workers request it and compare it with their jobs."""

import pytest

from ebbtide.jobs.consumer_timeout import consumer_arguments, timeout_problems


@pytest.mark.parametrize(
    ("text", "arguments"),
    [("46800", {"x-consumer-timeout": 46_800_000}), ("", {}), ("0", {}), ("13h", {}), ("-1", {}), ("²", {})],
)
def test_seconds_become_milliseconds_of_an_argument(text: str, arguments: dict[str, int]) -> None:
    assert consumer_arguments({"EBBTIDE_CONSUMER_TIMEOUT": text}) == arguments


def test_without_the_variable_there_is_no_argument() -> None:
    assert consumer_arguments({}) == {}


@pytest.mark.parametrize(
    ("timeout", "longest", "limit", "named"),
    [
        ("3600", "3599", 3599, []),
        ("3600", "3600", 0, ["longestJob is 3600 s, and consumerTimeout is 3600 s"]),
        ("3600", "60", 3600.5, ["the application's task_time_limit is 3600.5 s"]),
        ("60", "600", 600, ["longestJob is 600 s", "the application's task_time_limit is 600 s"]),
        ("", "600", 600, []),
        ("60", "", 0, []),
    ],
)
def test_each_time_that_the_timeout_does_not_exceed_is_named(
    timeout: str, longest: str, limit: float, named: list[str]
) -> None:
    problems = timeout_problems({"EBBTIDE_CONSUMER_TIMEOUT": timeout, "EBBTIDE_LONGEST_JOB": longest}, limit)

    assert len(problems) == len(named)
    assert all(name in problem for name, problem in zip(named, problems, strict=True))
