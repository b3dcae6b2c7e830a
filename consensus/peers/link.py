"""One edge of a peer: messages with numbers, kept until the other end needs them no more, whatever stream carries them."""

from __future__ import annotations

import hashlib
import logging
import secrets
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

import consensus
from consensus.engines.transport import UNEVEN
from consensus.peers.audit import KINDS, Audit
from consensus.peers.messages_pb2 import Ack, Frame, Hello, Message, Note, Word, Words
from consensus.peers.newest import NEWEST, Newest, Packet

LOG = logging.getLogger("consensus")
PART = 1 << 20  # bytes of a payload at most
FRAME = PART + 4096  # bytes of a frame and its payload at most
_WINDOW = 4 * PART  # bytes that arrive before anybody asks for them
_ACKNOWLEDGED = 16  # messages after which they are acknowledged
_DIMENSIONS = 8
_DTYPES = {f"{kind}{size}" for kind in ["<f", "<i", "<u", "<c"] for size in (2, 4, 8, 16)} | {"|u1", "|i1", "|b1"}
_SIZE = struct.Struct("<I")
Digests = dict[tuple[int, int], tuple[bytes, memoryview]]  # of memory, by its address and size, and what keeps it alive
PROCESS = secrets.token_bytes(8)  # of this process; a peer that was started again has another one


class Refused(Exception):
    """Refusal of a message of the other end, which ends its stream."""


def packed(frame: Frame, payload: memoryview | bytes = b"") -> bytes:
    """Return what travels: the size of a frame, the frame, and the payload of its message as it is, copied once."""
    head = frame.SerializeToString()
    return b"".join([_SIZE.pack(len(head)), head, payload])


def unpacked(data: bytes) -> tuple[Frame, memoryview]:
    """Return a frame and the payload behind it, which is not copied; :class:`Refused` if these bytes are none."""
    try:
        end = _SIZE.size + _SIZE.unpack_from(data)[0]
        frame, payload = Frame.FromString(data[_SIZE.size : end]), memoryview(data)[end:]
    except Exception as error:
        raise Refused(f"{len(data)} bytes that are no frame") from error
    if len(data) < end or (payload and not frame.HasField("message")):
        raise Refused(f"{len(data)} bytes that are no frame")
    return frame, payload


class Part(NamedTuple):
    """A part of an array that arrived, and the size of the ``whole`` array, in bytes."""

    sequence: int
    kind: int
    round: int
    part: int
    dtype: str
    whole: int
    payload: memoryview


