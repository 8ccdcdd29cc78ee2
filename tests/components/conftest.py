"""One recording of a whole stack, shared: nobody changes it."""

import pytest

from ebbtide.preview.recording import record
from tests.builders_stack import Recorded, stack_settings


@pytest.fixture(scope="session")
def stack() -> Recorded:
    return Recorded(record(stack_settings()))
