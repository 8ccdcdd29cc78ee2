"""The time for which RabbitMQ waits for an acknowledgement, as workers request it and compare it with their jobs.

After that time RabbitMQ closes the worker's channel and delivers the message again: both copies run. The value must be
set on the broker: from 3.12 on by a queue's argument or policy, before that for all queues. Few brokers follow what
workers request.
"""

from collections.abc import Mapping

CONSUMER_TIMEOUT = "EBBTIDE_CONSUMER_TIMEOUT"
"""Variable with the seconds of the stack file's `consumerTimeout`."""

LONGEST_JOB = "EBBTIDE_LONGEST_JOB"
"""Variable with the seconds of the stack file's `longestJob`."""

# In milliseconds. By RabbitMQ's documentation only quorum queues of 4.3 and newer follow it.
_ARGUMENT = "x-consumer-timeout"


def stated_seconds(environment: Mapping[str, str], name: str = CONSUMER_TIMEOUT) -> int:
    """Return the seconds of the variable, or 0 if it states none."""
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else 0


def consumer_arguments(environment: Mapping[str, str]) -> dict[str, int]:
    """Return the arguments of a consumer. Among the arguments of a queue they would stop workers and producers:
    RabbitMQ refuses to declare an existing queue with other arguments.
    """
    seconds = stated_seconds(environment)
    return {_ARGUMENT: seconds * 1000} if seconds else {}


def timeout_problems(environment: Mapping[str, str], time_limit: float = 0) -> list[str]:
    """Return one sentence for each time that the timeout does not exceed. `time_limit`: Celery's, in seconds, or 0."""
    timeout = stated_seconds(environment)
    times = {"longestJob": stated_seconds(environment, LONGEST_JOB), "the application's task_time_limit": time_limit}
    return [
        f"{name} is {seconds:g} s, and consumerTimeout is {timeout} s: RabbitMQ delivers a task of more than "
        f"{timeout} s again while it runs; raise consumer_timeout on the broker, and consumerTimeout of the stack file"
        for name, seconds in times.items()
        if 0 < timeout <= seconds
    ]
