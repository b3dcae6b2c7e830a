"""Machine code of the kernels: made by LLVM once, kept on disk, made ufuncs of by NumPy.

As ufuncs, kernels cost a call about as much as ``np.tanh`` does, release the interpreter lock and take arrays of any strides.
"""

import ctypes
import functools
import hashlib
import logging
import os
import sys
import tempfile
import uuid
from importlib.metadata import version
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

_MAKE = 31  # where NumPy's table of C functions has PyUFunc_FromFuncAndDataAndSignature: part of its binary interface
_NO_IDENTITY = -1
_DIGEST = hashlib.sha256().digest_size
_kept: list[object] = []  # what ufuncs point to


def folder():
    """Where object files are kept: in ``NUMBA_CACHE_DIR``, or the user's folder for such things.

    It is made if it is not there. OSError if it cannot be, or others may write to it; RuntimeError if the user has no home.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    if not named and sys.platform == "win32":
        named = os.environ.get("LOCALAPPDATA", tempfile.gettempdir())
    path = Path(named or os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "consensus"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _ours(path.stat()):
        raise PermissionError(f"{path} belongs to another user, or others may write to it")
    return path


def _ours(status):
    """Whether this user owns a file or folder, and nobody else may write to it; always true on Windows."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def ufunc(name, arguments, signature, dtype, integers=0):
    """The kernel ``name`` of so many arguments, for arrays of ``dtype``; with a signature if it takes rows, not elements.

    The last ``integers`` of the arguments are arrays of ``intp``.
    """
    symbol = f"consensus_{name}_{dtype.name}"
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())  # one for each, as it takes one object file
    engine.add_object_file(llvm.ObjectFileRef.from_data(_object(name, dtype, symbol)))
    engine.finalize_object()
    _kept.append(engine)
    kinds = [dtype] * (arguments - integers) + [np.dtype(np.intp)] * integers + [dtype]
    return _as_ufunc(engine.get_function_address(symbol), name, kinds, signature)


def _machine():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = _processor()
    return llvm.Target.from_default_triple().create_target_machine(cpu, features, opt=3, reloc="pic", jit=True)


def _as_ufunc(address, name, kinds, signature):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = ctypes.cast(pointer(_multiarray_umath._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    text, numbers = ctypes.c_char_p, [ctypes.c_int] * 4
    kind = (ctypes.c_void_p, ctypes.c_void_p, text, *numbers, text, text, ctypes.c_int, text)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, *kind)(table[_MAKE])
    loops, data = (ctypes.c_void_p * 1)(address), (ctypes.c_void_p * 1)()
    types, title = bytes(kind.num for kind in kinds), name.encode()
    _kept.append((loops, data, types, title))  # NumPy keeps the pointers, and no copies
    pointers = ctypes.addressof(loops), ctypes.addressof(data)
    return make(*pointers, types, 1, len(kinds) - 1, 1, _NO_IDENTITY, title, b"", 0, signature and signature.encode())


@functools.cache
def _processor():
    """Its name and features, or those in the variables by which Numba, too, is told to compile for another."""
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    return name, os.environ.get("NUMBA_CPU_FEATURES", llvm.get_host_cpu_features().flatten())


@functools.cache
def _origin():
    """What object files depend on besides their names: this folder, the compiler, the processor."""
    sources = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    origin = repr((sources, version("llvmlite"), sys.platform, *_processor()))
    return hashlib.sha256(origin.encode()).hexdigest()[:16]


def _object(name, dtype, symbol):
    """The object file of a kernel: from disk, or compiled and put there, if only this user can write to the folder."""
    try:
        path = folder() / f"{name}-{dtype.name}-{_origin()}.o"
    except (OSError, RuntimeError) as error:
        path = None
        _warn(str(error))
    if path and (code := _read(path)) is not None:
        return code
    from consensus.kernels.loops import machine_code  # only if needed: it imports what writes instructions

    code = machine_code(name, dtype, symbol, _machine())
    if path:
        try:
            _keep(path, code)
        except OSError as error:
            _warn(str(error))
    return code


@functools.cache
def _warn(error):
    """Say once a process that kernels are compiled anew in every process."""
    logging.getLogger("consensus").warning(
        "compiled kernels cannot be kept (%s): set NUMBA_CACHE_DIR to a folder that only you can write to", error
    )


def _read(path):
    """What :func:`_keep` wrote; None if there is nothing, another user's file, or half a file: such must never be run."""
    try:
        with path.open("rb") as file:
            kept = file.read() if _ours(os.fstat(file.fileno())) else b""
    except OSError:
        return None
    digest, code = kept[:_DIGEST], kept[_DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


def _keep(path, code):
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(hashlib.sha256(code).digest() + code)
        draft.replace(path)  # at once: other processes read and write here
    finally:
        draft.unlink(missing_ok=True)
