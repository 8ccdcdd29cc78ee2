"""Where the control plane's programs come from, with a stand-in for Go: the real build takes six minutes."""

import subprocess
import sys
from pathlib import Path

import pytest
from control_plane.plane import binaries
from control_plane.plane.binaries import PACKAGES, MissingBinaries

from tests.builders.components import ROOT

VERSIONS = {"etcd": "etcd Version: 3.6.9", "kwok": "kwok version v0.7.1 go1.26.8 (linux/amd64)"}
KUBERNETES = "Kubernetes v1.36.9"

# go version, or: go build … -o FILE PACKAGE
STAND_IN = """#!/bin/sh
[ "$1" != version ] || { echo "go version $GO_SAYS linux/amd64"; exit 0; }
while [ "$1" != "-o" ]; do shift; done
echo "$3" >> "$BUILT"
if [ "$3" = "$BROKEN" ]; then
  echo "go: downloading example.com/one v1.0.0" >&2; echo "# example.com/one" >&2
  echo "one.go:7:2: undefined: two" >&2; echo "one.go:9:2: undefined: three" >&2; exit 1
fi
case "$3" in */etcd/*) says='etcd Version: 3.6.7';; */kwok/*) says='kwok version v0.7.0';; *) says="$KUBE_SAYS";; esac
printf '#!/bin/sh\\necho "%s"\\n' "$says" > "$2" && /bin/chmod +x "$2"
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
    monkeypatch.setenv("GO_SAYS", "go1.26.8")
    monkeypatch.setenv("KUBE_SAYS", "Kubernetes v1.36.3")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "built"


def build() -> list[str]:
    """What it tells."""
    told: list[str] = []
    binaries.build(told.append)
    return told


def program(folder: Path, name: str, says: str = "") -> Path:
    """As other builds of the wanted minor version are."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{says or VERSIONS.get(name, KUBERNETES)}"\n')
    path.chmod(0o755)
    return path


def test_a_second_build_builds_nothing(built: Path) -> None:
    build()
    once = built.read_text().split()
    build()

    assert sorted(once) == sorted(package for _, package in PACKAGES.values())
    assert built.read_text().split() == once
    assert set(binaries.binaries().values()) == {binaries.cache_directory() / name for name in PACKAGES}


