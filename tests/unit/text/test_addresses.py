"""Hosts that are the pod itself, in all notations."""

import pytest

from ebbtide.text.addresses import is_host, leads_to_itself

ITSELF = (
    *("localhost", "LOCALHOST", "localhost.", "LOCALHOST.", "redis.localhost.", "localhost.localdomain"),
    *("127.0.0.1", "127.1", "0x7f.1", "2130706433", "0", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"),
)
OTHERS = (
    *("redis", "localhosts", "redis.localdomain", "mylocalhost", "localhost.example.com", "redis.example.com."),
    *("10.0.0.9", "10.1", "128.0.0.1", "::ffff:10.0.0.9", "2001:db8::1", "127.0.0.1.example.com", ""),
)


@pytest.mark.parametrize("host", ITSELF)
def test_each_way_of_writing_the_pod_itself_is_known(host: str) -> None:
    assert leads_to_itself(host)


@pytest.mark.parametrize("host", OTHERS)
def test_other_hosts_are_not_taken_for_it(host: str) -> None:
    assert not leads_to_itself(host)


@pytest.mark.parametrize("host", [other for other in OTHERS if other] + ["mq_1.example.com", "m\u00fc.example.com"])
def test_names_and_addresses_are_hosts(host: str) -> None:
    assert is_host(host)


@pytest.mark.parametrize("host", ["", "mq..example.com", ".example.com", f"{'a' * 64}.example.com"])
def test_a_name_that_resolvers_refuse_is_none(host: str) -> None:
    """Python raises an error that is no OSError for it."""
    assert not is_host(host)
