"""Who has no certificate in the file of the run gets no answer, and what is no frame of it changes nothing."""

import ast
import hashlib
import shutil
import socket
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("grpc")

import grpc

import consensus
from consensus import solvers
from consensus.engines.transport import MIXED
from consensus.peers import keys
from consensus.peers.audit import Audit
from consensus.peers.link import PART, Refused, packed, unpacked
from consensus.peers.messages_pb2 import Ack, Frame, Hello, Message, Note
from consensus.peers.ranks import Here
from consensus.peers.roster import Roster
from consensus.peers.service import METHOD, OPTIONS, channel
from tests.helpers.loopback import check_same, network_of, problem_of, together, written
from tests.helpers.modules import MODULES, imports

TURNS = 2  # of the strangers at the port
TWO, EDGE = ("oslo", "rome"), (("oslo", "rome"),)


@pytest.fixture
def link(tmp_path):
    """Oslo's link to Rome, which has greeted it."""
    roster = Roster.read(written(tmp_path, TWO, EDGE), "oslo")
    here = Here(roster, Audit(tmp_path / "audit.jsonl"))
    found = here.links[1]
    found.arrived(found.attach(), frame(hello=hello(here.run)))
    yield found
    here.audit.close()


def frame(**body):
    return packed(Frame(**body))


def hello(ours, **changed):
    return Hello(**{"run": ours, "version": consensus.__version__, "sender": "rome", "process": b"1"} | changed)


