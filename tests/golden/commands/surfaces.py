"""The help of each command, the repository that `ebbtide init` writes, and the policy pack."""

import io
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.core import TyperGroup
from typer.main import get_command

from ebbtide.cli.__main__ import COMMANDS
from ebbtide.jobs import __version__
from ebbtide.project.files import repository_files
from ebbtide.pull_requests.__main__ import main as pull_requests
from tests.golden.commands.case import Case, new_folder
from tests.paths import ROOT

HELP_WIDTHS = (60, 80)  # Click never takes more than 80 columns for help
_WHEEL = f"ebbtide-{__version__}-py3-none-any.whl"


def command_lines() -> Iterator[str]:
    """Every command, and every command of a group."""
    for name, listed in COMMANDS.items():
        command = get_command(import_module(listed.module).command)
        found = command.commands.get(name, command) if isinstance(command, TyperGroup) else command
        yield from (f"{name} {inner}" for inner in found.commands) if isinstance(found, TyperGroup) else (name,)


def groups() -> Iterator[str]:
    """The groups: `ebbtide prices`."""
    yield from dict.fromkeys(name for name, _, inner in (line.partition(" ") for line in command_lines()) if inner)


def help_cases() -> Mapping[str, Case]:
    lines = {"ebbtide": "", **{line.replace(" ", "-"): line for line in (*command_lines(), *groups())}}
    return {f"help/{name}": Case(lines=[f"{line} --help".strip()], widths=HELP_WIDTHS) for name, line in lines.items()}


CASES: Mapping[str, Case] = {
    **help_cases(),
    "help/wrong-use": Case(
        lines=["", "strange", "check --strange", "--prices none check", "sweep demo --traces x --vary y=1", "report"],
        widths=HELP_WIDTHS,
    ),
    "init/repository": Case(
        lines=[
            f"init platform --wheel {_WHEEL}",
            f"init platform --wheel {_WHEEL}",
            "init other --wheel none.whl",
            "init other --wheel strange.whl",
        ],
        files={_WHEEL: "a wheel\n", "strange.whl": "another\n"},
        widths=(80,),
    ),
}


def repository() -> str:
    """The files of `ebbtide init`: links name ours, and of copies of ours a digest suffices."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = Path(folder) / _WHEEL
        wheel.write_text("a wheel\n")
        files = repository_files(wheel)
    ours = {path.read_bytes(): path for name in ("docs", "tools/locks") for path in (ROOT / name).glob("*.*")}
    return "\n".join(_shown(name, content, ours) for name, content in sorted(files.items()))


def _shown(name: str, content: bytes, ours: Mapping[bytes, Path]) -> str:
    if (path := ours.get(content)) is not None:
        return f"--- {name}\nthe same as {path.relative_to(ROOT)}, sha256 {sha256(content).hexdigest()[:16]}\n"
    if name.startswith("wheels/"):
        return f"--- {name}\n"
    if name == "requirements.txt":
        return f"--- {name}\n{_names(content.decode())}"
    return f"--- {name}\n{content.decode()}"


def _names(lock: str) -> str:
    """Versions and hashes of other packages change each week."""
    *others, own = re.split(r"(?m)^(?=ebbtide\[)", lock)
    return re.sub(r"(?m)==.*$", "", re.sub(r"(?m)^    --hash.*\n", "", "".join(others))) + own


class _Sdk:
    """Stands for `pulumi_policy`, and writes down what the pack registers."""

    class EnforcementLevel:
        MANDATORY, ADVISORY = "mandatory", "advisory"

    def __init__(self) -> None:
        self.lines = list[str]()

    def PolicyPack(self, name: str, policies: Sequence[object]) -> None:  # noqa: N802 - the SDK's name
        self.lines = [f"pack {name}, {len(policies)} policies", *map(str, policies)]

    def ResourceValidationPolicy(self, name: str, description: str, _: object, level: str) -> str:  # noqa: N802 - the SDK's name
        return f"{name}, {level}, of each resource: {description}"

    def StackValidationPolicy(self, name: str, description: str, _: object, level: str) -> str:  # noqa: N802 - the SDK's name
        return f"{name}, {level}: {description}"


def policy_pack() -> str:
    from ebbtide.policies.pack.__main__ import main

    sdk = _Sdk()
    proxy: Any = type(sys)("pulumi_policy.proxy")
    proxy.UnknownValueError = ValueError
    with patch.dict(sys.modules, {"pulumi_policy": sdk, "pulumi_policy.proxy": proxy}):  # pyright: ignore[reportArgumentType]
        main()
    project = (ROOT / "ebbtide" / "policies" / "pack" / "PulumiPolicy.yaml").read_text(encoding="utf-8")
    return "\n".join([*sdk.lines, "", "--- PulumiPolicy.yaml", project])


def comment() -> str:
    """The output of `python -m ebbtide.pull_requests` for a short text, long texts and a file that is no text."""
    folded = "<details><summary>all</summary>\n\n```diff\n" + "+ a line of a change\n" * 4_000 + "```\n</details>\n"
    files = {"short.md": "### safe\n", "long.md": folded, "empty.md": " \n"}
    run = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/platform", "GITHUB_RUN_ID": "7"}
    with new_folder() as folder:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        summary = {"GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
        runs: list[tuple[Sequence[str], Mapping[str, str]]] = [([name], {}) for name in (*files, "none.md")]
        runs += [(["long.md"], {**run, **summary}) for _ in range(13)] + [([], {})]
        parts = [
            f"$ {' '.join(names)} {sorted(environment)}\n{_commented(names, environment)}"
            for names, environment in runs
        ]
        kept = (folder / "summary.md").read_text(encoding="utf-8")
    return "\n".join([*dict.fromkeys(parts), f"--- summary.md, {len(kept)} characters\n{kept[-200:]}"])


def _commented(names: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the length and the end of a long text."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = pull_requests(names, environment)
    text = out.getvalue()
    shown = text if len(text) < 1_000 else f"{text[:120]}\n({len(text)} characters)\n{text[-300:]}"
    return f"exit code {code}\n{shown}{errors.getvalue()}"
