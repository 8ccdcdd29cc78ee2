"""Which line of a program's log is shown when it has ended."""

import pytest
from control_plane.plane.last_words import last_words

ETCD = '{"level":"fatal","caller":"etcdmain/etcd.go:183","msg":"discovery failed","error":"listen tcp: in use"}'
PANIC = """{"level":"info","msg":"starting"}
panic: failed to create WAL

goroutine 1 [running]:
main.main()
\tgo.etcd.io/etcd/server/v3@v3.6.7/main.go:31 +0x28
"""
KLOG = """I1121 14:39:25.1 27356 server.go:1] starting
E1121 14:39:25.362071   27356 run.go:72] "command failed" err="failed to listen"
I1121 14:39:25.4 27356 server.go:2] ending
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "no output"),
        ("one\n\ntwo\n\n", "two"),
        (ETCD, "discovery failed: listen tcp: in use"),
        (ETCD[:69], "discovery fai"),  # the disk was full
        (PANIC, "panic: failed to create WAL"),
        (KLOG, '"command failed" err="failed to listen"'),
    ],
    ids=["nothing", "plain", "JSON", "JSON that is cut off", "panic", "klog"],
)
def test_the_line_that_tells_why_is_shown(log: str, words: str) -> None:
    assert last_words(log) == words


def test_a_long_line_is_cut() -> None:
    assert len(last_words("x" * 10_000)) < 400
