"""A port whose server ends and comes again elsewhere."""

import contextlib
import socket

import pytest

from repro.acting.relay import Relay

SECONDS = 20.0


@contextlib.contextmanager
def serving():
    """A server; its address, and the connection of who connects next."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SECONDS)
        yield f"127.0.0.1:{server.getsockname()[1]}", lambda: server.accept()[0]


def connect(relay):
    return socket.create_connection(("127.0.0.1", relay.port), timeout=SECONDS)


def read(connection, size):
    connection.settimeout(SECONDS)
    data = b""
    while len(data) < size and (piece := connection.recv(size - len(data))):
        data += piece
    return data


@pytest.fixture
def relay():
    made = Relay("127.0.0.1")
    yield made
    made.close()


def test_bytes_are_passed_on_both_ways_in_their_order(relay):
    sent = bytes(range(256)) * 4096
    with serving() as (address, accept):
        relay.forward_to(address)
        with connect(relay) as here, accept() as there:
            here.sendall(sent)
            assert read(there, len(sent)) == sent
            there.sendall(sent[::-1])
            assert read(here, len(sent)) == sent[::-1]
            there.close()
            assert read(here, 1) == b""


def test_who_connects_waits_for_a_server(relay):
    with serving() as (address, accept), connect(relay) as here:
        here.sendall(b"early")
        relay.forward_to(address)
        with accept() as there:
            assert read(there, 5) == b"early"


def test_connections_to_a_server_that_is_gone_end_and_the_next_lead_to_another_one(relay):
    with serving() as (first, accept_first), serving() as (second, accept_second):
        relay.forward_to(first)
        with connect(relay) as here, accept_first() as there:
            relay.forward_to(None)  # though its machine says nothing
            assert read(here, 1) == b""
            assert read(there, 1) == b""
        with connect(relay) as here:
            relay.forward_to(second)
            with accept_second() as there:
                here.sendall(b"again")
                assert read(there, 5) == b"again"


def test_what_is_connected_ends_with_the_relay():
    relay = Relay("127.0.0.1")
    with serving() as (address, accept):
        relay.forward_to(address)
        with connect(relay) as here, accept():
            relay.close()
            assert read(here, 1) == b""
    relay.close()
