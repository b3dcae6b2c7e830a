"""A run of organisations, each with a process on its own machine: no server, no launcher, TLS at both ends of every edge.

It adds an engine to the core, which carries rows between neighbours by gRPC, waits for who is lost, and unpickles nothing.
"""

from consensus._elsewhere import elsewhere
from consensus._extras import module

_found, __dir__, __all__ = elsewhere(__name__)


def __getattr__(name: str) -> object:
    if name != "keys":
        module("grpc", "a run of peers", "peers")
    return _found(name)