def message(ours, payload=b"12345678", **changed):
    given = {"run": ours, "sender": "rome", "kind": MIXED, "sequence": 1, "dtype": "<f8", "shape": [len(payload) // 8]}
    given = Message(**given | {"sha256": hashlib.sha256(payload).digest()} | changed)
    return packed(Frame(message=given), payload)


@pytest.mark.slow
def test_malformed_frames(link):
    rng, right = np.random.default_rng(0), message(link.owner.run)
    for number in range(10_000):
        data = bytearray(right if number % 2 else rng.bytes(int(rng.integers(0, 60))))
        for place in rng.integers(0, max(1, len(data)), 3) if data else ():
            data[place] ^= 1 << int(rng.integers(8))
        try:
            link.arrived(link.stream, bytes(data))
        except Refused:
            continue
        with link.owner.lock:  # a frame of another meaning, such as a note, or one whose unknown fields are skipped
            assert link.kept == 0
            assert len(link.inbox.messages) <= 8
    assert link.inbox.size <= 8 * 10_000


@pytest.mark.parametrize(("changed", "why"), [
    ({"run": b"another"}, "another run"),
    ({"sender": "vienna"}, "another run or sender"),
    ({"epoch": 1}, "another run"),
    ({"kind": 7}, "unknown kind"),
    ({"dtype": "|O8"}, "unknown kind"),
    ({"shape": [1] * 9}, "unknown kind"),
    ({"shape": [2]}, "no part of the 16"),
    ({"shape": [1 << 29]}, "no part of the 4294967296"),
    ({"shape": [1 << 62, 1 << 62]}, "no part of"),
    ({"part": 1}, "no part"),
    ({"sha256": b"0" * 32}, "wrong SHA-256"),
])  # fmt: skip
def test_messages_refused(link, changed, why):
    with pytest.raises(Refused, match=why):
        link.arrived(link.stream, message(link.owner.run, **changed))
    assert link.received == 0


def test_greetings_refused(link):
    stream = link.attach()
    with pytest.raises(Refused, match="without a greeting"):
        link.arrived(stream, message(link.owner.run))
    for changed, why in (
        ({"run": b"x"}, "digest of another run"),
        ({"version": "0.0.9"}, "version '0.0.9' of the package"),
        ({"sender": "vienna"}, "the name 'vienna'"),
    ):
        with pytest.raises(Refused, match=why):
            link.arrived(stream, frame(hello=hello(link.owner.run, **changed)))
    assert not link.greeted


def test_duplicates_and_late_streams(link):
    for number in (1, 2, 1, 2, 3):
        link.arrived(link.stream, message(link.owner.run, sequence=number))
    late, _ = link.stream, link.attach()
    link.arrived(late, frame(hello=hello(link.owner.run)))
    assert [link.next().sequence for _ in range(3)] == [1, 2, 3]
    assert link.next() is None


def test_what_is_kept_and_sent_again(link):
    """All until the other end needs it no more; after a new greeting what that lacks."""
    for _ in range(5):
        link.send(MIXED, 0, np.arange(3.0))
    link.arrived(link.stream, frame(ack=Ack(received=4, drop_from=1, drop_to=3)))
    assert list(link._kept) == [1, 4, 5]
    stream = link.attach()
    link.arrived(stream, frame(hello=hello(link.owner.run, process=b"2", received=0)))
    frames = link.frames(stream)
    sent, payloads = zip(*(unpacked(next(frames)) for _ in range(4)), strict=True)
    assert [one.WhichOneof("body") for one in sent] == ["hello"] + ["message"] * 3
    assert [one.message.sequence for one in sent[1:]] == [1, 4, 5]
    assert np.array_equal(np.frombuffer(payloads[1], sent[1].message.dtype), np.arange(3.0))


def test_a_note_is_told_once_by_a_stream_and_messages_do_not_wait_behind_notes(link):
    """Peers that have ended note so whenever something arrives, also each other's notes: messages never left behind them."""
    frames = link.frames(link.stream)
    next(frames)
    for text in ("", "oslo has ended"):
        for _ in range(3):
            link.note(Note.FINISHED, text)
    link.send(MIXED, 0, np.arange(3.0))
    sent = [unpacked(next(frames))[0] for _ in range(3)]
    assert [one.WhichOneof("body") for one in sent] == ["note", "note", "message"]
    stream = link.attach()
    link.arrived(stream, frame(hello=hello(link.owner.run, received=1)))
    link.note(Note.FINISHED, "oslo has ended")
    frames = link.frames(stream)
    assert [unpacked(next(frames))[0].WhichOneof("body") for _ in range(2)] == ["hello", "note"]


def test_memory_of_what_nobody_asked_for(link):
    """A neighbour that sends and sends is not read beyond a window."""
    payload = bytes(PART)

    def flood():
        with suppress(Refused):  # when its stream has ended
            for number in range(1, 40):
                link.arrived(1, message(link.owner.run, payload, sequence=number))

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    thread.join(0.3)
    assert link.inbox.size <= 6 * PART
    link.detach(link.stream, "enough")
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.slow
def test_strangers_at_the_port(tmp_path):
    """A run goes on, to the bit, while strangers try to get in, by every door; a neighbour's own key opens its own alone."""
    names = (*TWO, "vienna")
    edges = (*EDGE, ("rome", "vienna"))
    path = written(tmp_path, names, edges)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    keys("rome", elsewhere)
    keys("mallory", elsewhere)
    roster = {name: Roster.read(path, name) for name in names}
    oslo = roster["oslo"].peers[0]
    said = []

    def call(opened, frames=(b"x",)):
        try:
            for answer in opened.stream_stream("/" + "/".join(METHOD))(iter(frames), timeout=5):
                said.append(unpacked(answer)[0].WhichOneof("body"))
        except grpc.RpcError as error:
            said.append(error.code().name)
        finally:
            opened.close()
        return said[-1]

    def with_key(certificate, key=None):
        pair = (key.read_bytes(), certificate.read_bytes()) if key else ()
        who = grpc.ssl_channel_credentials(oslo.certificate, *pair)
        return grpc.secure_channel(oslo.address, who, [*OPTIONS, ("grpc.ssl_target_name_override", "oslo")])

    def strangers():
        for _ in range(TURNS):  # the run waits for them in its middle
            assert call(grpc.insecure_channel(oslo.address)) == "UNAVAILABLE"
            assert call(with_key(None)) == "UNAVAILABLE"
            for name in ("rome", "mallory"):
                assert call(with_key(elsewhere / f"{name}.pem", elsewhere / f"{name}.key")) == "UNAVAILABLE"
            assert call(channel(roster["vienna"], 0)) == "PERMISSION_DENIED"  # it has no edge with oslo
            run = roster["rome"].digest
            for frames in (
                [b"no frame"],
                [frame(hello=hello(b"another run"))],
                [frame(hello=hello(run, received=0)), message(run, sequence=1, shape=[1 << 29])],
                [frame(hello=hello(run)), b"\0" * (2 * PART)],
                [frame(hello=hello(run)), frame(note=Note(state=Note.WAITS, text="x" * 10_000))],
            ):
                call(channel(roster["rome"], 0), frames)
            done.append(True)

    done, failed = [], []

    def guarded():
        try:
            strangers()
        except BaseException as error:
            failed.append(error)

    def wait(info):
        if info.round == 3:
            thread.start()
        while info.round == 8 and len(done) < TURNS and not failed:
            time.sleep(0.05)

    host, port = oslo.address.split(":")
    sockets = []

    def run(peers):
        if peers.root:
            sockets.extend(socket.create_connection((host, int(port))) for _ in range(500))
        return consensus.solve(problem, peers.network, solver, engine=peers, callbacks=[wait], **options)

    thread = threading.Thread(target=guarded, daemon=True)
    problem, solver, options = problem_of(3), solvers.GradientTracking(0.05), {"rounds": 12, "record_every": 1}
    alone = consensus.solve(problem, network_of(names, edges), solver, callbacks=[lambda info: None], **options)
    found = together(path, run, names)
    thread.join(60)
    for one in sockets:
        one.close()
    assert not failed, failed
    for result in found.values():
        check_same(result, alone)


def test_the_generated_code_is_current(tmp_path):
    protoc = pytest.importorskip("grpc_tools.protoc")
    from consensus.peers import messages_pb2

    folder = type(tmp_path)(messages_pb2.__file__).parent
    shutil.copy(folder / "messages.proto", tmp_path)
    assert protoc.main(["protoc", f"-I{tmp_path}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", "messages.proto"]) == 0
    for name in ("messages_pb2.py", "messages_pb2.pyi"):
        assert (tmp_path / name).read_text() == (folder / name).read_text()


def test_nothing_is_unpickled_here():
    for name, path in MODULES.items():
        if name.startswith("consensus.peers"):
            found = set(imports(ast.parse(path.read_text()), late=True))
            assert not [one for one in found if "pickle" in one or one.startswith(("marshal", "joblib"))], name
