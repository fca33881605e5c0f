"""A port whose server ends and starts again elsewhere."""

import contextlib
import socket
import threading

import pytest
import reverb

from repro.acting import relay as relay_module
from repro.acting.relay import EMPTY_SETTINGS, Relay
from repro.acting.remote import start_server
from tests.support.waiting import wait

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


def test_who_connects_too_early_is_kept_waiting_and_then_connects_again(relay):
    with serving() as (address, accept), connect(relay) as here:
        here.sendall(b"early")
        assert read(here, len(EMPTY_SETTINGS)) == EMPTY_SETTINGS
        here.settimeout(0.2)
        with pytest.raises(TimeoutError):
            here.recv(1)
        relay.forward_to(address)
        assert read(here, 1) == b""
        with connect(relay) as again, accept() as there:
            again.sendall(b"again")
            assert read(there, 5) == b"again"


def test_nothing_is_left_of_a_client_that_gave_up(relay):
    with connect(relay) as here:
        assert read(here, len(EMPTY_SETTINGS)) == EMPTY_SETTINGS
        assert len(relay._connections) == 1
    wait(lambda: not relay._connections)


def test_a_server_that_does_not_answer_is_not_waited_for_for_ever(relay, monkeypatch):
    async def hang(*_):
        await relay_module.asyncio.Event().wait()

    monkeypatch.setattr(relay_module, "CONNECT_SECONDS", 0.1)
    monkeypatch.setattr(relay_module.asyncio, "open_connection", hang)
    relay.forward_to("127.0.0.1:1")
    with connect(relay) as here:
        assert read(here, 1) == b""


def test_connections_to_a_server_that_is_gone_end_and_the_next_lead_to_another_one(relay):
    with serving() as (first, accept_first), serving() as (second, accept_second):
        relay.forward_to(first)
        with connect(relay) as here, accept_first() as there:
            relay.forward_to(None)  # though its machine says nothing
            assert read(here, 1) == b""
            assert read(there, 1) == b""
        relay.forward_to(second)
        with connect(relay) as here, accept_second() as there:
            here.sendall(b"again")
            assert read(there, 5) == b"again"


def test_a_call_of_reverb_s_waits_without_work_and_ends_once_there_is_a_server(relay):
    """Where connections were refused or never answered, it would connect again and again."""
    errors = []

    def call():
        try:
            reverb.Client(f"127.0.0.1:{relay.port}").server_info()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    wait(lambda: relay._connections)
    connections = set(relay._connections)
    thread.join(2.0)
    assert thread.is_alive()
    assert set(relay._connections) == connections
    server = start_server([reverb.Table.queue("table", 1)])
    relay.forward_to(f"127.0.0.1:{server.port}")
    thread.join(SECONDS)
    assert len(errors) == 1
    assert list(reverb.Client(f"127.0.0.1:{relay.port}").server_info()) == ["table"]
    server.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_it_listens_on_one_address_alone(host):
    """With a host of two families a port of each would be another one."""
    relay = Relay(host)
    assert [s.getsockname() for s in relay._server.sockets] == [(host, relay.port)]
    relay.close()


def test_what_is_connected_ends_with_the_relay():
    relay = Relay("127.0.0.1")
    with serving() as (address, accept):
        relay.forward_to(address)
        with connect(relay) as here, accept():
            relay.close()
            assert read(here, 1) == b""
    relay.close()
    relay.forward_to(None)
