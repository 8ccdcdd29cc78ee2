"""Kubernetes quantities as numbers: cores, bytes, devices. Exact, so that 3920m is 3.92."""

from decimal import Decimal

from kubernetes.utils import quantity as library

_LIMIT = Decimal(10) ** 30  # far above any capacity, and within the range of a float


def quantity(value: object) -> Decimal:
    """Parse a quantity. Raises ValueError for other text, which includes negative numbers and those that overflow."""
    try:
        number = library.parse_quantity(str(value))
    except ArithmeticError as error:  # an exponent beyond those of Decimal, or a signalling NaN
        raise ValueError(f"{str(value)[:50]!r} is no quantity") from error
    # The library accepts NaN, infinities and any other exponent.
    if not (number.is_finite() and 0 <= number < _LIMIT):
        raise ValueError(f"{str(value)[:50]!r} is no quantity")
    return number
