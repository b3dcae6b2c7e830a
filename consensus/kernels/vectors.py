"""Vectors of eight numbers for compiled code, so that sums have one order on every machine.

LLVM makes an instruction of each operation, or a few. Sums that it made vectors of by itself would depend on how long the
machine's are.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 8
_INT = ir.IntType(32)


class Vector(types.Type):
    """Eight numbers of one type."""

    def __init__(self, number):
        self.number = number
        super().__init__(name=f"Vector({number})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(manager[kind.number].get_value_type(), LANES))


def _repeated(builder, number, count=LANES):
    nothing = ir.Constant(ir.VectorType(number.type, count), ir.Undefined)
    one = builder.insert_element(nothing, number, _INT(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(_INT, count), [0] * count))


def _masked(builder, what, number, result, vector, address, count):
    """The LLVM function that loads or stores the first ``count`` numbers, its pointer, alignment (bytes) and mask."""
    pointer = builder.inttoptr(address, vector.as_pointer())
    places = ir.Constant(ir.VectorType(count.type, LANES), [*range(LANES)])
    mask = builder.icmp_signed("<", places, _repeated(builder, count))
    given = [vector] if what == "store" else []
    after = [] if what == "store" else [vector]
    kind = ir.FunctionType(result, [*given, pointer.type, _INT, mask.type, *after])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.{what}.v{LANES}f{number.bitwidth}.p0")
    return function, pointer, _INT(number.bitwidth // 8), mask


@intrinsic
def load(typing, address, count, like):
    """The first ``count`` numbers at an address, of the type of ``like``; zeros after them, where nothing is read."""

    def make(context, builder, signature, arguments):
        vector = context.get_value_type(Vector(like))
        function, *rest = _masked(builder, "load", like, vector, vector, *arguments[:2])
        return builder.call(function, [*rest, ir.Constant(vector, None)])

    return Vector(like)(address, count, like), make


@intrinsic
def store(typing, vector, address, count):
    """Put the first ``count`` numbers at an address."""

    def make(context, builder, signature, arguments):
        value = arguments[0]
        function, *rest = _masked(builder, "store", vector.number, ir.VoidType(), value.type, *arguments[1:])
        builder.call(function, [value, *rest])
        return context.get_dummy_value()

    return types.void(vector, address, count), make


@intrinsic
def times(typing, vector, number):
    """Each of the numbers times one, or times that in the same place of another vector."""

    def make(context, builder, signature, arguments):
        factor = arguments[1] if number == vector else _repeated(builder, arguments[1])
        return builder.fmul(arguments[0], factor)

    return vector(vector, number), make


@intrinsic
def plus(typing, a, b):
    return a(a, b), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@intrinsic
def store_totals(typing, address, number, a, b, c, d):
    """Put a number plus the sum of each of four vectors at an address; sums are of halves of halves, all four at once."""

    def make(context, builder, signature, arguments):
        address, number, *vectors = arguments

        def added(x, y, left, right):  # some places of two vectors, and some others
            parts = [builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(_INT, 4), at)) for at in (left, right)]
            return builder.fadd(*parts)

        fours = [added(vector, vector, [0, 1, 2, 3], [4, 5, 6, 7]) for vector in vectors]
        pairs = [added(x, y, [0, 1, 4, 5], [2, 3, 6, 7]) for x, y in (fours[:2], fours[2:])]
        sums = added(*pairs, [0, 2, 4, 6], [1, 3, 5, 7])
        result = builder.fadd(sums, _repeated(builder, number, 4))
        builder.store(result, builder.inttoptr(address, result.type.as_pointer()), align=context.get_abi_sizeof(number.type))
        return context.get_dummy_value()

    return types.void(address, number, a, b, c, d), make


def room(count):
    """A function that gives the address of memory for ``count`` numbers, of its argument's type, on the stack."""

    @intrinsic
    def address(typing, like):
        def make(context, builder, signature, arguments):
            memory = cgutils.alloca_once(builder, context.get_value_type(like), size=ir.IntType(64)(count))
            return builder.ptrtoint(memory, context.get_value_type(types.intp))

        return types.intp(like), make

    return address
