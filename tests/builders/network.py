"""A network with the settings that matter to a test."""

from components.aws.network import Network, NetworkArgs
from components.context import StackContext
from ebbtide.settings.sections.network import NetworkSettings
from tests.builders.stack import Recorded, run


def network(*zones: str, session_manager: bool = False, **settings: object) -> Recorded:
    args = NetworkArgs(
        stack=StackContext(customer="acme", region="us-east-1", tags={"team": "ml"}),
        zones=zones,
        settings=NetworkSettings.model_validate(settings),
        session_manager=session_manager,
    )
    return run(lambda: Network("network", args))
