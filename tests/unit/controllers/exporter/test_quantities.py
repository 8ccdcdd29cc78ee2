"""Kubernetes' own forms of numbers."""

from decimal import Decimal

import pytest

from controllers.exporter.requests import quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4),
        (2, 2),
        ("3920m", "3.92"),
        ("100n", "0.0000001"),
        ("250u", "0.00025"),
        (".5", "0.5"),
        ("1.5", "1.5"),
        ("1.", 1),
        ("15Gi", 15 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("16069060Ki", 16069060 * 1024),
        ("64Mi", 64 * 2**20),
        ("2Ti", 2 * 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("129M", 129_000_000),
        ("1k", 1000),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("12e6", 12_000_000),
        ("12E+2", 1200),
        ("5e-1", "0.5"),
        ("0", 0),
    ],
)
def test_a_quantity_is_exact(text: object, number: object) -> None:
    assert quantity(text) == Decimal(str(number))


NO_QUANTITIES: list[object] = ["", "Gi", "1gi", "-1", "1e", "1Zi", "ki", "1Kii", "0x10", "1e999", "9" * 99, None, []]
NO_NUMBERS = ["NaN", "NaNGi", "sNaNGi", "inf", "1e999999Gi"]


@pytest.mark.parametrize("text", [*NO_QUANTITIES, *NO_NUMBERS])
def test_other_text_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"is no quantity|Invalid number format|unknown suffix"):
        quantity(text)
