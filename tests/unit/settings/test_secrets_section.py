"""The section of secrets: names and keys are parsed, values never; misplaced secrets get a hint to it."""

import json
from pathlib import Path

import pytest
import yaml

from ebbtide.settings import StackInvalid
from ebbtide.settings.checks.secrets import wrong_references
from ebbtide.settings.file.contents import no_files
from ebbtide.settings.load import read_stack, settings_of_texts
from ebbtide.settings.sections.secrets import SecretReference
from tests.builders.mutants import as_pulumi_passes
from tests.builders.settings import loaded, problem_of, problems_of, shortest, stack_file

KEYED = "ebbtide:digestKey: { secure: AAA }"
SECRETS = f"{KEYED}\nebbtide:secrets: {{ api: {{ TOKEN: {{ secure: BBB }}, tls.crt: {{ secure: CCC }} }} }}"


def section(text: str) -> str:
    return shortest(more=f"{KEYED}\nebbtide:secrets: {text}")


def test_names_and_keys_are_read_and_no_value(tmp_path: Path) -> None:
    settings = loaded(shortest(more=SECRETS), tmp_path)

    assert settings.secrets == {"api": ("TOKEN", "tls.crt")}
    assert "BBB" not in repr(settings)


def test_what_pulumi_hands_over_gives_what_the_file_gives(tmp_path: Path) -> None:
    text = shortest(more=SECRETS)
    texts, _ = as_pulumi_passes(yaml.safe_load(text)["config"])
    decrypted = {"ebbtide:secrets": json.dumps({"api": {"tls.crt": "CCC", "TOKEN": "BBB"}}), "ebbtide:digestKey": "A"}

    assert settings_of_texts({**texts, **decrypted}, stack="acme", file="config", reader=no_files) == loaded(
        text, tmp_path
    )


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [
        ("{ api: { TOKEN: hunter2 } }", "secret.in-the-clear", ["--path 'ebbtide:secrets.api.TOKEN'"]),
        ("{ api: { TOKEN: 12345 } }", "secret.in-the-clear", ["ebbtide:secrets.api.TOKEN:"]),
        ("{ api: { tls.key: x } }", "secret.in-the-clear", ["""'ebbtide:secrets.api["tls.key"]'"""]),
        ("{ api: { TOKEN: { in: { secure: A } } } }", "secret.in-the-clear", ["found a mapping"]),
        ("{ api: { a/b: { secure: A } } }", "secret.key", ["'a/b'"]),
        ("{ api: { ..: { secure: A } } }", "secret.key", ["'..'"]),
        ("{ Api: { TOKEN: { secure: A } } }", "name.form", ["'Api'"]),
        ("{ ebbtide-redis: { url: { secure: A } } }", "name.form", ["'ebbtide-redis'"]),
        ("{ api: {} }", "secret.no-keys", ["found no key"]),
        ("{ api: { secure: A } }", "secret.no-keys", ["found (a secret)", "--path 'ebbtide:secrets.api.KEY'"]),
        ("{ api: hunter2 }", "secret.no-keys", ["found a value in the clear"]),
        ("{ secure: A }", "secrets.form", ["found (a secret)", "--path 'ebbtide:secrets.NAME.KEY'"]),
        ("hunter2", "secrets.form", ["found a value in the clear"]),
    ],
)
def test_what_is_no_encrypted_value_below_a_name_and_a_key_is_refused(
    text: str, code: str, values: list[str], tmp_path: Path
) -> None:
    problem = problem_of(section(text), tmp_path)

    assert problem.tells(code, *values)
    assert "hunter2" not in problem
    assert "12345" not in problem


def test_all_faults_are_told_at_once_each_in_its_line(tmp_path: Path) -> None:
    more = "ebbtide:secrets:\n  api:\n    A: x\n    B: x\n  web: {}"

    problems = problems_of(shortest(more=more), tmp_path)

    assert [(problem.line, problem.path) for problem in problems] == [
        (7, "ebbtide:secrets"),  # the key of the digests is missing
        (8, "ebbtide:secrets.api.A"),
        (9, "ebbtide:secrets.api.B"),
        (10, "ebbtide:secrets.web"),
    ]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("ebbtide:secrets: { api: { TOKEN: { secure: A } } }", "digest-key.missing"),
        ("ebbtide:digestKey: abcdefghijklmnopqrstuvwxyz0123456789", "secret.in-the-clear"),
    ],
)
def test_the_key_of_the_digests_is_a_secret_and_there(more: str, code: str, tmp_path: Path) -> None:
    problem = problem_of(shortest(more=more), tmp_path)

    assert problem.tells(code, 'pulumi config set --secret ebbtide:digestKey "$(openssl rand -hex 32)"')
    assert "abcdefgh" not in problem


