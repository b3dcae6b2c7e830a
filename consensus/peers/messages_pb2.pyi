from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("run", "version", "sender", "process", "received", "drop_from", "drop_to", "time", "probe", "epoch", "received_in_epoch")
    RUN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    DROP_FROM_FIELD_NUMBER: _ClassVar[int]
    DROP_TO_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_IN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    version: str
    sender: str
    process: bytes
    received: int
    drop_from: int
    drop_to: int
    time: float
    probe: bool
    epoch: int
    received_in_epoch: int
    def __init__(self, run: _Optional[bytes] = ..., version: _Optional[str] = ..., sender: _Optional[str] = ..., process: _Optional[bytes] = ..., received: _Optional[int] = ..., drop_from: _Optional[int] = ..., drop_to: _Optional[int] = ..., time: _Optional[float] = ..., probe: _Optional[bool] = ..., epoch: _Optional[int] = ..., received_in_epoch: _Optional[int] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("run", "sender", "epoch", "round", "kind", "part", "sequence", "dtype", "shape", "sha256")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    sender: str
    epoch: int
    round: int
    kind: int
    part: int
    sequence: int
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    sha256: bytes
    def __init__(self, run: _Optional[bytes] = ..., sender: _Optional[str] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., kind: _Optional[int] = ..., part: _Optional[int] = ..., sequence: _Optional[int] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("received", "drop_from", "drop_to", "epoch")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    DROP_FROM_FIELD_NUMBER: _ClassVar[int]
    DROP_TO_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    received: int
    drop_from: int
    drop_to: int
    epoch: int
    def __init__(self, received: _Optional[int] = ..., drop_from: _Optional[int] = ..., drop_to: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Note(_message.Message):
    __slots__ = ("state", "text")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        GOES_ON: _ClassVar[Note.State]
        WAITS: _ClassVar[Note.State]
        STOPPED: _ClassVar[Note.State]
        FINISHED: _ClassVar[Note.State]
        REFUSED: _ClassVar[Note.State]
        FAILED: _ClassVar[Note.State]
    GOES_ON: Note.State
    WAITS: Note.State
    STOPPED: Note.State
    FINISHED: Note.State
    REFUSED: Note.State
    FAILED: Note.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    state: Note.State
    text: str
    def __init__(self, state: _Optional[_Union[Note.State, str]] = ..., text: _Optional[str] = ...) -> None: ...

class Epoch(_message.Message):
    __slots__ = ("number", "members", "round", "cut")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    number: int
    members: _containers.RepeatedScalarFieldContainer[int]
    round: int
    cut: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, number: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ..., round: _Optional[int] = ..., cut: _Optional[_Iterable[int]] = ...) -> None: ...

class Word(_message.Message):
    __slots__ = ("peer", "version", "epoch", "state", "rounds", "lost", "ballot", "proposal", "promised", "accepted", "choice")
    PEER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    BALLOT_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    peer: int
    version: int
    epoch: Epoch
    state: int
    rounds: _containers.RepeatedScalarFieldContainer[int]
    lost: _containers.RepeatedScalarFieldContainer[int]
    ballot: int
    proposal: Epoch
    promised: int
    accepted: int
    choice: Epoch
    def __init__(self, peer: _Optional[int] = ..., version: _Optional[int] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., state: _Optional[int] = ..., rounds: _Optional[_Iterable[int]] = ..., lost: _Optional[_Iterable[int]] = ..., ballot: _Optional[int] = ..., proposal: _Optional[_Union[Epoch, _Mapping]] = ..., promised: _Optional[int] = ..., accepted: _Optional[int] = ..., choice: _Optional[_Union[Epoch, _Mapping]] = ...) -> None: ...

class Words(_message.Message):
    __slots__ = ("words",)
    WORDS_FIELD_NUMBER: _ClassVar[int]
    words: _containers.RepeatedCompositeFieldContainer[Word]
    def __init__(self, words: _Optional[_Iterable[_Union[Word, _Mapping]]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("hello", "message", "ack", "note", "words")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    message: Message
    ack: Ack
    note: Note
    words: Words
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., note: _Optional[_Union[Note, _Mapping]] = ..., words: _Optional[_Union[Words, _Mapping]] = ...) -> None: ...
