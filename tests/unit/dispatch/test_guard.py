"""The judgement of addresses and URLs: the table, what is let through, and what a URL may look like."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ssrfguard import DEFAULT_DENIED

from tasktick.dispatch.guard import FORBIDDEN, AddressPolicy, TargetRefused, classify, judge_url

STRICT = AddressPolicy()
LISTED = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32", "::/96",
    "::1/128", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23",
    "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10",
    "ff00::/8",
]  # fmt: skip
BEYOND_THE_LIST = {ip_network("100:0:0:1::/64")}  # IANA's dummy prefix, registered since
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
    "128.0.0.0", "169.253.255.255", "172.15.255.255", "172.32.0.0", "168.63.129.15", "168.63.129.17",
    "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2001:200::", "2606:4700::1111",
    "2003::", "2a00::1", "::ffff:8.8.8.8", "3ffe::1", "2c00::1",
]  # fmt: skip

addresses = st.ip_addresses()
special = st.sampled_from([network for network, _ in FORBIDDEN]).flatmap(
    lambda network: st.integers(0, network.num_addresses - 1).map(network.__getitem__)
)


def permitted(address: str, policy: AddressPolicy = STRICT, port: int | None = None) -> bool:
    return classify(address, policy, port).permitted


def test_the_table_is_the_published_list() -> None:
    assert {network for network, _ in FORBIDDEN} == {ip_network(cidr) for cidr in LISTED} | BEYOND_THE_LIST


@pytest.mark.parametrize("network", [network for network, _ in FORBIDDEN], ids=str)
def test_a_forbidden_range_is_forbidden_to_its_edges(network: object) -> None:
    for address in (network[0], network[-1], network[network.num_addresses // 2]):  # type: ignore[index, attr-defined] # either family
        assert not permitted(str(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_permitted(address: str) -> None:
    assert permitted(address)


@given(addresses | special)
@example(IPv6Address("100:0:0:1::1"))
def test_whatever_another_guard_denies_is_denied_here(address: IPv4Address | IPv6Address) -> None:
    if DEFAULT_DENIED.classify(address).blocked:
        assert not classify(address, STRICT).permitted


@pytest.mark.parametrize("port", ["0", "65536", "99999", "123456", "9" * 1_000])
def test_a_port_that_there_is_not_is_said_to_be_the_fault(port: str) -> None:
    for host in ("app.example", "[2606:4700::1]"):
        with pytest.raises(TargetRefused, match="port must be from 1 to 65535"):
            judge_url(f"http://{host}:{port}/", STRICT)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_as_what_it_maps(address: IPv4Address) -> None:
    policy = AddressPolicy.of(["10.0.0.0/8"])
    assert classify(f"::ffff:{address}", policy) == classify(address, policy)


@pytest.mark.parametrize("address", ["fe80::1%eth0", "2606:4700::1%1", "::1%lo", "", "localhost", "127.1", "1.2.3.4 "])
def test_what_is_no_plain_address_is_refused(address: str) -> None:
    assert not permitted(address, AddressPolicy.of(["0.0.0.0/0", "::/0"]))


def test_an_allowed_network_is_let_through_and_no_other() -> None:
    policy = AddressPolicy.of(["127.0.0.0/8", "fd00::/8"])
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "fd00::1", "8.8.8.8"):
        assert permitted(address, policy)
    for address in ("10.0.0.1", "::1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1"):
        assert not permitted(address, policy)


@pytest.mark.parametrize("carrier", ["64:ff9b::/96", "2002::/16", "2001::/32", "::/96", "::ffff:0:0:0/96"])
def test_letting_a_carrier_through_does_not_let_through_what_it_carries(carrier: str) -> None:
    network = ip_network(carrier)
    policy = AddressPolicy.of([carrier])
    for inner, expected in (("8.8.8.8", True), ("127.0.0.1", False), ("169.254.169.254", False)):
        shift = 80 if carrier == "2002::/16" else 0
        bits = int(ip_address(inner))
        if carrier == "2001::/32":
            bits ^= 0xFFFFFFFF
            bits |= int(ip_address("8.8.8.8")) << 64
        assert permitted(str(IPv6Address(int(network[0]) | bits << shift)), policy) is expected


def test_own_endpoints_are_refused_even_where_the_range_is_allowed() -> None:
    policy = AddressPolicy.of(["127.0.0.0/8", "::/96", "0.0.0.0/8"], [("127.0.0.1", 8080), ("::ffff:127.0.0.1", 5432)])
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", "::"):
        assert not permitted(address, policy, 8080)
    assert not permitted("127.0.0.1", policy, 5432)
    assert permitted("127.0.0.1", policy, 8081)
    assert permitted("127.0.0.2", policy, 8080)


@pytest.mark.parametrize("listen", ["0.0.0.0", "::"])
def test_listening_everywhere_refuses_every_own_address(listen: str) -> None:
    policy = AddressPolicy.of(["127.0.0.0/8", "::1/128"], [(listen, 8080)])
    for address in ("127.0.0.1", "127.9.9.9", "::1"):
        assert not permitted(address, policy, 8080)
        assert permitted(address, policy, 8081)
    assert policy.wildcard_ports() == {8080}


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://app.example/hooks/remind?a=1&b=%2F", "app.example", 443),
        ("HTTP://App.Example:8080", "app.example", 8080),
        ("http://app.example./", "app.example.", 80),
        ("http://my_host.internal/", "my_host.internal", 80),
        ("https://bücher.example/", "xn--bcher-kva.example", 443),
        ("http://8.8.8.8:1/", "8.8.8.8", 1),
        ("http://[2606:4700::1111]:65535/", "2606:4700::1111", 65535),
        ("http://a/?x=@b:80", "a", 80),
        ("http://a/b:c@d", "a", 80),
    ],
)
def test_ordinary_urls_pass(url: str, host: str, port: int) -> None:
    target = judge_url(url, STRICT)
    assert (target.host, target.port) == (host, port)


MALFORMED = [
    "", "app.example", "/x", "//app.example/", "ftp://app.example/", "file:///etc/passwd", "ws://a/", "http:a",
    "http:///a",
    "http://", "https://?x", "javascript:alert(1)", "http://u@a/", "http://u:p@a/", "http://@a/", "http://:@a/",
    "http://a#f", "http://a/#", "http://8.8.8.8#@127.0.0.1/", "http://a\\@b/", "http://a\\b", "http://a b/",
    "http://a/ b",
    "http://a/\n", "\thttp://a/", "http://a/\x00", "http://a\r\nHost: b/", "http://a/\x7f", "http://a/\u200b",
    "http://a/\u202e", "http://a/\ud800", "http://a:0/", "http://a:65536/", "http://a:-1/", "http://a:+80/",
    "http://a:8_0/", "http://a:\uff18\uff10/", "http://a:/", "http://a:b/", "http://a:1:2/", "http://a..b/", "http://.a/",
    "http://a../", "http://-a/", "http://a-/", "http://a,b/", "http://a!b/", "http://a%2eb/", "http://[::1/", "http://::1/",
    "http://[::1]a/", "http://[v1.a]/", "http://[::1%25lo]/", "http://[fe80::1%eth0]/", "http://[::ffff:127.1]/",
    "http://[8.8.8.8]/", f"http://{'a' * 64}.example/", f"http://{'a.' * 127}b/", "http://a/" + "b" * 2_048,
    "http://a/" + "ü" * 1_000, "http://\uff11\uff12\uff17.\uff11@a/", "http://a\uff0fb@c/",
]  # fmt: skip


@pytest.mark.parametrize("url", MALFORMED)
def test_malformed_urls_are_refused(url: str) -> None:
    with pytest.raises(TargetRefused) as refused:
        judge_url(url, AddressPolicy.of(["0.0.0.0/0", "::/0"]))
    assert refused.value.code == "validation_failed"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "localhost.", "a.localhost", "\uff4cocalhost", "localho\u017ft"]
)
def test_localhost_is_refused_unless_loopback_is_allowed(host: str) -> None:
    with pytest.raises(TargetRefused) as refused:
        judge_url(f"http://{host}/", STRICT)
    assert refused.value.code == "target_forbidden"
    for network in ("127.0.0.0/8", "::1/128"):
        judge_url(f"http://{host}/", AddressPolicy.of([network]))


def test_names_are_not_resolved() -> None:
    judge_url("http://no-such-name.invalid/", STRICT)
    judge_url("http://localhost.example/", STRICT)


def test_own_endpoints_are_refused_when_a_task_is_made() -> None:
    policy = AddressPolicy.of(["127.0.0.0/8"], [("127.0.0.1", 8080)])
    with pytest.raises(TargetRefused) as refused:
        judge_url("http://127.0.0.1:8080/v1/tasks", policy)
    assert refused.value.code == "target_forbidden"
    judge_url("http://127.0.0.1:8081/", policy)


hosts = st.text("0123456789abcdefx.:[]%@-_/\\#?\uff11\uff12\u2460\u3002\uff0e\u2177\u200b ", max_size=24)


@given(st.text(max_size=60) | hosts.map("http://{}/".format))
def test_any_text_is_judged_or_refused(url: str) -> None:
    try:
        target = judge_url(url, STRICT)
    except TargetRefused:
        return
    assert target.address is None or classify(target.address, STRICT).permitted
    assert 1 <= target.port <= 65_535