def test_a_stack_without_secrets_needs_no_key(tmp_path: Path) -> None:
    assert loaded(shortest(), tmp_path).secrets == {}


def test_an_encrypted_value_of_a_pod_is_sent_to_the_section_of_secrets(tmp_path: Path) -> None:
    problem = problem_of(shortest(train="args: [--token, { secure: A }]"), tmp_path)

    assert problem.tells("secret.not-here", "ebbtide:workers.train.args[1]:", "hide all of ebbtide:workers")
    assert problem.tells("secret.not-here", "'ebbtide:secrets.NAME.KEY'", "{ secret: NAME, key: KEY }")


def test_a_misspelt_key_with_a_secret_is_told_as_misspelt(tmp_path: Path) -> None:
    problem = problem_of(shortest(more="ebbtide:secret: { api: { TOKEN: { secure: A } } }"), tmp_path)

    assert problem.tells("key.unknown", "did you mean ebbtide:secrets?")


def test_a_secret_under_an_unknown_key_is_refused_only_in_ebbtides_namespace(tmp_path: Path) -> None:
    (problem,) = problems_of(shortest(more="ebbtide:token: { secure: A }"), tmp_path)

    assert (problem.code, problem.path) == ("key.unknown", "ebbtide:token")
    assert loaded(shortest(more="other:token: { secure: A }"), tmp_path).secrets == {}


AT = ("ebbtide:workloads", "api", "env", "TOKEN")


def test_a_reference_to_a_key_that_the_stacks_secret_lacks_is_told_with_the_nearest() -> None:
    (finding,) = wrong_references([SecretReference(AT, "api", ("TOKN",))], {"api": ("TOKEN", "tls.crt")})

    assert (finding.code, finding.at, finding.found) == ("secret.key-unknown", AT, "'TOKN'")
    assert finding.hint.startswith("did you mean TOKEN? or set it: pulumi config set --secret --path")


@pytest.mark.parametrize(
    "reference",
    [SecretReference(AT, "api", ("TOKEN",)), SecretReference(AT, "api"), SecretReference(AT, "others", ("TOKN",))],
)
def test_keys_that_are_there_whole_secrets_and_secrets_of_others_are_fine(reference: SecretReference) -> None:
    assert list(wrong_references([reference], {"api": ("TOKEN",)})) == []


def test_a_pull_secret_and_a_certificate_of_the_stack_need_the_keys_that_kubernetes_asks_for(tmp_path: Path) -> None:
    more = (
        "ebbtide:images: { pullSecrets: [regcred] }\nebbtide:redis: { tls: { secret: redis-tls } }\n"
        f"{KEYED}\nebbtide:secrets:\n"
        "  regcred: { login: { secure: A } }\n  redis-tls: { tls.crt: { secure: A } }"
    )

    faults = [(problem.code, problem.path, problem.found) for problem in problems_of(shortest(more=more), tmp_path)]

    assert faults == [
        ("secret.key-unknown", "ebbtide:images.pullSecrets[0]", "'.dockerconfigjson'"),
        ("secret.key-unknown", "ebbtide:redis.tls.secret", "'tls.key'"),
        ("secret.key-unknown", "ebbtide:redis.tls.secret", "'ca.crt'"),
    ]


ENCRYPTED = "v1:MDEyMzQ1Njc4OTAx:MDEyMzQ1Njc4OTAxMjM0NQ=="
"""In the form of an encrypted empty text: a nonce of 12 bytes and a tag of 16."""

HELD_BACK = (
    "other:token: { secure: PLACEHOLDER }\nebbtide:redis: { kind: elasticache }\n"
    "ebbtide:redisPassword: { secure: PLACEHOLDER }\nebbtide:digestKey: { secure: PLACEHOLDER }\n"
    f'ebbtide:secrets: {{ web: {{ tls.key: {{ secure: PLACEHOLDER }}, TOKEN: {{ secure: "{ENCRYPTED}" }} }} }}'
)


