"""LLVM's instructions, written by Python functions of numbers that are yet to come: operators on these write instructions.

An ``if`` or a ``for`` of Python decides what is written. What the code is to decide when it runs is said by :func:`where`,
:func:`when` and :func:`loop`. LLVM makes machine code of it in a tenth of a second or two, where Numba, which reads Python's
own code, takes one to three. It makes vectors of loops, but may not reorder or contract what is written.
"""

import numpy as np
from llvmlite import ir

INTP = np.dtype(np.intp)
_POINTER, _TRUTH = ir.PointerType(), ir.IntType(1)
_INTEGERS = {ir.DoubleType(): ir.IntType(64), ir.FloatType(): ir.IntType(32)}
_FLOATS = {integer: number for number, integer in _INTEGERS.items()}


def text(name, write):
    """In LLVM's language, the inner loop of a ufunc: a function called ``name``.

    It is written by ``write(addresses, lengths, steps)``, three :class:`Array`: NumPy's arguments, steps in bytes.
    """
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_POINTER] * 4), name)
    builder = ir.IRBuilder(function.append_basic_block())
    write(*(Array(Value(builder, builder.ptrtoint(argument, kind_of(INTP))), INTP) for argument in function.args[:3]))
    builder.ret_void()
    return str(module)


def kind_of(dtype):
    """LLVM's type of a number."""
    if dtype.kind == "i":
        return ir.IntType(8 * dtype.itemsize)
    return ir.DoubleType() if dtype.itemsize == 8 else ir.FloatType()


def _operator(integers, floats=None):
    def operator(self, other):
        return self.made(integers if self.integral else floats, self.ir, self.operand(other))

    return operator


def _reflected(operator):
    return lambda self, other: operator(self.constant(other), self)


def _comparison(how):
    def comparison(self, other):
        if self.integral:
            return self.made("icmp_signed", how, self.ir, self.operand(other))
        return self.made("fcmp_unordered" if how == "!=" else "fcmp_ordered", how, self.ir, self.operand(other))

    return comparison


class Value:
    """A number that the machine code will have, or a vector of some, or whether something holds."""

    __slots__ = ("builder", "ir")
    __array_ufunc__ = None  # NumPy's numbers leave operators to it
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, builder, value):
        self.builder, self.ir = builder, value

    @property
    def kind(self):
        return self.ir.type

    @property
    def integral(self):
        return isinstance(getattr(self.kind, "element", self.kind), ir.IntType)

    def made(self, how, *arguments):
        """What an instruction makes of the arguments."""
        return Value(self.builder, getattr(self.builder, how)(*arguments))

    def constant(self, number):
        """A number, of the same type."""
        return Value(self.builder, ir.Constant(self.kind, number))

    def operand(self, other):
        """Another one as an instruction's argument: a number, or one for all of a vector, takes the type of this one."""
        if not isinstance(other, Value):
            return self.constant(other).ir
        if isinstance(self.kind, ir.VectorType) and other.kind == self.kind.element:
            return repeated(other, self.kind.count).ir
        assert other.kind == self.kind, f"{self.kind} and {other.kind}"
        return other.ir

    def __bool__(self):
        raise TypeError("this is known when the code runs: use where, when or loop")

    __add__, __sub__, __mul__ = _operator("add", "fadd"), _operator("sub", "fsub"), _operator("mul", "fmul")
    __radd__, __rsub__, __rmul__ = map(_reflected, (__add__, __sub__, __mul__))
    __truediv__, __floordiv__, __mod__ = _operator(None, "fdiv"), _operator("sdiv"), _operator("srem")  # integers >= 0
    __rfloordiv__ = _reflected(__floordiv__)
    __and__, __or__, __xor__ = _operator("and_"), _operator("or_"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("ashr")
    __lt__, __le__, __gt__, __ge__ = map(_comparison, ("<", "<=", ">", ">="))
    __eq__, __ne__ = map(_comparison, ("==", "!="))  # type: ignore[assignment]

    def __neg__(self):
        return self.made("fneg", self.ir)

    def __abs__(self):
        function = self.builder.module.declare_intrinsic("llvm.fabs", [self.kind])
        return self.made("call", function, [self.ir])


def repeated(number, count):
    """A vector of ``count`` times the number."""
    nothing = ir.Constant(ir.VectorType(number.kind, count), ir.Undefined)
    one = number.builder.insert_element(nothing, number.ir, ir.IntType(32)(0))
    return number.made("shuffle_vector", one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count))


def bits(x):
    """Those of a float, as an integer."""
    return x.made("bitcast", x.ir, _INTEGERS[x.kind])


def float_of(i):
    """The float of these bits."""
    return i.made("bitcast", i.ir, _FLOATS[i.kind])


def as_integer(x):
    """A float without what is behind its point; that must fit an integer."""
    return x.made("fptosi", x.ir, kind_of(INTP))


def as_float(i, dtype):
    return i.made("sitofp", i.ir, kind_of(dtype))


def where(condition, one, other):
    """One number or the other; both are worked out."""
    if not isinstance(one, Value):
        one = other.constant(one)
    return condition.made("select", condition.ir, one.ir, one.operand(other))


def least(one, other):
    return where(one < other, one, other)


def greatest(one, other):
    return where(one > other, one, other)


class Array:
    """Numbers side by side in memory, from an address on."""

    def __init__(self, address, dtype):
        self.kind, self.start = kind_of(dtype), address.made("inttoptr", address.ir, _POINTER)

    def _pointer(self, place):
        place = place.ir if isinstance(place, Value) else ir.Constant(kind_of(INTP), place)
        return self.start.builder.gep(self.start.ir, [place], inbounds=True, source_etype=self.kind)

    def __getitem__(self, place):
        return Value(self.start.builder, self.start.builder.load(self._pointer(place), typ=self.kind))

    def __setitem__(self, place, value):
        value = value if isinstance(value, Value) else self.constant(value)
        self.start.builder.store(value.ir, self._pointer(place))

    def constant(self, number):
        """A number of the type of its numbers."""
        return Value(self.start.builder, ir.Constant(self.kind, number))

    def first(self, count):
        return [self[place] for place in range(count)]


def loop(begin, end, step, *carried):
    """Decorates the body of a loop, ``body(i, *carried)`` for i = begin, begin + step, ... below ``end``.

    What the body returns is carried to its next pass. Its name then means what is carried in the end: a tuple, or the only one.
    """

    def decorated(body):
        builder = end.builder
        before, head = builder.block, builder.append_basic_block()
        inside, after = builder.append_basic_block(), builder.append_basic_block()
        start = [end.operand(begin), *(value.ir for value in carried)]
        builder.branch(head)
        builder.position_at_end(head)
        phis = [builder.phi(value.type) for value in start]
        i, *now = [Value(builder, phi) for phi in phis]
        builder.cbranch((i < end).ir, inside, after)
        builder.position_at_end(inside)
        result = body(i, *now)
        results = result if isinstance(result, tuple | list) else () if result is None else (result,)
        following = [builder.add(i.ir, i.operand(step), flags=["nsw"]), *(value.ir for value in results)]
        last = builder.block  # the body may have added some
        builder.branch(head)
        for phi, first, then in zip(phis, start, following, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(then, last)
        builder.position_at_end(after)
        return now[0] if len(now) == 1 else tuple(now)

    return decorated


def when(condition, then, otherwise=None):
    """Call one function or the other, for what they do."""
    if otherwise is None:
        with condition.builder.if_then(condition.ir):
            then()
        return
    with condition.builder.if_else(condition.ir) as (yes, no):
        with yes:
            then()
        with no:
            otherwise()
