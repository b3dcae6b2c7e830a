from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("run", "version", "sender", "process", "received", "drop_from", "drop_to", "time", "probe")
    RUN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    DROP_FROM_FIELD_NUMBER: _ClassVar[int]
    DROP_TO_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    version: str
    sender: str
    process: bytes
    received: int
    drop_from: int
    drop_to: int
    time: float
    probe: bool
    def __init__(self, run: _Optional[bytes] = ..., version: _Optional[str] = ..., sender: _Optional[str] = ..., process: _Optional[bytes] = ..., received: _Optional[int] = ..., drop_from: _Optional[int] = ..., drop_to: _Optional[int] = ..., time: _Optional[float] = ..., probe: _Optional[bool] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("run", "sender", "epoch", "round", "kind", "part", "sequence", "dtype", "shape", "payload", "sha256")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
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
    payload: bytes
    sha256: bytes
    def __init__(self, run: _Optional[bytes] = ..., sender: _Optional[str] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., kind: _Optional[int] = ..., part: _Optional[int] = ..., sequence: _Optional[int] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., payload: _Optional[bytes] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("received", "drop_from", "drop_to")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    DROP_FROM_FIELD_NUMBER: _ClassVar[int]
    DROP_TO_FIELD_NUMBER: _ClassVar[int]
    received: int
    drop_from: int
    drop_to: int
    def __init__(self, received: _Optional[int] = ..., drop_from: _Optional[int] = ..., drop_to: _Optional[int] = ...) -> None: ...

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

class Frame(_message.Message):
    __slots__ = ("hello", "message", "ack", "note")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    message: Message
    ack: Ack
    note: Note
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., note: _Optional[_Union[Note, _Mapping]] = ...) -> None: ...