def test_check_warns_once_of_each_placeholder_with_its_line_and_command(tmp_path: Path) -> None:
    path = stack_file(shortest(more=HELD_BACK), tmp_path)
    stack = read_stack(str(path))

    assert stack.settings().redis_password_set
    set_secret = "set the value: pulumi config set --secret"
    assert [str(caution).replace(f"{tmp_path}/", "") for caution in stack.secret_cautions()] == [
        f"{path.name}:{line}: {key}: a placeholder, which pulumi up refuses; {set_secret} {argument} --stack acme"
        for line, key, argument in (
            (6, "other:token", "other:token"),
            (8, "ebbtide:redisPassword", "ebbtide:redisPassword"),
            (9, "ebbtide:digestKey", 'ebbtide:digestKey "$(openssl rand -hex 32)"'),
            (10, "ebbtide:secrets.web.tls.key", """--path 'ebbtide:secrets.web["tls.key"]'"""),
        )
    ]


@pytest.mark.parametrize(
    "text", [ENCRYPTED, "A" * 38 + "==", "AAAB" * 10, "AAA_" * 10, f"'{'AAAB' * 5}\n\n      {'AAAB' * 5}'"]
)
def test_a_text_in_a_form_that_pulumi_writes_has_no_warning(text: str, tmp_path: Path) -> None:
    more = f"ebbtide:redisPassword: {{ secure: {text} }}"

    assert read_stack(str(stack_file(shortest(more=more), tmp_path))).secret_cautions() == []


@pytest.mark.parametrize(
    "text",
    [
        "hunter2hunter2xx",
        "changeme",
        "placeholder",
        "v1:PLACEHOLDER",
        "A" * 36,
        "A" * 41,  # no Base64
        ENCRYPTED.removeprefix("v1:"),
        ENCRYPTED.replace("v1:", "v2:"),
        ENCRYPTED.replace("v1:MDEy", "v1:"),
        ENCRYPTED.replace("MjM0NQ==", ""),
        ENCRYPTED + ":" + "AAAB" * 10,
    ],
)
def test_check_warns_of_a_text_in_another_form_without_showing_it(text: str, tmp_path: Path) -> None:
    path = stack_file(shortest(more=f"other:token: a\nebbtide:redisPassword: {{ secure: {text} }}"), tmp_path)

    (caution,) = read_stack(str(path)).secret_cautions()

    assert (caution.code, caution.blocks) == ("secret.perhaps-not-encrypted", False)
    assert caution.place == f"{path}:7: ebbtide:redisPassword"
    assert "pulumi config set --secret ebbtide:redisPassword --stack acme; and change the value" in caution.text
    assert text not in str(caution)


@pytest.mark.parametrize(
    ("more", "command"),
    [
        ("ebbtide:redisPassword: { secure: 'hunter2 hunter2' }", "--secret ebbtide:redisPassword;"),
        ("ebbtide:redisPassword: { secure: '' }", "--secret ebbtide:redisPassword;"),
        (f"{KEYED}\nebbtide:secrets: {{ api: {{ TOKEN: {{ secure: hunter2! }} }} }}", "'ebbtide:secrets.api.TOKEN';"),
    ],
)
def test_a_text_that_pulumi_cannot_have_encrypted_is_refused_unseen(more: str, command: str, tmp_path: Path) -> None:
    problem = problem_of(shortest(more=more), tmp_path)

    assert problem.tells("secret.not-encrypted", command, "change the value, it has been in a file")
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    "text", ["AAABADhQ+/w=", "v1:Zm9v:YmFy", "AAABADhQ-_w", "PLACEHOLDER", '"AAAB\\nADhQ"', '"v1:Zm9v:YmFy"']
)
def test_what_may_be_encrypted_is_accepted(text: str, tmp_path: Path) -> None:
    assert loaded(shortest(more=f"ebbtide:redisPassword: {{ secure: {text} }}"), tmp_path).redis_password_set


def test_values_that_pulumi_passes_are_refused_while_they_are_placeholders() -> None:
    texts, _ = as_pulumi_passes(yaml.safe_load(shortest())["config"])
    held_back = {"ebbtide:secrets": json.dumps({"api": {"TOKEN": "PLACEHOLDER", "OTHER": "b"}})}

    with pytest.raises(StackInvalid) as invalid:
        settings_of_texts({**texts, **held_back, "ebbtide:digestKey": "A"}, stack="acme", file="c", reader=no_files)

    (problem,) = invalid.value.problems
    assert (problem.code, problem.path) == ("secret.placeholder", "ebbtide:secrets.api.TOKEN")
    assert problem.remedy == "pulumi config set --secret --path 'ebbtide:secrets.api.TOKEN'"
