"""The streams of a peer: it serves the neighbours that call, and calls the others, by gRPC with TLS at both ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

import consensus
from consensus.errors import WorkerError
from consensus.peers.certificates import fingerprint, said_name
from consensus.peers.link import FRAME, LOG, Link, Refused, packed, unpacked
from consensus.peers.messages_pb2 import Frame, Hello
from consensus.peers.ranks import Here
from consensus.peers.roster import Peer, Roster

METHOD = "consensus.peers.Peer", "Exchange"
_FIRST, _LONGEST = 0.2, 1.0  # seconds between two calls of a neighbour that does not answer
OPTIONS = [
    ("grpc.max_receive_message_length", FRAME),
    ("grpc.max_send_message_length", FRAME),
    ("grpc.max_metadata_size", 8192),
    ("grpc.http2.lookahead_bytes", 4 * FRAME),  # without which 65 kB are under way at most, for each latency
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.so_reuseport", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


class Threads(futures.Executor):
    """An executor with a thread for each call, which nobody waits for when Python ends."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:  # noqa: ANN401
        future: futures.Future[Any] = futures.Future()

        def work() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name="serves a neighbour", daemon=True).start()
        return future


def channel(roster: Roster, other: int) -> grpc.Channel:
    """Return a channel to another peer, which must have the certificate of the run's file."""
    peer, me = roster.peers[other], roster.peers[roster.me]
    who = grpc.ssl_channel_credentials(peer.certificate, roster.key, me.certificate)
    return grpc.secure_channel(str(peer.address), who, [*OPTIONS, ("grpc.ssl_target_name_override", peer.name)])


class Service:
    """The streams of all edges, from :meth:`start` to :meth:`stop`."""

    def __init__(self, roster: Roster, here: Here) -> None:
        self.roster, self.here = roster, here
        self._over = threading.Event()
        self._server: grpc.Server | None = None

    @property
    def listens(self) -> bool:
        """True if a neighbour calls this peer."""
        return any(not self.roster.dials(other) for other in self.roster.neighbours)

    def listen(self) -> None:
        """Listen, if a neighbour calls this peer; :class:`WorkerError` if the address cannot be had."""
        me = self.roster.peers[self.roster.me]
        if self.listens:
            everyone = b"".join(peer.certificate for peer in self.roster.peers)
            pairs = [(self.roster.key, me.certificate)]
            who = grpc.ssl_server_credentials(pairs, root_certificates=everyone, require_client_auth=True)
            self._server = grpc.server(Threads(), options=OPTIONS, maximum_concurrent_rpcs=4 * len(self.roster.peers))
            handlers = {METHOD[1]: grpc.stream_stream_rpc_method_handler(self._serve)}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(METHOD[0], handlers),))
            where = listens(me)
            try:
                self._server.add_secure_port(where, who)
            except RuntimeError as error:
                raise WorkerError(
                    f"{me.name} cannot listen at {where}, the address of {me.name} in {self.roster.path.name}: another process "
                    f"may have the port, perhaps this peer, started twice ({error})"
                ) from error
            self._server.start()

    def start(self) -> None:
        """Listen, and call the neighbours that do not call this peer."""
        self.listen()
        for other, link in self.here.links.items():
            if self.roster.dials(other):
                threading.Thread(target=self._call, args=(other, link), name=f"calls {link.name}", daemon=True).start()

    def stop(self) -> None:
        """End all streams."""
        self._over.set()
        for link in self.here.links.values():
            link.detach(link.stream, "this peer has ended")
        if self._server is not None:
            self._server.stop(0.2)

    def _serve(self, frames: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Yield frames for a neighbour that calls; its own are read by a thread."""
        caller = self._caller(context)
        try:
            first = next(frames, b"")
        except Exception:  # of gRPC: who called has gone
            return
        if _is_probe(first):
            hello = Hello(run=self.here.run, version=consensus.__version__, sender=self.here.name, time=time.time())
            yield packed(Frame(hello=hello))
            return
        link = self.here.links.get(caller)
        if link is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, f"{self.here.name} only checks the run so far")
            raise AssertionError("abort raises")
        stream = link.attach()

        def read() -> None:
            self._read(link, stream, first, frames)
            context.cancel()

        threading.Thread(target=read, name=f"reads from {link.name}", daemon=True).start()
        yield from link.frames(stream)

    def _caller(self, context: grpc.ServicerContext) -> int:
        """Return which neighbour calls, by its certificate; end the call if it is none."""
        (certificate,) = context.auth_context().get("x509_pem_cert", [b""])
        found = fingerprint(certificate) if certificate else b""
        for other in self.roster.neighbours:
            if self.roster.peers[other].fingerprint == found and not self.roster.dials(other):
                return other
        said = said_name(certificate) if certificate else "nobody"
        why = f"{self.here.name} expects no call from {said[:70]!r} with this certificate"
        LOG.warning("%s: refused a stranger at %s: %s", self.here.name, context.peer(), why)
        context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
        raise AssertionError("abort raises")

    def _call(self, other: int, link: Link) -> None:
        """Call a neighbour again and again."""
        pause, opened = _FIRST, channel(self.roster, other)
        exchange = opened.stream_stream("/" + "/".join(METHOD))
        while not self._over.is_set():
            stream = link.attach()
            call = exchange(link.frames(stream))
            self._read(link, stream, b"", call)
            call.cancel()
            pause = _FIRST if link.since > time.time() - 1 else min(2 * pause, _LONGEST)
            self._over.wait(pause)
        opened.close()

    def _read(self, link: Link, stream: int, first: bytes, frames: Iterator[bytes]) -> None:
        """Give a link what arrives, until the stream ends."""
        why = "the other end closed it"
        try:
            if first:
                link.arrived(stream, first)
            for frame in frames:
                link.arrived(stream, frame)
                if link.stream != stream:
                    why = link.why
                    break
        except Refused as refused:
            why = f"refused: {refused}"
            LOG.error("%s: refused from %s: %s", self.here.name, link.name, refused)
            with self.here.lock:
                if link.stream == stream:
                    link.refuse(str(refused))
            time.sleep(_FIRST)  # for the note to leave
        except grpc.RpcError as error:
            details = error.details() if hasattr(error, "details") else ""
            why = str(details or error)[:300]
        except Exception as error:  # of gRPC, when a call is ended from here
            why = f"{type(error).__name__}: {error}"[:300]
        link.detach(stream, why)


def listens(peer: Peer) -> str:
    """Return where a peer listens: at the port of its address, on all interfaces unless the address is this machine's own."""
    host, _, port = str(peer.address).rpartition(":")
    local = host.startswith("127.") or host in ("localhost", "[::1]")
    return f"{host if local else '[::]'}:{port}"


def _is_probe(data: bytes) -> bool:
    try:
        return bool(unpacked(data)[0].hello.probe)
    except Refused:  # it is refused as a frame
        return False
