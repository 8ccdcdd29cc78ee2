"""The stack of the known month."""

import pytest

from ebbtide.settings import StackSettings
from tests.builders.monitoring.month import stack
from tests.builders.settings import loaded


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> StackSettings:
    return loaded(stack(), tmp_path_factory.mktemp("stack"))
