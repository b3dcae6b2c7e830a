"""Vectors of eight numbers for compiled code, so that sums have one order on every machine.

LLVM makes an instruction of each operation, or a few. Sums that it made vectors of by itself would depend on how long the
machine's are.
"""

from llvmlite import ir

from consensus.kernels.instructions import INTP, Value, kind_of

LANES = 8
_INT = ir.IntType(32)


def load(address, count, dtype):
    """The first ``count`` numbers at an address; zeros after them, where nothing is read."""
    vector = ir.VectorType(kind_of(dtype), LANES)
    call, *rest = _masked("load", address, count, vector, vector)
    return address.made("call", call, [*rest, ir.Constant(vector, None)])


def fetch(address):
    """Begin to bring what is at an address into the cache; it may be any, as nothing comes of one that is of no memory."""
    name, functions = "llvm.prefetch.p0", address.builder.module.globals
    if name not in functions:
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), _INT, _INT, _INT])
        ir.Function(address.builder.module, kind, name)
    pointer = address.made("inttoptr", address.ir, ir.PointerType())
    address.made("call", functions[name], [pointer.ir, *map(_INT, (0, 3, 1))])  # to read, to all levels, data


def store(vector, address, count):
    """Put the first ``count`` numbers at an address."""
    call, *rest = _masked("store", address, count, vector.kind, ir.VoidType(), vector.kind)
    address.made("call", call, [vector.ir, *rest])


def _masked(what, address, count, vector, result, *given):
    """The LLVM function that loads or stores the first ``count`` numbers, its pointer, alignment (bytes) and mask."""
    size = 8 if vector.element == ir.DoubleType() else 4
    places = Value(address.builder, ir.Constant(ir.VectorType(kind_of(INTP), LANES), [*range(LANES)]))
    mask = places < (count if isinstance(count, Value) else address.constant(count))
    pointer = address.made("inttoptr", address.ir, ir.PointerType())
    name, functions = f"llvm.masked.{what}.v{LANES}f{8 * size}.p0", address.builder.module.globals
    if name not in functions:
        after = [] if given else [vector]
        ir.Function(address.builder.module, ir.FunctionType(result, [*given, pointer.kind, _INT, mask.kind, *after]), name)
    return functions[name], pointer.ir, _INT(size), mask.ir


def store_totals(address, number, vectors):
    """Put a number plus the sum of each of four vectors at an address; sums are of halves of halves, all four at once."""

    def added(x, y, left, right):  # some places of two vectors, and some others
        parts = [x.made("shuffle_vector", x.ir, y.ir, ir.Constant(ir.VectorType(_INT, 4), at)) for at in (left, right)]
        return parts[0] + parts[1]

    fours = [added(vector, vector, [0, 1, 2, 3], [4, 5, 6, 7]) for vector in vectors]
    pairs = [added(x, y, [0, 1, 4, 5], [2, 3, 6, 7]) for x, y in (fours[:2], fours[2:])]
    result = added(*pairs, [0, 2, 4, 6], [1, 3, 5, 7]) + number
    pointer = address.made("inttoptr", address.ir, ir.PointerType())
    address.builder.store(result.ir, pointer.ir, align=8 if number.kind == ir.DoubleType() else 4)


def room(count, dtype, value):
    """The address of memory for ``count`` numbers on the stack."""
    with value.builder.goto_entry_block():
        memory = value.builder.alloca(kind_of(dtype), ir.IntType(64)(count))
    return value.made("ptrtoint", memory, kind_of(INTP))
