"""A network with the settings that matter to a test."""

from components.aws.network import Network, NetworkArgs
from ebbtide.settings.sections.network import NetworkSettings
from tests.builders.stack import Recorded, run


def network(*zones: str, session_manager: bool = False, **settings: object) -> Recorded:
    args = NetworkArgs(
        region="us-east-1",
        zones=zones,
        cluster_name="acme",
        tags={"team": "ml"},
        settings=NetworkSettings.model_validate(settings),
        session_manager=session_manager,
    )
    return run(lambda: Network("network", args))