def test_what_is_at_hand_is_not_built(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = program(tmp_path / "assets", "etcd")
    on_path = program(tmp_path / "bin", "kwok")
    program(tmp_path / "bin", "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(named.parent))

    build()

    assert (binaries.find("etcd"), binaries.find("kwok")) == (named, on_path)
    assert not {PACKAGES["etcd"][1], PACKAGES["kwok"][1]} & set(built.read_text().split())


@pytest.mark.parametrize(
    ("name", "says", "is_version"),
    [("kubectl", "Client Version: v1.27.3", "v1.27.3"), ("kube-apiserver", "Kubernetes v1.30.0", "v1.30.0")],
)
def test_a_program_of_another_version_is_named_and_passed_over(
    built: Path, tmp_path: Path, name: str, says: str, is_version: str
) -> None:
    old = program(tmp_path / "bin", name, says)

    with pytest.raises(MissingBinaries) as error:
        binaries.binaries()
    told = build()

    assert f"{name} v1.36.3; {old} (from PATH) is {is_version}" in str(error.value)
    assert f"passed over: {old} (from PATH) is {is_version}" in told
    assert binaries.find(name) == binaries.cache_directory() / name


@pytest.mark.parametrize("rest", [b"", b"\x7fELF cut off"])
def test_a_file_in_the_cache_that_is_no_program_is_named_and_built_anew(built: Path, rest: bytes) -> None:
    build()
    broken = binaries.cache_directory() / "etcd"
    broken.write_bytes(rest)

    with pytest.raises(MissingBinaries, match=f"etcd v3.6.7; {broken} .from the cache. cannot be run: Exec format"):
        binaries.binaries()
    build()

    assert binaries.find("etcd") == broken
    assert built.read_text().split().count(PACKAGES["etcd"][1]) == 2


def test_a_file_in_the_cache_that_may_not_be_run_is_built_anew(built: Path) -> None:
    build()
    (binaries.cache_directory() / "kwok").chmod(0o644)

    assert binaries.missing() == ["kwok"]
    build()
    assert binaries.missing() == []


def test_a_program_is_asked_once_for_its_version(built: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    path = program(tmp_path / "bin", "etcd")
    path.write_text(f'#!/bin/sh\necho x >> {asked}\necho "etcd Version: 3.6.7"\n')

    assert binaries.find("etcd") == binaries.find("etcd") == path
    assert asked.read_text().split() == ["x"]


def test_a_build_that_fails_shows_its_first_error_and_leaves_nothing(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", PACKAGES["kube-scheduler"][1])

    with pytest.raises(MissingBinaries) as error:
        build()

    assert str(error.value) == "control plane: go build of kube-scheduler failed: one.go:7:2: undefined: two"
    assert "kube-scheduler" in binaries.missing()
    assert not [file for file in binaries.cache_directory().iterdir() if "kube-scheduler" in file.name]


def test_a_build_that_makes_something_else_is_not_taken(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBE_SAYS", "Kubernetes v0.0.0-master")

    with pytest.raises(MissingBinaries, match=r"does not fit: .*kube-apiserver v1.36.3; .* is v0.0.0"):
        build()


def test_what_a_killed_build_left_is_removed_by_the_next(built: Path) -> None:
    left = binaries.cache_directory() / ".kwok.123"
    left.parent.mkdir(parents=True)
    left.touch()

    build()

    assert not left.exists()


def test_without_go_one_line_says_how_to_get_them(built: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "go").unlink()

    with pytest.raises(MissingBinaries) as error:
        build()

    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in ("etcd", "kwok", "install Go 1.26", "build.py", "KUBEBUILDER_ASSETS"))


@pytest.mark.parametrize(
    ("stand_in", "why"),
    [
        (STAND_IN, "is go version go1.19.2 linux/amd64"),
        ("#!/bin/sh\necho 'go: go.mod requires go >= 1.26 (running go 1.24)' >&2; exit 1\n", "requires go >= 1.26"),
        ("", "cannot be run: Exec format error"),
    ],
    ids=["too old", "too old to fetch a newer one", "broken"],
)
def test_a_go_that_does_not_do_is_named(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: str, why: str
) -> None:
    go = tmp_path / "bin" / "go"
    go.write_text(stand_in)
    monkeypatch.setenv("GO_SAYS", "go1.19.2")

    with pytest.raises(MissingBinaries) as error:
        build()

    assert str(error.value).startswith(f"control plane: Go 1.26.0 or later is needed (https://go.dev/dl); {go} ")
    assert why in str(error.value)


def test_a_cache_that_cannot_be_written_is_named(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path / "file" / "cache"))

    with pytest.raises(MissingBinaries, match=r"cannot write to the cache .*/file/cache/.*EBBTIDE_CACHE"):
        build()


def test_without_a_home_programs_at_hand_still_do(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EBBTIDE_CACHE")
    monkeypatch.setattr(Path, "home", homeless)
    for name in PACKAGES:
        program(tmp_path / "bin", name)
    at_hand = binaries.binaries()
    (tmp_path / "bin" / "kwok").unlink()

    assert at_hand["kwok"] == tmp_path / "bin" / "kwok"
    with pytest.raises(MissingBinaries, match="no home folder for the cache: name a folder in EBBTIDE_CACHE"):
        build()


def homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")  # as pathlib has it


def test_the_command_prints_one_line_and_fails(built: Path, tmp_path: Path) -> None:
    (tmp_path / "bin" / "go").unlink()

    done = subprocess.run(
        [sys.executable, "tools/control-plane/build.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("control plane: not found: etcd v3.6.7, ")


def test_other_versions_have_a_cache_of_their_own(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = binaries.cache_directory()
    monkeypatch.setattr(binaries, "MODULES", tmp_path)
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "go.mod").write_text("module one\n")
    one = binaries.cache_directory()
    (tmp_path / "etcd" / "go.mod").write_text("module two\n")

    assert len({ours, one, binaries.cache_directory()}) == 3
