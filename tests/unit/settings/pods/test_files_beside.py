"""Files in the stack file's folder that are mounted into pods."""

from pathlib import Path

import pytest

from tests.builders.settings import loaded, problem_of, shortest

MOST = 2**20


def with_file(path: str) -> str:
    volume = f"conf: {{ at: /etc/app, files: {{ app.toml: {{ file: {path} }} }} }}"
    return shortest(train=f"volumes: {{ {volume} }}")


def text_of(path: str, folder: Path) -> str:
    files = loaded(with_file(path), folder).workers["train"].volumes["conf"].files
    assert files is not None
    return files["app.toml"]


def test_a_file_beside_the_stack_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "app.toml").write_text("debug = true\n", encoding="utf-8")

    assert text_of("conf/app.toml", tmp_path) == "debug = true\n"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing.toml", "file.missing"),
        ("../secret", "file.outside"),
        ("/etc/hostname", "file.outside"),
        ("link", "file.outside"),
        ("bytes", "file.not-utf-8"),
        ("large", "file.unreadable"),
        ("folder", "file.unreadable"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(path: str, code: str, tmp_path: Path) -> None:
    stacks = tmp_path / "stacks"
    (stacks / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    (stacks / "link").symlink_to(tmp_path / "secret")
    (stacks / "bytes").write_bytes(b"\xff\xfe")
    (stacks / "large").write_bytes(b"x" * (MOST + 1))

    assert problem_of(with_file(path), stacks).tells(code, "volumes.conf.files.app.toml.file: wanted", path)


def test_the_files_of_a_volume_fit_a_config_map_together(tmp_path: Path) -> None:
    (tmp_path / "half").write_bytes(b"x" * (MOST // 2))
    files = "a: { file: half }, b: { file: half }"
    text = shortest(train=f"volumes: {{ conf: {{ at: /etc/app, files: {{ {files} }} }} }}")

    assert problem_of(text, tmp_path).tells("volume.files-too-large", "volumes.conf.files: wanted", "1.0 MiB")
