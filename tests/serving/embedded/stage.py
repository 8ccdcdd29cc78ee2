"""A gateway told by files, with model servers as processes behind it: what is true of Envoy and of how pods end.

The same is counted with the product's own objects on the control plane; here nothing has to be built.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random

from ebbtide.demo.embedded_envoy import EmbeddedEnvoy, Route, Upstream
from ebbtide.demo.load import Headers, Load, LoadAnswers, LoadStage, offer
from ebbtide.demo.model_server import ModelServer
from ebbtide.demo.served_pods import Address, Ending, ServedPods

QUICK = ModelServer(port=0, pod="model", service=0.02, concurrency=64)
STEADY = (LoadStage(seconds=17, rate=620),)  # more than 10,000
ENDING = Ending(pre_stop=5, grace=20)


@asynccontextmanager
async def served(
    gateways: Sequence[EmbeddedEnvoy], like: ModelServer = QUICK, *, replicas: int = 4, ending: Ending = ENDING
) -> AsyncGenerator[ServedPods]:
    """So many pods that are ready behind each of the gateways, whose upstream has the name of the pods."""

    def publish(addresses: Sequence[Address]) -> None:
        for gateway in gateways:
            gateway.set_endpoints(like.pod, addresses)

    async with ServedPods(like, publish, ending) as pods:
        pods.scale(replicas)
        await pods.until_ready()
        yield pods


def gateway(*names: str, balance: str = "LEAST_REQUEST", routes: Sequence[Route] = ()) -> EmbeddedEnvoy:
    """For these upstreams; without routes, all goes to the first."""
    upstreams = [Upstream(name=name, balance=balance) for name in names or (QUICK.pod,)]
    return EmbeddedEnvoy(upstreams, routes or [Route(to={upstreams[0].name: 1})])


def no_headers(_: Random) -> Headers:
    return {}


def load_on(
    its: EmbeddedEnvoy, stretches: Sequence[LoadStage] = STEADY, *, headers: Callable[[Random], Headers] = no_headers
) -> Load:
    return Load(address=lambda: (its.host, its.port), stretches=stretches, seed=1, headers=headers)


async def under(load: Load, happens: Callable[[], Awaitable[object]], *, after: float = 2.0) -> LoadAnswers:
    """What came back while something happened, which begins so many seconds after the load."""

    async def later() -> None:
        await asyncio.sleep(after)
        await happens()

    answers, _ = await asyncio.gather(offer(load), later())
    return answers
