"""No secret reaches a message, however broken the file is."""

from pathlib import Path

import pytest

from tests.builders.settings import problems_of, shortest, told

CANARY = "hunter2canary"


@pytest.mark.parametrize(
    "more",
    [
        f"ebbtide:redisPassword: {CANARY}",
        f"ebbtide:redisPasword: {CANARY}",
        f"ebbtide:redisPasword: {{ secure: {CANARY} }}",
        f"ebbtide:redis: {{ kind: url, url: 'redis://:{CANARY}@cache:6379/0' }}",
        f"ebbtide:redis: {{ kind: url, url: 'redis://user:pa/{CANARY}@cache:6379/0' }}",
        f"ebbtide:redis: {{ password: {CANARY} }}",
        f"ebbtide:redis: {{ url: {{ secure: {CANARY} }} }}",
        f"ebbtide:redis: [ {CANARY} ]",
        f"ebbtide:costs: {{ tags: {{ token: {{ secure: {CANARY} }} }} }}",
        f"ebbtide:workloads: {{ api: {{ secure: {CANARY} }} }}",
        f"aws:secretKey: {CANARY}\naws:region: {CANARY}",
        f"registry:token: {CANARY}",
        f"ebbtide:egress: {{ httpsProxy: 'http://bob:{CANARY}@proxy:3128' }}",
        f"ebbtide:egress: {{ httpsProxy: 'bob:{CANARY}@proxy:3128' }}",
        f"ebbtide:egress: {{ caBundle: '-----BEGIN PRIVATE KEY----- {CANARY}' }}",
        f"ebbtide:images: {{ registry: 'bob:{CANARY}@mirror.example.com' }}",
        f"ebbtide:images: {{ pullSecrets: [{{ secure: {CANARY} }}] }}",
        f"ebbtide:controller: {{ image: 'bob:{CANARY}@registry.example.com/ebbtide:1' }}",
        f"ebbtide:controller: {{ closingGuard: 'redis://:{CANARY}@cache:6379' }}",
        f"ebbtide:secrets: {CANARY}",
        f"ebbtide:secrets: [ {CANARY} ]",
        f"ebbtide:secrets: {{ api: {CANARY} }}",
        f"ebbtide:secrets: {{ api: {{ TOKEN: {CANARY} }} }}",
        f"ebbtide:secrets: {{ api: {{ TOKEN: {{ secure: {CANARY}, more: {CANARY} }} }} }}",
        f"ebbtide:secrets: {{ Api: {{ TOKEN: {{ secure: {CANARY} }} }} }}",
        f"ebbtide:digestKey: {CANARY}",
        f"ebbtide:secret: {{ api: {{ TOKEN: {{ secure: {CANARY} }} }} }}",
        f"ebbtide:secret: {{ api: {{ TOKEN: {CANARY} }} }}",
        f"ebbtide:workloads: {{ api: {{ env: {{ TOKEN: {{ secure: {CANARY} }} }} }} }}",
        f"ebbtide:workloads: {{ api: {{ args: [{{ secure: {CANARY} }}] }} }}",
        f"ebbtide:redisPassword: {{ secure: *{CANARY} }}",
        f"ebbtide:redisPassword: {{ secure: '{CANARY} }}",
        f"ebbtide:redisPassword: {{ secure: !<{CANARY}> x, b: !{CANARY}!x y }}",
    ],
)
def test_a_secret_is_never_shown(more: str, tmp_path: Path) -> None:
    problems = problems_of(f"encryptionsalt: {CANARY}\n" + shortest(train="maxx: 3", more=more), tmp_path)

    assert problems
    assert CANARY not in "".join(f"{problem}{problem!r}" for problem in problems)


def test_a_password_in_the_clear_is_to_become_a_secret(tmp_path: Path) -> None:
    problems = problems_of(shortest(more=f"ebbtide:redisPassword: {CANARY}"), tmp_path)

    assert told(problems[0]).tells("secret.in-the-clear", "pulumi config set --secret ebbtide:redisPassword")


def test_a_plain_section_may_not_hold_a_secret(tmp_path: Path) -> None:
    problems = problems_of(shortest(more=f"ebbtide:costs: {{ tags: {{ a: {{ secure: {CANARY} }} }} }}"), tmp_path)

    assert told(problems[0]).tells("secret.not-here", "ebbtide:costs.tags.a:", "found (a secret)")
