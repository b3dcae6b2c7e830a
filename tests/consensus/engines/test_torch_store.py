"""Where the store at which ranks meet listens, what is said of it, and which interface gloo takes."""

import logging
import os
import socket
import warnings
from datetime import timedelta

import pytest

from consensus.frameworks import torch_store
from consensus.frameworks.torch_start import Start
from consensus.frameworks.torch_store import Place
from tests.helpers.engine_harness import free_port

pytest.importorskip("torch")
OTHER = "127.0.0.2"  # stands for an address of this machine that strangers reach


@pytest.fixture
def port(monkeypatch):
    monkeypatch.setattr(torch_store, "_addresses", lambda: {OTHER})
    with socket.socket() as tried:
        try:
            tried.bind((OTHER, 0))
        except OSError:
            pytest.skip(f"{OTHER} is no address here")
    with free_port() as number:
        yield number


def met(url, monkeypatch):
    """A rank that meets itself; the warnings of what it says."""
    place = Place(Start(url, 0, 1))
    store = place.store(timedelta(seconds=20))
    store.set("key", "value")
    assert store.get("key") == b"value"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        place.say()
    return store, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_store_at_a_loopback_address_is_not_reached_from_elsewhere(host, port, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "consensus")
    store, warned = met(f"tcp://{host}:{port}", monkeypatch)
    with pytest.raises(ConnectionRefusedError):  # PyTorch's own listens at all addresses
        socket.create_connection((OTHER, port), 5.0)
    assert warned == []
    assert f"the store of rank 0, where the ranks meet, listens on port {port} of 127.0.0.1" in caplog.text
    del store


def test_the_environments_address_is_kept_to_as_well(port, monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(port))
    store, warned = met("env://", monkeypatch)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((OTHER, port), 5.0)
    assert warned == []
    del store


def test_a_store_at_all_addresses_is_warned_of(port, monkeypatch):
    store, (warned,) = met(f"tcp://0.0.0.0:{port}", monkeypatch)
    assert f"listens on port {port} of 0.0.0.0, {OTHER}: whoever reaches it may join as a rank; give the one" in warned
    assert f"tcp://{OTHER}:{port}" in warned
    del store
    remedy, warned = met(f"tcp://{OTHER}:{port}", monkeypatch)
    assert warned == []
    del remedy


def test_torchruns_store_is_warned_of_by_the_first_rank(port, monkeypatch):
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("", port)):  # as torchrun's
        with pytest.warns(UserWarning, match=r"torchrun's store .* may join as a rank, and run code, .* MASTER_ADDR=127"):
            Place(Start("env://", 0, 2)).say()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Place(Start("env://", 1, 2)).say()
    with warnings.catch_warnings():  # the rank's machine is not torchrun's first one
        warnings.simplefilter("error")
        Place(Start("env://", 0, 2)).say()


@pytest.mark.parametrize(("address", "nodes", "bound"), [
    ("127.0.1.1", None, "0.0.0.0"),  # as Debian resolves a machine's own name
    ("127.0.1.1", "1", "127.0.1.1"),
    (OTHER, "1", OTHER),
    ("203.0.113.7", None, "0.0.0.0"),  # forwarded to this machine
])  # fmt: skip
def test_a_name_that_only_this_machine_finds_is_no_address_for_others(address, nodes, bound, port, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))])
    monkeypatch.delenv("SLURM_STEP_NUM_NODES", raising=False)
    if nodes:
        monkeypatch.setenv("SLURM_STEP_NUM_NODES", nodes)
    with Place(Start(f"tcp://n03:{port}", 0, 2))._listening("n03", port) as listening:
        assert listening.getsockname()[0] == bound


@pytest.mark.parametrize(("url", "variables", "alone"), [
    ("tcp://localhost:1", {}, True),
    ("tcp://[::1]:1", {}, True),
    ("tcp://n03:1", {}, False),
    ("file:///run", {}, False),
    ("env://", {"MASTER_ADDR": "127.0.0.1"}, True),
    ("env://", {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "True", "LOCAL_WORLD_SIZE": "1"}, False),
    ("env://", {"MASTER_ADDR": "n03", "TORCHELASTIC_USE_AGENT_STORE": "True", "LOCAL_WORLD_SIZE": "2"}, True),
])  # fmt: skip
def test_gloo_stays_on_the_loopback_interface_if_all_ranks_are_here(url, variables, alone, monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "LOCAL_WORLD_SIZE", "GLOO_SOCKET_IFNAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    place = Place(Start(url, 0, 2))
    assert place.alone is alone
    with place.interface():
        assert (os.environ.get("GLOO_SOCKET_IFNAME") in ("lo", "lo0")) is alone
    assert "GLOO_SOCKET_IFNAME" not in os.environ
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    with place.interface():
        assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
