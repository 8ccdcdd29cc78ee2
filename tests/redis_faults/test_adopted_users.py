"""The users that the in-cluster Redis gets for adopted pods, on a real server that starts with the same options."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError
from rq import Queue

from components.redis.users import RedisAclUser, password_variable, user_name, user_options, user_password
from ebbtide.settings.redis_rights import sender_rights
from tests.builders.settings import loaded, shortest
from tests.redis_faults.redis_server import Server, redis_server
from tests.redis_faults.rights import make_user

pytestmark = pytest.mark.redis_server

STACK = shortest(
    more="""
      ebbtide:cluster: { version: "1.36" }
      ebbtide:redisPassword: { secure: "v1:x" }
      ebbtide:adopted:
        api: { namespace: api, selector: { app: api }, category: flexible, pods: 3, cpu: 1, memory: 2Gi, redis: true }
    """
)
PASSWORD = user_password("secret", "api")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    settings = loaded(STACK, tmp_path)
    users = {"api": RedisAclUser(rule=settings.adopted["api"], rights=sender_rights("api", settings))}
    options = [word.replace(f"$({password_variable('api')})", PASSWORD) for word in user_options(users)]
    with redis_server(tmp_path, "--requirepass", "secret", *options) as started:
        yield started


def as_user(server: Server, password: str = PASSWORD) -> Redis:
    return Redis(port=server.port, username=user_name("api"), password=password)


def test_the_user_sends_jobs_and_reads_their_state_and_nothing_else(server: Server) -> None:
    with as_user(server) as client:
        job = Queue("train", connection=client).enqueue("some.function")
        client.set("api:cache", "x")

        assert job.get_status(refresh=True) == "queued"
        for refused in ("GET billing", "FLUSHALL", "CONFIG GET requirepass"):
            with pytest.raises(NoPermissionError):
                client.execute_command(*refused.split())


def test_the_rights_are_those_that_were_tried_with_real_workers(server: Server) -> None:
    """The page's own, plus the user's own keys."""
    with Redis(port=server.port, password="secret") as admin:
        make_user(admin, "jobs", "rq", "train")
        page, own = (cast("dict[str, Any]", admin.acl_getuser(name)) for name in ("jobs", user_name("api")))

    assert {*own["keys"]} == {*page["keys"], "~api:*"}
    assert (own["channels"], own["commands"]) == (page["channels"], page["commands"])


def test_each_rule_has_another_password() -> None:
    assert len({user_password(text, rule) for text in ("one", "two") for rule in ("api", "web")}) == 4
