"""The rights of a Redis user that sends jobs to the stack's pools and reads their results.

Source of the keys and channels of each framework: docs/reference/queues.md, where they are tried with real workers.
"""

from collections.abc import Iterator, Sequence

from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.workers import Source, SourceKind
from ebbtide.vocabulary.controller_config import CeleryKeys

_COMMANDS = "+@all -@admin -@dangerous +info +client|list +client|unblock"


def sender_rights(rule: str, settings: StackSettings) -> Sequence[str]:
    """Return the words of an ACL rule without its login: rights on the keys of all pools, and on the user's own keys,
    which begin with the rule's name and a colon.
    """
    adopted = [rule.pool for rule in settings.adopted.values() if rule.pool is not None]
    sources = [pool.source for pool in (*settings.workers.values(), *adopted)]
    keys = dict.fromkeys([f"~{rule}:*", "~ebbtide:*", *(key for source in sources for key in _keys(source))])
    channels = dict.fromkeys(channel for source in sources for channel in _channels(source))
    return ["resetkeys", *keys, "resetchannels", *channels, *_COMMANDS.split()]


def _keys(source: Source) -> Iterator[str]:
    match source.kind:
        case SourceKind.RQ:
            yield "~rq:*"
        case SourceKind.LIST:
            yield from (f"~{queue}{more}" for queue in source.queues for more in ("", ":*"))
        case SourceKind.CELERY if source.broker is None:
            keys = source.celery_keys or CeleryKeys()
            stems = (*source.queues, keys.unacked, keys.unacked_index, "_kombu.", "celeryev", "celery-task-meta-")
            yield from (f"~{keys.prefix}{stem}*" for stem in stems)
            yield f"~{keys.prefix}*.celery.pidbox*"
        case SourceKind.CELERY | SourceKind.CONSUMER:
            pass  # a broker has its queues


def _channels(source: Source) -> Iterator[str]:
    if source.kind is not SourceKind.LIST and source.broker is None:
        yield "&*" if source.kind is SourceKind.CELERY else "&rq:*"
