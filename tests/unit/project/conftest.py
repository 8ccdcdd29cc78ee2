import pytest

from tests.builders.installed import Environment, installed_wheel


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Environment:
    own = tmp_path_factory.getbasetemp()
    return installed_wheel(own.parent if hasattr(request.config, "workerinput") else own)
