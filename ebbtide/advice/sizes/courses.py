"""Courses of weeks, asked for in pieces.

A question about single containers reads every sample of them: of 500 pods in two weeks 20 million, which takes a core
some 12 s, more than a link waits for. In pieces of two days none takes long, and Prometheus holds no more than that.
"""

from datetime import datetime, timedelta

from ebbtide.monitoring.client import Course, Prometheus, Series, Silent, Unknown

PIECE = timedelta(days=2)


def course(
    prometheus: Prometheus, question: str, since: datetime, until: datetime, step: timedelta, called: str
) -> Course:
    """The values from `since` until `until`. A piece without any is a gap; one that is unknown makes all of it so."""
    found: dict[frozenset[tuple[str, str]], list[tuple[datetime, float]]] = {}
    silent: Silent | None = None
    begin, count = since, max(1, int(PIECE / step))
    while begin <= until:
        end = min(begin + (count - 1) * step, until)
        answer = prometheus.over(question, begin, step, stands_on=(), called=called, until=end)
        if isinstance(answer, Silent):
            silent = answer
        elif isinstance(answer, Unknown):
            return answer
        else:
            for one in answer:
                found.setdefault(frozenset(one.labels.items()), []).extend(one.points)
        begin = end + step
    if not found and silent is not None:
        return silent
    return tuple(Series(labels=dict(labels), points=tuple(points)) for labels, points in found.items())
