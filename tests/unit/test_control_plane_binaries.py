"""Where the control plane's programs come from, with a stand-in for Go: the real build takes six minutes."""

from pathlib import Path

import pytest
from control_plane import binaries
from control_plane.binaries import PACKAGES, MissingBinaries

STAND_IN = """#!/bin/sh
# go build … -o FILE PACKAGE
while [ "$1" != "-o" ]; do shift; done
echo "$3" >> "$BUILT"
[ "$3" != "$BROKEN" ] || exit 1
printf '#!/bin/sh\\n' > "$2" && /bin/chmod +x "$2"
"""


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with Go and nothing built; the file lists the packages built since."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(STAND_IN)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent))
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BUILT", str(tmp_path / "built"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "built"


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.touch(mode=0o755)
    return path


def test_a_second_build_builds_nothing(built: Path) -> None:
    binaries.build(lambda _: None)
    once = built.read_text().split()
    binaries.build(lambda _: None)

    assert sorted(once) == sorted(package for _, package in PACKAGES.values())
    assert built.read_text().split() == once
    assert set(binaries.binaries().values()) == {binaries.cache_directory() / name for name in PACKAGES}


def test_what_is_at_hand_is_not_built(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = program(tmp_path / "assets", "etcd")
    on_path = program(tmp_path / "bin", "kwok")
    program(tmp_path / "bin", "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(named.parent))

    binaries.build(lambda _: None)

    assert (binaries.find("etcd"), binaries.find("kwok")) == (named, on_path)
    assert not {PACKAGES["etcd"][1], PACKAGES["kwok"][1]} & set(built.read_text().split())


def test_a_build_that_fails_leaves_nothing_that_looks_finished(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", PACKAGES["kube-scheduler"][1])

    with pytest.raises(MissingBinaries, match="go build of kube-scheduler failed"):
        binaries.build(lambda _: None)

    assert "kube-scheduler" in binaries.missing()
    assert not [file for file in binaries.cache_directory().iterdir() if "kube-scheduler" in file.name]


def test_without_go_one_line_says_how_to_get_them(built: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "go").unlink()

    with pytest.raises(MissingBinaries) as error:
        binaries.build(lambda _: None)

    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in ("etcd", "kwok", "install Go", "build.py", "KUBEBUILDER_ASSETS"))


def test_other_versions_have_a_cache_of_their_own(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = binaries.cache_directory()
    monkeypatch.setattr(binaries, "MODULES", tmp_path)
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "go.mod").write_text("module one\n")
    one = binaries.cache_directory()
    (tmp_path / "etcd" / "go.mod").write_text("module two\n")

    assert len({ours, one, binaries.cache_directory()}) == 3