class Inbox:
    """The messages of an ``epoch`` that arrived on an edge, their ``size`` in bytes, the last number, and the last taken."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch, self.received, self.taken, self.size = epoch, 0, 0, 0
        self.messages: deque[Part] = deque()

    def clear(self) -> None:
        """Forget what was not taken."""
        self.messages.clear()
        self.size = 0


class Owner(Protocol):
    """The part of a peer that its link uses."""

    lock: threading.RLock
    changed: threading.Condition
    name: str
    run: bytes
    audit: Audit
    leaves: bool  # whether it goes on without those who are lost, and there are epochs

    def heard(self, words: Words) -> None:
        """Take what a neighbour knows of all."""


class Link:
    """The edge to the peer ``name``. All its fields are guarded by the lock of its ``owner``."""

    def __init__(self, owner: Owner, name: str) -> None:
        self.owner, self.name = owner, name
        self._out = threading.Condition(owner.lock)  # there is something to send
        self._room = threading.Condition(owner.lock)  # there is room in the inbox
        self.process = b""  # of the other end, once it was there
        self.stream = 0  # the number of the present stream
        self.greeted = False  # whether the other end has said where it is
        self.since = time.time()  # when this state of the connection began
        self.why = "it was never there"
        self.state, self.said = Note.GOES_ON, ""  # what the other end says of itself
        self.restarted = False  # whether the other end knows messages which this process has not sent yet
        self.bytes = self.resent = self.skew = 0.0
        self._control: deque[bytes] = deque()
        # Sent: the last number, what is kept, what is still to go into the present stream, what the other end has.
        self.sent = 0
        self._kept: dict[int, bytes] = {}
        self._outbox: deque[tuple[int, bytes]] = deque()
        self.acknowledged = 0
        self._gone = 0  # the largest number that ever went out
        self._dropped = (0, 0)  # what the other end never needs again: above the first number, up to the second
        # Received: of the present epoch, and of a later one that the other end has come to.
        self.inbox, self._ahead = Inbox(), Inbox()
        self._told = 0  # the last number that was acknowledged
        # Epochs: the present one, whether its messages are still wanted, and what there was before the first.
        self.epoch, self._open = 0, True
        self._first: tuple[int, dict[int, bytes], int] = 0, {}, 0  # the last number sent, what is kept, the last one received
        self.told: dict[int, int] = {}  # the version of each peer's word that the other end was told by this stream
        self._noted: tuple[Note.State, str] | None = None  # and the last note
        self.drops = (0, 0)  # what this end never needs again
        self.forgets: int | None = None  # the number above which this end needs nothing again that it has taken
        self.newest = Newest()  # messages beside these, of solvers without rounds

    # What the stream calls.

    def attach(self) -> int:
        """Begin a stream, which ends the one before; return its number."""
        with self.owner.lock:
            self.stream += 1
            self.greeted, self._noted = False, None
            self.told.clear()
            self._control.clear()
            self._outbox.clear()
            self._wake()
            return self.stream

    def detach(self, stream: int, why: str) -> None:
        """End a stream, and remember ``why``."""
        with self.owner.lock:
            if self.stream != stream:
                return
            if self.greeted:
                self.since = time.time()
            self.stream += 1
            self.greeted, self.why = False, why
            self._outbox.clear()
            self._wake()

    def frames(self, stream: int) -> Iterator[bytes]:
        """Yield what goes out by a stream, until it ends."""
        yield self._framed(hello=self._hello())
        while True:
            with self.owner.lock:
                while self.stream == stream and not self._control and not (self.greeted and self._waits):
                    self._out.wait()
                if self.stream != stream:
                    return
                if self._control:
                    frame = self._control.popleft()
                elif self.newest.waits:  # before others, which the other end may take only when it has heard this
                    packet, first = self.newest.next()
                    frame = packet.frame
                    self.resent += not first
                    if first:
                        self.owner.audit.write("sent", self.name, NEWEST, *packet[2:])
                else:
                    number, frame = self._outbox.popleft()
                    self.resent += number <= self._gone
                    self._gone = max(self._gone, number)
                self.bytes += len(frame)
            yield frame

    def arrived(self, stream: int, data: bytes) -> None:
        """Take a frame, unless its stream has ended; :class:`Refused` says what is wrong with it."""
        if stream != self.stream:
            return
        frame, payload = unpacked(data)
        body = frame.WhichOneof("body")
        if body == "hello":
            self._greet(stream, frame.hello)
        elif not self.greeted and body != "note":
            raise Refused("a stream without a greeting")
        elif body == "message":
            self._take(stream, frame.message, payload)
        elif body == "ack":
            with self.owner.lock:
                self._release(frame.ack)
        elif body == "words" and self.owner.leaves:
            self.owner.heard(frame.words)
        elif body == "note" and frame.note.state == Note.REFUSED:
            LOG.error("%s: %s", self.owner.name, frame.note.text[:500])
            self.detach(stream, frame.note.text[:500])
        elif body == "note":
            with self.owner.lock:
                self.state, self.said = frame.note.state, frame.note.text[:500]
                self._wake()
        else:
            raise Refused("an empty frame")

    # What the rounds call.

    def send(self, kind: int, round: int, rows: np.ndarray, digests: Digests | None = None) -> None:
        """Send an array, whenever the other end can be reached; ``digests`` are shared by neighbours that are sent the same."""
        for part, size, digest, data in self._messages(kind, round, rows, self.sent + 1, digests=digests):
            with self.owner.lock:
                self.sent += 1
                if not self._dropped[0] < self.sent <= self._dropped[1]:  # as it may be, after a restart
                    self._kept[self.sent] = data
                if self.greeted and self.sent > self.acknowledged:
                    self._outbox.append((self.sent, data))
                    self._out.notify_all()
            self.owner.audit.write("sent", self.name, kind, round, part, size, digest)

    def offer(self, number: int, round: int, rows: np.ndarray) -> bool:
        """Send the newest message, of this number, when it can leave; return False if the one before it has not left yet."""
        packets = [
            Packet(data, number, round, part, size, digest)
            for part, size, digest, data in self._messages(NEWEST, round, rows, number, 0)
        ]
        with self.owner.lock:
            left = self.newest.put(packets)
            self._out.notify_all()
            return left

    @property
    def _waits(self) -> bool:
        """True if there is something to send."""
        return bool(self._outbox) or self.newest.waits

    def _messages(
        self, kind: int, round: int, rows: np.ndarray, first: int, step: int = 1, digests: Digests | None = None
    ) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Yield the parts of an array: their sizes, digests and frames; they have numbers from the ``first`` on."""
        rows = np.ascontiguousarray(rows)
        rows = rows.astype(rows.dtype.newbyteorder("<"), copy=False)
        content, shape, where = rows.reshape(-1).view(np.uint8).data, rows.shape, rows.ctypes.data
        digests = {} if digests is None else digests
        for part in range(max(1, -(-len(content) // PART))):
            payload, frame = content[part * PART : (part + 1) * PART], Frame()
            message, place = frame.message, (where + part * PART, len(payload))
            if place not in digests:
                digests[place] = hashlib.sha256(payload).digest(), payload
            digest = digests[place][0]
            message.run, message.sender, message.sequence = self.owner.run, self.owner.name, first + step * part
            message.epoch, message.round, message.kind, message.part = self.epoch, round, kind, part
            message.dtype = rows.dtype.str
            message.shape.extend(shape)
            message.sha256 = digest
            yield part, len(payload), digest, packed(frame, payload)

    def next(self) -> Part | None:
        """Return the next message that arrived, None if there is none yet; ``LookupError`` if messages before it are lost."""
        with self.owner.lock:
            inbox = self.inbox
            if not inbox.messages:
                return None
            message = inbox.messages.popleft()
            inbox.size -= len(message.payload)
            if message.sequence != inbox.taken + 1:
                raise LookupError(f"{inbox.taken + 1} to {message.sequence - 1}")
            inbox.taken += 1
            self._room.notify_all()
            return message

    def reject(self, why: str, parts: int) -> None:
        """Give back the last parts that were taken, which this round does not allow: another stream may bring others."""
        with self.owner.lock:
            self.inbox.taken -= parts
            self.inbox.received = self.inbox.taken
            self.inbox.clear()
        self.detach(self.stream, why)

    def jump(self, sent: int, taken: int) -> None:
        """Go on from a checkpoint, after so many messages sent and taken."""
        with self.owner.lock:
            self.sent, self.inbox.taken = sent, taken
            self.inbox.received = max(self.received, taken)
            self._outbox = deque((number, frame) for number, frame in self._outbox if number > sent)
            while self.inbox.messages and self.inbox.messages[0].sequence <= taken:
                self.inbox.size -= len(self.inbox.messages.popleft().payload)
            self._room.notify_all()

    def enter(self, epoch: int) -> None:
        """Begin an epoch: nothing of the one before is sent or taken any more; what went before the first is kept."""
        with self.owner.lock:
            if not self.epoch:
                self._first = self.sent, self._kept, self.received
            self._outbox = deque((-1, frame) for number, frame in self._outbox if number < 0 or not self.epoch)
            self.epoch, self._open = epoch, True
            self.sent = self.acknowledged = self._gone = self._told = 0
            self._kept, self._dropped = {}, (0, 0)
            self.inbox = self._ahead if self._ahead.epoch == epoch else Inbox(epoch)
            self._room.notify_all()

    def leave(self) -> None:
        """Stop the present epoch: what still arrives of it is dropped, so that words do not wait behind it."""
        with self.owner.lock:
            self._open = False
            self.inbox.clear()
            self._room.notify_all()

    def tell(self, words: dict[int, Word]) -> None:
        """Tell the other end the words of peers, by number, that it was not told yet."""
        with self.owner.lock:
            new = [word for peer, word in words.items() if self.told.get(peer) != word.version]
            if new and self.greeted:
                self.told |= {word.peer: word.version for word in new}
                self._post(words=Words(words=new))

    def drop(self, first: int, last: int) -> None:
        """Tell the other end which messages this one never needs again: those above the first number, up to the last."""
        with self.owner.lock:
            self.drops = first, last
            self.acknowledge()

    def acknowledge(self) -> None:
        """Tell the other end what has arrived."""
        with self.owner.lock:
            self._told = self.received
            if self.forgets is not None:
                self.drops = self.forgets, self.taken
            if self.greeted:
                self._post(ack=Ack(received=self.received, drop_from=self.drops[0], drop_to=self.drops[1], epoch=self.epoch))

    def note(self, state: Note.State, text: str) -> None:
        """Tell the other end something about this one, once: notes go before messages, and must not keep them waiting."""
        with self.owner.lock:
            if self.greeted and self._noted != (state, text):
                self._noted = state, text
                self._post(note=Note(state=state, text=text))

    @property
    def received(self) -> int:
        """Number of the last message that arrived."""
        return self.inbox.received

    @property
    def taken(self) -> int:
        """Number of the last message that was taken."""
        return self.inbox.taken

    @property
    def kept(self) -> int:
        """Number of messages that are kept for the other end."""
        return len(self._kept)

    def refuse(self, why: str) -> None:
        """Tell the other end why its stream ends."""
        self._post(note=Note(state=Note.REFUSED, text=f"{self.owner.name} refuses {why}"))

    # The rest.

    def _wake(self) -> None:
        self._out.notify_all()
        self._room.notify_all()
        self.owner.changed.notify_all()

    def _framed(self, **body: Hello | Ack | Note | Words) -> bytes:
        return packed(Frame(**body))

    def _post(self, **body: Ack | Note | Words) -> None:
        self._control.append(self._framed(**body))
        self._out.notify_all()

    def _hello(self) -> Hello:
        with self.owner.lock:
            self._told = self.received
            return Hello(
                run=self.owner.run,
                version=consensus.__version__,
                sender=self.owner.name,
                process=PROCESS,
                received=self._first[2] if self.epoch else self.received,
                drop_from=self.drops[0],
                drop_to=self.drops[1],
                time=time.time(),
                epoch=self.epoch,
                received_in_epoch=self.received if self.epoch else 0,
            )

    def _greet(self, stream: int, hello: Hello) -> None:
        if hello.sender != self.name:
            raise Refused(f"the name {hello.sender[:70]!r}, which its certificate does not have")
        if hello.version != consensus.__version__:
            raise Refused(
                f"version {hello.version[:20]!r} of the package, where {consensus.__version__} runs: install one of them"
            )
        if hello.run != self.owner.run:
            raise Refused("the digest of another run: the file of the run, or a certificate, differs between the two")
        with self.owner.lock:
            if self.stream != stream or self.greeted:
                return
            again = bool(self.process) and hello.process != self.process
            if again:
                LOG.info("%s: %s was started again", self.owner.name, self.name)
            if hello.process != self.process:
                self.newest.begin()
            self.newest.again()
            self.process, self.greeted, self.since, self.why = hello.process, True, time.time(), ""
            self.state, self.said = Note.GOES_ON, ""
            self.skew = hello.time - time.time()
            sent, before, _ = self._first if self.epoch else (self.sent, self._kept, 0)
            self.restarted = self.restarted or hello.received > sent
            self._outbox = deque()
            if self.epoch:  # who was started again needs what went before the first one
                self._outbox = deque((-1, frame) for number, frame in before.items() if number > hello.received)
            if hello.epoch == self.epoch:
                self.acknowledged = hello.received_in_epoch if self.epoch else hello.received
                ack = Ack(received=self.acknowledged, drop_from=hello.drop_from, drop_to=hello.drop_to, epoch=self.epoch)
                self._release(ack)
            if hello.epoch <= self.epoch:
                has = self.acknowledged if hello.epoch == self.epoch else 0
                self._outbox.extend(item for item in self._kept.items() if item[0] > has)
            self._wake()

    def _release(self, ack: Ack) -> None:
        if ack.epoch != self.epoch:
            return
        self.acknowledged = max(self.acknowledged, ack.received)
        first, last = (0, self.acknowledged) if self.epoch else (int(ack.drop_from), int(ack.drop_to))
        begin = max(first, self._dropped[1] if self._dropped[0] == first else first)
        if last - begin > len(self._kept):
            self._kept = {number: frame for number, frame in self._kept.items() if not first < number <= last}
        else:
            for number in range(begin + 1, last + 1):
                self._kept.pop(number, None)
        self._dropped = first, last
        self.owner.changed.notify_all()

    def _take(self, stream: int, message: Message, payload: memoryview) -> None:
        if message.run != self.owner.run or message.sender != self.name or (message.epoch and not self.owner.leaves):
            raise Refused("a message of another run or sender")
        if message.kind not in KINDS or message.dtype not in _DTYPES or len(message.shape) > _DIMENSIONS:
            raise Refused("a message of an unknown kind")
        whole = int(message.dtype[2:])
        for length in message.shape:
            whole *= length
        size = len(payload)
        if size != min(PART, whole - message.part * PART) or whole < message.part * PART:
            raise Refused(f"a message whose payload of {size} bytes is no part of the {whole} that it announces")
        if hashlib.sha256(payload).digest() != message.sha256:
            raise Refused("a message with a wrong SHA-256")
        part = Part(message.sequence, message.kind, message.round, message.part, message.dtype, whole, payload)
        if part.kind == NEWEST:
            self._take_newest(stream, part, message.sha256)
            return
        with self.owner.lock:
            while (inbox := self._inbox_of(message.epoch)) and inbox.size > _WINDOW and self.stream == stream:
                self._room.wait()
            if inbox is None or self.stream != stream or part.sequence <= inbox.received:
                return  # of an epoch that has ended, a duplicate, or one that is sent again by the next stream
            inbox.received = part.sequence
            inbox.messages.append(part)
            inbox.size += size
            if self.received - self._told >= _ACKNOWLEDGED:
                self.acknowledge()
            self.owner.changed.notify_all()
        self.owner.audit.write("received", self.name, part.kind, part.round, part.part, size, message.sha256)

    def _take_newest(self, stream: int, part: Part, digest: bytes) -> None:
        with self.owner.lock:
            if self.stream != stream:
                return
            if wrong := self.newest.arrived(part.sequence, part.part, part.whole, part.payload):
                raise Refused(wrong)
            self.owner.changed.notify_all()
        self.owner.audit.write("received", self.name, part.kind, part.round, part.part, len(part.payload), digest)

    def _inbox_of(self, epoch: int) -> Inbox | None:
        """Return where messages of an epoch go: the present one's, or those of the latest that the other end came to."""
        if epoch == self.epoch:
            return self.inbox if self._open else None
        if epoch > max(self.epoch, self._ahead.epoch):
            self._ahead = Inbox(epoch)
        return self._ahead if epoch == self._ahead.epoch > self.epoch else None


def expected(found: Part, rows: np.ndarray, kind: int, part: int) -> str | None:
    """Return what is wrong with a message that should be a part of ``rows``, or None; nothing is copied."""
    if found.kind != kind or found.part != part:
        return f"part {found.part} of {KINDS[found.kind]} where part {part} of {KINDS[kind]} is due"
    fits = found.whole <= rows.nbytes if kind == UNEVEN else found.whole == rows.nbytes
    due = rows.dtype.newbyteorder("<").str
    if not fits or found.dtype != due:
        return f"{found.whole} bytes of {found.dtype} where this round allows {rows.nbytes} of {due}"
    return None
