"""A broken stack file ends the program before its first resource, with the faults and without a traceback."""

import gc
from pathlib import Path

import pulumi
import pytest

import infra
from ebbtide.recording.record import record_directory
from tests.builders.mutants import CANARY, Mutant, as_pulumi_passes, mutants, sound_config

PROGRAM = Path(infra.__file__).parent


def refusal(mutant: Mutant) -> str:
    """The program's error, "" if it accepts the file. Other exceptions are raised."""
    texts, secrets = as_pulumi_passes(mutant.config or {})
    try:
        record_directory(PROGRAM, texts, secret_keys=secrets, stack="broken")
    except pulumi.RunError as error:
        return str(error)
    return ""


def test_a_sound_file_registers_resources(registered: list[str]) -> None:
    record_directory(PROGRAM, as_pulumi_passes(sound_config("shortest"))[0], stack="acme")

    assert "cluster" in registered


def test_garbage_is_collected_again_once_the_program_has_ended() -> None:
    gc.enable()  # a program that another test runs in this process leaves it off
    record_directory(PROGRAM, as_pulumi_passes(sound_config("shortest"))[0], stack="acme")

    assert gc.isenabled()


def test_no_broken_file_gets_as_far_as_a_resource(registered: list[str]) -> None:
    refusals = {str(mutant): refusal(mutant) for mutant in mutants(150) if mutant.config is not None}

    assert len(refusals) > 50
    assert [name for name, text in refusals.items() if not text.startswith("stacks/Pulumi.broken.yaml: ")] == []
    assert [text for text in refusals.values() if CANARY in text] == []
    assert registered == []


@pytest.mark.parametrize("depth", [30, 700, 100_000])
def test_a_value_nested_out_of_all_measure_is_refused_too(depth: int, registered: list[str]) -> None:
    config = {**sound_config("shortest"), "ebbtide:costs": "[" * depth + "]" * depth}

    told = refusal(Mutant(fault="deep", base="shortest", text="", config=config))

    assert told.startswith("stacks/Pulumi.broken.yaml: ebbtide:costs: wanted ")
    assert len(told) < 400
    assert registered == []
