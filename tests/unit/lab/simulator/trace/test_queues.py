"""`--queues`: queues of a trace under the names that the stacks have."""

import pytest

from ebbtide.lab.simulator.trace.queues import with_queue_names
from ebbtide.lab.simulator.trace.traces import TraceError
from tests.builders.simulator import a_job, a_pool, a_stack, a_trace

STACK = a_stack({"train": a_pool("train"), "embed": a_pool("embed")}, {})
TRACE = a_trace([a_job(0, queue="mails"), a_job(1, queue="video"), a_job(2, queue="train")])


def test_queues_have_their_new_names_and_the_others_their_own() -> None:
    (renamed,) = with_queue_names([TRACE], {"mails": "embed", "video": "train"}, [STACK])

    assert [job.queue for job in renamed.jobs] == ["embed", "train", "train"]
    assert renamed.queues == {"embed", "train"}
    assert renamed.queue_names == {"mails": "embed", "video": "train"}


def test_every_queue_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(TraceError) as refused:
        with_queue_names([TRACE], {"mail": "embed", "news": "train", "video": "gpu"}, [STACK])

    assert str(refused.value).splitlines() == [
        "--queues mail=embed: wanted a queue of the trace, found 'mail'; did you mean mails?",
        "--queues news=train: wanted a queue of the trace, found 'news'; known here: mails, train, video",
        "--queues video=gpu: wanted a queue that a pool serves (source.queues), found 'gpu'; known here: embed, train",
    ]


def test_a_queue_of_one_of_several_stacks_and_traces_will_do() -> None:
    other = a_trace([a_job(0, queue="news")])

    first, second = with_queue_names([TRACE, other], {"news": "ocr"}, [STACK, a_stack({"ocr": a_pool("ocr")}, {})])

    assert [job.queue for job in (*first.jobs, *second.jobs)] == ["mails", "video", "train", "ocr"]
