/* The compiled kernels: NumPy ufuncs for float64 and float32, in one version for each level of processor.

   kernel.py chooses the level once. Each ufunc computes what the NumPy function of the same name does, for arrays of any layout,
   and raises ValueError for sizes that do not fit; NumPy raises TypeError for other dtypes before a loop begins. The file
   includes itself once for each level and type, with DOUBLE 1 or 0: the part after #else is compiled six times on x86-64, and
   twice elsewhere. It needs GCC or Clang.

   Results are equal to the bit on all levels: the compiler keeps the operations and their order as written (setup.py passes
   -ffp-contract=off and never -ffast-math). Sums over features are written as eight partial sums, so that their order does not
   depend on the length of registers. */

#ifndef DOUBLE

#include <Python.h>
#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/dtype_api.h>
#include <numpy/ufuncobject.h>

#if !defined(__GNUC__) || FLT_EVAL_METHOD != 0
#error "the kernels need GCC or Clang, and arithmetic without excess precision: NumPy serves instead"
#endif

#define UNROLLED _Pragma("GCC unroll 8") /* keeps sums in registers */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)") /* iterations do not depend on each other */
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define JOIN_(name, level, type) name##_##level##_##type
#define JOIN(name, level, type) JOIN_(name, level, type)
#define NAME(name) JOIN(name, LEVEL, REAL)
#define LOOP_(name) \
    static TARGET int NAME(name)( \
        PyArrayMethod_Context *Py_UNUSED(context), char *const *args, const npy_intp *lengths, const npy_intp *steps, \
        NpyAuxData *Py_UNUSED(data))
#define LOOP(name) LOOP_(loop_##name)
#define FUNCTION static inline __attribute__((always_inline, unused)) TARGET

/* Each function has a name for each level and type. */
#define bits NAME(bits)
#define number NAME(number)
#define magnitude NAME(magnitude)
#define passing_nan NAME(passing_nan)
#define chosen NAME(chosen)
#define expand NAME(expand)
#define expanded NAME(expanded)
#define ratio NAME(ratio)
#define log1p_exp NAME(log1p_exp)
#define tanh NAME(tanh)
#define sigmoid NAME(sigmoid)
#define softplus NAME(softplus)
#define exp NAME(exp)
#define exp_below NAME(exp_below)
#define tanh_sum NAME(tanh_sum)
#define tanh_slope NAME(tanh_slope)
#define tanh_backward NAME(tanh_backward)
#define sigmoid_sum NAME(sigmoid_sum)
#define sigmoid_slope NAME(sigmoid_slope)
#define sigmoid_backward NAME(sigmoid_backward)
#define logistic_value NAME(logistic_value)
#define logistic_slope NAME(logistic_slope)
#define logistic_curvature NAME(logistic_curvature)
#define huber_slope NAME(huber_slope)
#define huber_value NAME(huber_value)
#define ordered NAME(ordered)
#define load NAME(load)
#define store NAME(store)
#define load_first NAME(load_first)
#define scattered NAME(scattered)
#define side_by_side NAME(side_by_side)
#define whole_numbers NAME(whole_numbers)
#define put_back NAME(put_back)
#define multiplied NAME(multiplied)
#define scaled NAME(scaled)
#define added NAME(added)
#define take NAME(take)
#define put_outputs NAME(put_outputs)
#define add_multiples NAME(add_multiples)
#define sum_of NAME(sum_of)
#define up_to_the_last NAME(up_to_the_last)
#define put_multiple NAME(put_multiple)
#define put_sums NAME(put_sums)

#define LANES 8 /* partial sums over features */
#define SAMPLES 64 /* the most samples in a batch; a multiple of four */
#define NUMBERS (1 << 14) /* the most features in a batch of more than four samples: a batch stays in cache */
#define LONG_ROW 8192 /* bytes. Hardware prefetches too late across short rows: */
#define ROWS_AHEAD 8 /* so many short rows are prefetched, */
#define AHEAD 1024 /* or so many bytes of long ones */
#define COLUMNS 960 /* columns that are mixed at a time: those of all rows stay in cache */
#define EXP_BLOCK 1024
#define SOFTMAX_BLOCK 1024 /* numbers that stay in the first-level cache from one pass to the next */

/* The name of a kernel, its number of arguments, its signature as a generalized ufunc, and how many of the last are intp. */
#define LINEAR "(p),(n,m),(n),(n),(3)->"
#define KERNELS(kernel) \
    kernel(tanh_sum, 2, NULL, 0) kernel(tanh_slope, 1, NULL, 0) kernel(tanh_backward, 2, NULL, 0) \
    kernel(sigmoid_sum, 2, NULL, 0) kernel(sigmoid_slope, 1, NULL, 0) kernel(sigmoid_backward, 2, NULL, 0) \
    kernel(sigmoid, 1, NULL, 0) kernel(softplus, 1, NULL, 0) kernel(exp, 1, NULL, 0) \
    kernel(logistic_value, 2, NULL, 0) kernel(logistic_slope, 2, NULL, 0) kernel(logistic_curvature, 1, NULL, 0) \
    kernel(softmax_slope, 2, "(k),()->(k)", 0) \
    kernel(linear_logistic, 5, LINEAR "(p)", 0) kernel(linear_logistic_value, 5, LINEAR "()", 0) \
    kernel(linear_huber, 5, LINEAR "(p)", 0) kernel(linear_huber_value, 5, LINEAR "()", 0) \
    kernel(combined, 4, NULL, 0) kernel(descended, 6, NULL, 0) \
    kernel(scaled_rows, 2, "(n),(n,m)->(n,m)", 0) kernel(outer, 2, "(n),(m)->(n,m)", 0) \
    kernel(upper_multiplied, 1, "(n,n)->(n,n)", 0) kernel(upper_added, 1, "(n,n)->(n,n)", 0) \
    kernel(mixed, 4, "(n,p),(k),(k),(m)->(q,p)", 2)

#define MOST_ARGUMENTS 7 /* the result included */

/* For each level, its loops and whether this processor has it. */
#define ROW(name, arguments, signature, integers) {JOIN(loop_##name, LEVEL, double), JOIN(loop_##name, LEVEL, float)},
#define TABLE(level) static PyArrayMethod_StridedLoop *const level##_loops[][2] = {KERNELS(ROW)};

/* Errors are raised in loops, which run without Python's lock. */
static int refused(PyObject *type, const char *message, npy_intp one, npy_intp other)
{
    const PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Format(type, message, (Py_ssize_t)one, (Py_ssize_t)other);
    PyGILState_Release(state);
    return -1;
}

#ifdef __x86_64__
#define LEVEL avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define BYTES 64 /* of a register */
#define DOUBLE 1
#include "_kernels.c"
#define DOUBLE 0
#include "_kernels.c"
TABLE(avx512)
static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl");
}
#undef LEVEL
#undef TARGET
#undef BYTES

#define LEVEL avx2
#define TARGET __attribute__((target("avx2")))
#define BYTES 32
#define DOUBLE 1
#include "_kernels.c"
#define DOUBLE 0
#include "_kernels.c"
TABLE(avx2)
static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#undef LEVEL
#undef TARGET
#undef BYTES
#endif

#define LEVEL baseline
#define TARGET
#define BYTES 16
#define DOUBLE 1
#include "_kernels.c"
#define DOUBLE 0
#include "_kernels.c"
TABLE(baseline)
static int has_baseline(void)
{
    return 1;
}

static struct {
    const char *name;
    PyArrayMethod_StridedLoop *const (*loops)[2];
    int (*here)(void);
} levels[] = {
#ifdef __x86_64__
    {"avx512", avx512_loops, has_avx512},
    {"avx2", avx2_loops, has_avx2},
#endif
    {"baseline", baseline_loops, has_baseline},
};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

#define KERNEL(name, arguments, signature, integers) {#name, arguments, signature, integers},
static const struct {
    const char *name;
    int arguments;
    const char *signature;
    int integers;
} kernels[] = {KERNELS(KERNEL)};
#define COUNT (sizeof(kernels) / sizeof(kernels[0]))

/* A kernel of a level: a ufunc of arrays that are all float64 or all float32, but for those of intp. */
static PyObject *made(size_t level, size_t i)
{
    const int count = kernels[i].arguments;
    PyUFuncObject *ufunc = (PyUFuncObject *)PyUFunc_FromFuncAndDataAndSignature(
        NULL, NULL, NULL, 0, count, 1, PyUFunc_None, kernels[i].name, NULL, 0, kernels[i].signature);
    for (int type = 0; ufunc && type < 2; type++) {
        PyArray_DTypeMeta *dtypes[MOST_ARGUMENTS];
        for (int j = 0; j <= count; j++) {
            const int whole = j < count && j >= count - kernels[i].integers;
            dtypes[j] = whole ? &PyArray_IntpDType : type ? &PyArray_FloatDType : &PyArray_DoubleDType;
        }
        PyType_Slot slots[] = {{NPY_METH_strided_loop, (void *)levels[level].loops[i][type]}, {0, NULL}};
        PyArrayMethod_Spec spec = {kernels[i].name, count, 1, NPY_NO_CASTING, 0, dtypes, slots};
        if (PyUFunc_AddLoopFromSpec((PyObject *)ufunc, &spec) < 0)
            Py_CLEAR(ufunc);
    }
    /* Instead of NumPy's own, by which a result over an argument of its shape has no copy made of that: sums need one. */
    const npy_uint32 flags = NPY_ITER_UPDATEIFCOPY | NPY_ITER_ALIGNED | NPY_ITER_NO_BROADCAST;
    if (ufunc && strncmp(kernels[i].name, "upper", 5) == 0) /* their result is an argument, too */
        ufunc->op_flags[count] = flags | NPY_ITER_READWRITE;
    else if (ufunc && (strncmp(kernels[i].name, "linear", 6) == 0 || strcmp(kernels[i].name, "mixed") == 0))
        ufunc->op_flags[count] = flags | NPY_ITER_WRITEONLY | NPY_ITER_ALLOCATE;
    return (PyObject *)ufunc;
}

static PyObject *ufuncs(PyObject *Py_UNUSED(module), PyObject *level)
{
    size_t chosen = 0;
    while (PyUnicode_Check(level) && chosen < LEVELS && PyUnicode_CompareWithASCIIString(level, levels[chosen].name) != 0)
        chosen++;
    if (!PyUnicode_Check(level) || chosen == LEVELS || !levels[chosen].here())
        return PyErr_Format(PyExc_ValueError, "this processor has no level %R", level);
    PyObject *found = PyDict_New();
    for (size_t i = 0; found && i < COUNT; i++) {
        PyObject *ufunc = made(chosen, i);
        if (!ufunc || PyDict_SetItemString(found, kernels[i].name, ufunc) < 0)
            Py_CLEAR(found);
        Py_XDECREF(ufunc);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"ufuncs", ufuncs, METH_O, "The kernels of a level, by name."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "The compiled kernels; LEVELS are those of this processor, the best first.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    import_array();
    import_umath();
#ifdef __x86_64__
    __builtin_cpu_init();
#endif
    PyObject *module = PyModule_Create(&definition), *names = PyList_New(0);
    for (size_t i = 0; names && i < LEVELS; i++) {
        PyObject *name = levels[i].here() ? PyUnicode_FromString(levels[i].name) : NULL;
        if (name ? PyList_Append(names, name) < 0 : PyErr_Occurred() != NULL)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    if (module && (!names || PyModule_AddObjectRef(module, "LEVELS", names) < 0))
        Py_CLEAR(module);
    Py_XDECREF(names);
    return module;
}

#else /* DOUBLE: what is compiled for each level and type */

#if DOUBLE
#define REAL double
#define INT int64_t
#define UINT uint64_t
#define MANTISSA 52
#define BIAS 1022
#define ZERO_FROM 374 /* exp(-2 a) is zero from here on */
#define DOWN 0x1p-1022
#define MAGIC 0x1.8p52
#define C_SHORT 0x1.62e42fefa38p-2 /* 42 bits of C, */
#define C_REST 0x1.ef35793c7673p-46 /* and the rest */
#define INFINITE INT64_C(0x7ff0000000000000)
#define MAGNITUDE INT64_MAX
#define SIGN INT64_MIN
#else
#define REAL float
#define INT int32_t
#define UINT uint32_t
#define MANTISSA 23
#define BIAS 126
#define ZERO_FROM 53
#define DOWN 0x1p-126f
#define MAGIC 0x1.8p23f
#define C_SHORT 0x1.62e4p-2f
#define C_REST 0x1.7f7d1cp-21f
#define INFINITE INT32_C(0x7f800000)
#define MAGNITUDE INT32_MAX
#define SIGN INT32_MIN
#endif
#if !DOUBLE && BYTES > 32
#define PIECE 32 /* bytes of eight numbers, or of as many of them as a register holds */
#else
#define PIECE BYTES
#endif
#define R(number) ((REAL)(number))
#define SIZE ((npy_intp)sizeof(REAL))

/* ---- Functions of one element. They share one expansion of exp(-2 a) for a >= 0. With C = ln(2) / 2 and n the integer
   next to a / C,

       a = n C + r,  |r| <= C / 2        exp(-2 a) = 2^-n (q - p) / (q + p)        p / q = tanh(r)

   and p / q is Lambert's continued fraction r / (1 + z / (3 + z / (5 + ...))), z = r^2 <= 0.0301. Cut off after the 13 its
   numerator and denominator have integer coefficients, and a relative error of 5e-19; after the 5, for float32, of 2e-8.
   Because the exponential is a ratio, tanh, sigmoid and the others divide once. C is the sum of a short number, whose product
   with n is exact, and of the rest (Cody, Waite). n is read off the last bits of a sum with 1.5 * 2^52, as a conversion to an
   integer has no vector instruction before AVX-512. NaN is recognised by its bits and passed on at the end, because comparing
   floats would raise the flag that NumPy warns about. Both sides of a choice are computed, so that loops vectorise. */

FUNCTION INT bits(REAL x)
{
    INT i;
    memcpy(&i, &x, sizeof i);
    return i;
}

FUNCTION REAL number(INT i)
{
    REAL x;
    memcpy(&x, &i, sizeof x);
    return x;
}

FUNCTION REAL magnitude(REAL x)
{
    return number(bits(x) & MAGNITUDE);
}

FUNCTION REAL passing_nan(REAL result, REAL x)
{
    return (bits(x) & MAGNITUDE) <= INFINITE ? result : x;
}

/* One number if the mask is -1, the other if it is 0. With ?: GCC may move a division into both sides of the choice. */
FUNCTION REAL chosen(INT mask, REAL one, REAL other)
{
    return number((bits(one) & mask) | (bits(other) & ~mask));
}

/* exp(-2 a) = 2^-n (q - p) / (q + p). Returns n, in the last bits. */
FUNCTION UINT expanded(REAL a, REAL *q, REAL *p)
{
    const REAL t = a * R(2.8853900817779268) + MAGIC, n = t - MAGIC;
    const REAL r = (a - n * C_SHORT) - n * C_REST, z = r * r;
#if DOUBLE /* 3/2 times the integers: sums that are large within their binade round less */
    *p = r * (15592.5 + z * (1890 + z * 31.5));
    *q = 15592.5 + z * (7087.5 + z * (315 + z * 1.5));
#else
    *p = r * (15 + z);
    *q = 15 + z * 6;
#endif
    return (UINT)bits(t);
}

/* For a >= 0, exp(-2 a) = up DOWN (q - p) / (q + p). The factor 2^-n = up DOWN has two parts because it may be subnormal. */
FUNCTION void expand(REAL a, REAL *up, REAL *q, REAL *p)
{
    const INT most = bits(R(ZERO_FROM)), i = bits(a);
    const UINT n = expanded(number(i < most ? i : most), q, p);
    *up = number((INT)(((UINT)(2 * BIAS + 1) << MANTISSA) - (n << MANTISSA)));
}

/* exp(-|x|) = up DOWN n / d. */
FUNCTION void ratio(REAL x, REAL *up, REAL *n, REAL *d)
{
    REAL q, p;
    expand(R(0.5) * magnitude(x), up, &q, &p);
    *n = q - p;
    *d = q + p;
}

/* log(1 + exp(-|x|)) = ln 2 + log((1 + e) / 2) or log(1 + e), each 2 artanh(v) with |v| <= 0.172: v times a series in v^2. */
FUNCTION REAL log1p_exp(REAL x)
{
    REAL up, n, d;
    ratio(x, &up, &n, &d);
    n *= up * DOWN;
    const INT large = -(INT)(R(0.4142) * d < n);
    const REAL more = number(bits(d) & large), v = (n - more) / ((2 * d + more) + n), w = v * v;
#if DOUBLE
    const REAL tail = 2.0 / 11 + w * (2.0 / 13 + w * (2.0 / 15 + w * (2.0 / 17 + w * (2.0 / 19))));
    const REAL series = 2 + w * (2.0 / 3 + w * (2.0 / 5 + w * (2.0 / 7 + w * (2.0 / 9 + w * tail))));
#else
    const REAL series = 2 + w * (R(2.0 / 3) + w * (R(2.0 / 5) + w * (R(2.0 / 7) + w * R(2.0 / 9))));
#endif
    return v * series + number(bits(R(0.6931471805599453)) & large);
}

FUNCTION REAL tanh(REAL x)
{
    REAL up, q, p;
    expand(magnitude(x), &up, &q, &p);
    const REAL s = up * DOWN, h = ((1 - s) * q + (1 + s) * p) / ((1 + s) * q + (1 - s) * p);
    return passing_nan(number(bits(h) | (bits(x) & SIGN)), x);
}

FUNCTION REAL sigmoid(REAL x)
{
    REAL up, n, d;
    ratio(x, &up, &n, &d);
    const int right = bits(x) >= 0;
    const REAL e = chosen(-(INT)right, d, n) / (d + (up * DOWN) * n);
    return passing_nan(e * (right ? 1 : up) * (right ? 1 : DOWN), x);
}

FUNCTION REAL softplus(REAL x)
{
    return passing_nan((bits(x) >= 0 ? x : 0) + log1p_exp(x), x);
}

/* For x <= 0 or NaN. */
FUNCTION REAL exp_below(REAL x)
{
    REAL up, n, d;
    ratio(x, &up, &n, &d);
    return passing_nan(n / d * up * DOWN, x);
}

/* As exp_below, of a number of either sign: 2^-n has two factors that are both normal. */
FUNCTION REAL exp(REAL x)
{
    const INT most = bits(R(ZERO_FROM)), i = bits(R(-0.5) * x), size = i & MAGNITUDE;
    REAL p, q;
    const UINT count = expanded(number((size < most ? size : most) | (i & SIGN)), &q, &p), half = count >> 1;
    const REAL first = number((INT)((UINT)(BIAS + 1 - half) << MANTISSA));
    const REAL second = number((INT)((UINT)(BIAS + 1 - (count - half)) << MANTISSA));
    return passing_nan((q - p) / (q + p) * first * second, x);
}

FUNCTION REAL tanh_sum(REAL a, REAL b)
{
    return tanh(a + b);
}

FUNCTION REAL tanh_slope(REAL h)
{
    return (1 - h) * (1 + h);
}

FUNCTION REAL tanh_backward(REAL u, REAL h)
{
    return u * tanh_slope(h);
}

FUNCTION REAL sigmoid_sum(REAL a, REAL b)
{
    return sigmoid(a + b);
}

FUNCTION REAL sigmoid_slope(REAL h)
{
    return h * (1 - h);
}

FUNCTION REAL sigmoid_backward(REAL u, REAL h)
{
    return u * sigmoid_slope(h);
}

FUNCTION REAL logistic_value(REAL f, REAL d)
{
    const REAL other = 1 - d, weight = bits(f) >= 0 ? other : -d;
    const REAL linear = weight * (weight != 0 ? f : 0); /* an infinite logit on the right side costs nothing */
    return passing_nan(linear + log1p_exp(f), f);
}

FUNCTION REAL logistic_slope(REAL f, REAL d)
{
    REAL up, n, m;
    ratio(f, &up, &n, &m);
    n *= up * DOWN;
    const int right = bits(f) >= 0;
    const REAL yes = right ? m : n, no = right ? n : m;
    return passing_nan(((1 - d) * yes - d * no) / (n + m), f);
}

FUNCTION REAL logistic_curvature(REAL f)
{
    REAL up, n, d;
    ratio(f, &up, &n, &d);
    const REAL scale = up * DOWN, small = n / (d + scale * n); /* times the scale, the smaller of the two probabilities */
    return passing_nan(small * (1 - scale * small) * up * DOWN, f);
}

FUNCTION REAL huber_slope(REAL f, REAL d, REAL most)
{
    const REAL e = f - d;
    const INT bound = bits(most), size = bits(e) & MAGNITUDE;
    return passing_nan(size <= bound ? e : number((bits(e) & SIGN) | bound), e);
}

FUNCTION REAL huber_value(REAL f, REAL d, REAL most)
{
    const REAL e = f - d, size = magnitude(e), inner = R(0.5) * e * e, outer = most * (size - R(0.5) * most);
    return bits(size) <= bits(most) ? inner : outer;
}

/* ---- Loops over elements, vectorised if the arrays are contiguous. The result may overwrite an argument. */

#define AT(address, step, i) (*(REAL *)((address) + (i) * (step)))

#define UNARY(function) \
    LOOP_(loop_##function) \
    { \
        char *const a = args[0], *const out = args[1]; \
        const npy_intp n = lengths[0], da = steps[0], dout = steps[1]; \
        if (da == SIZE && dout == SIZE) { \
            INDEPENDENT \
            for (npy_intp i = 0; i < n; i++) \
                AT(out, SIZE, i) = function(AT(a, SIZE, i)); \
        } else \
            for (npy_intp i = 0; i < n; i++) \
                AT(out, dout, i) = function(AT(a, da, i)); \
        return 0; \
    }

#define BINARY(function) \
    LOOP_(loop_##function) \
    { \
        char *const a = args[0], *const b = args[1], *const out = args[2]; \
        const npy_intp n = lengths[0], da = steps[0], db = steps[1], dout = steps[2]; \
        if (da == SIZE && db == SIZE && dout == SIZE) { \
            INDEPENDENT \
            for (npy_intp i = 0; i < n; i++) \
                AT(out, SIZE, i) = function(AT(a, SIZE, i), AT(b, SIZE, i)); \
        } else \
            for (npy_intp i = 0; i < n; i++) \
                AT(out, dout, i) = function(AT(a, da, i), AT(b, db, i)); \
        return 0; \
    }

/* A function of two or three arrays x, y, z and as many numbers a, b, c. */
#define MULTIPLES(name, terms, value) \
    LOOP(name) \
    { \
        char *const px = args[0], *const py = args[1], *const pz = args[terms - 1], *const out = args[2 * terms]; \
        char *const pa = args[terms], *const pb = args[terms + 1], *const pc = args[2 * terms - 1]; \
        const npy_intp n = lengths[0], dout = steps[2 * terms]; \
        int side_by_side = dout == SIZE; \
        for (int k = 0; k < terms; k++) \
            side_by_side &= steps[k] == SIZE && steps[terms + k] == 0; \
        if (side_by_side) { \
            const REAL a = AT(pa, 0, 0), b = AT(pb, 0, 0), c = AT(pc, 0, 0); \
            (void)c; \
            INDEPENDENT \
            for (npy_intp i = 0; i < n; i++) { \
                const REAL x = AT(px, SIZE, i), y = AT(py, SIZE, i), z = AT(pz, SIZE, i); \
                (void)z; \
                AT(out, SIZE, i) = value; \
            } \
        } else \
            for (npy_intp i = 0; i < n; i++) { \
                const REAL x = AT(px, steps[0], i), y = AT(py, steps[1], i), z = AT(pz, steps[terms - 1], i); \
                const REAL a = AT(pa, steps[terms], i), b = AT(pb, steps[terms + 1], i), c = AT(pc, steps[2 * terms - 1], i); \
                (void)z, (void)c; \
                AT(out, dout, i) = value; \
            } \
        return 0; \
    }

/* ---- What the loops below take of arrays of any layout: numbers side by side. */

FUNCTION int scattered(npy_intp step, npy_intp count)
{
    return step != SIZE && count > 1;
}

/* The numbers where they are, or copied to the scratch, which moves on. */
FUNCTION const REAL *side_by_side(const char *at, npy_intp step, npy_intp count, REAL **scratch)
{
    if (!scattered(step, count))
        return (const REAL *)at;
    REAL *const copy = *scratch;
    for (npy_intp i = 0; i < count; i++)
        copy[i] = AT(at, step, i);
    *scratch += count;
    return copy;
}

FUNCTION void put_back(char *at, npy_intp step, npy_intp count, const REAL *from)
{
    for (npy_intp i = 0; i < count; i++)
        AT(at, step, i) = from[i];
}

BINARY(tanh_sum)
UNARY(tanh_slope)
BINARY(tanh_backward)
BINARY(sigmoid_sum)
UNARY(sigmoid_slope)
BINARY(sigmoid_backward)
UNARY(sigmoid)
UNARY(softplus)
BINARY(logistic_value)
BINARY(logistic_slope)
UNARY(logistic_curvature)

/* Losses ask for exponentials of numbers <= 0 alone, which take less time: of a block of them, all are. */
LOOP(exp)
{
    const npy_intp da = steps[0], dout = steps[1];
    for (npy_intp begin = 0; begin < lengths[0]; begin += EXP_BLOCK) {
        const npy_intp n = EXP_BLOCK < lengths[0] - begin ? EXP_BLOCK : lengths[0] - begin;
        char *const a = args[0] + begin * da, *const out = args[1] + begin * dout;
        if (da == SIZE && dout == SIZE) {
            UINT below = (UINT)SIGN;
            for (npy_intp i = 0; i < n; i++)
                below &= (UINT)bits(AT(a, SIZE, i)) - 1;
            if (below) {
                INDEPENDENT
                for (npy_intp i = 0; i < n; i++)
                    AT(out, SIZE, i) = exp_below(AT(a, SIZE, i));
            } else {
                INDEPENDENT
                for (npy_intp i = 0; i < n; i++)
                    AT(out, SIZE, i) = exp(AT(a, SIZE, i));
            }
        } else
            for (npy_intp i = 0; i < n; i++)
                AT(out, dout, i) = exp(AT(a, da, i));
    }
    return 0;
}

MULTIPLES(combined, 2, a * x + b * y)
MULTIPLES(descended, 3, x - a * (b * y + c * z))

/* ---- Softmax of rows of logits minus one at the row's class, if it has one. */

/* The bits of a float, or back: integers in the order of floats, with NaN above infinity. */
FUNCTION INT ordered(INT i)
{
    return i ^ (i < 0 ? MAGNITUDE : 0);
}

LOOP(softmax_slope)
{
    const npy_intp n = lengths[0], k = lengths[1], df = steps[0], dc = steps[1], dout = steps[2], dk = steps[3];
    const npy_intp few = k < SOFTMAX_BLOCK ? SOFTMAX_BLOCK / (k > 1 ? k : 1) : 1;
    REAL *scratch = NULL;
    if (scattered(steps[4], k) || (n > 1 && dout != k * SIZE)) {
        scratch = malloc((few * k + 1) * sizeof(REAL));
        if (!scratch)
            return refused(PyExc_MemoryError, "no memory for %zd rows of %zd", few, k);
    }
    for (npy_intp begin = 0; begin < n; begin += few) {
        const npy_intp count = few < n - begin ? few : n - begin;
        REAL *const block = scratch ? scratch : (REAL *)args[2] + begin * k;
        for (npy_intp row = 0; row < count; row++) {
            char *const logits = args[0] + (begin + row) * df;
            REAL *const shifted = block + row * k;
            INT most = SIGN;
            for (npy_intp j = 0; j < k; j++) {
                const INT i = ordered(bits(AT(logits, dk, j)));
                most = most > i ? most : i;
            }
            const REAL largest = number(ordered(most));
            for (npy_intp j = 0; j < k; j++)
                shifted[j] = AT(logits, dk, j) - largest;
        }
        INDEPENDENT
        for (npy_intp i = 0; i < count * k; i++)
            block[i] = exp_below(block[i]);
        for (npy_intp row = 0; row < count; row++) {
            REAL *const p = block + row * k;
            REAL total = 0, lost = 0;
            for (npy_intp j = 0; j < k;) { /* sums of eight are added by Kahan's method: the error does not grow with k */
                const npy_intp end = j + 8 < k ? j + 8 : k;
                REAL part = -lost;
                for (; j < end; j++)
                    part += p[j];
                const REAL more = total + part;
                lost = (more - total) - part;
                total = more;
            }
            INDEPENDENT
            for (npy_intp j = 0; j < k; j++)
                p[j] /= total;
            const REAL own = AT(args[1], dc, begin + row);
            if (__builtin_isgreaterequal(own, 0) && __builtin_isless(own, k) && own == R((npy_intp)own))
                p[(npy_intp)own] -= 1;
            if (scratch)
                put_back(args[2] + (begin + row) * dout, steps[4], k, p);
        }
    }
    free(scratch);
    return 0;
}

/* ---- Eight numbers side by side. */

typedef REAL NAME(piece) __attribute__((vector_size(PIECE)));
typedef INT NAME(mask) __attribute__((vector_size(PIECE)));
#define PIECES ((int)(LANES * sizeof(REAL) / PIECE))
typedef REAL NAME(anywhere) __attribute__((vector_size(PIECE), aligned(sizeof(REAL)), may_alias)); /* a piece in memory */
typedef struct {
    NAME(piece) piece[PIECES];
} NAME(eight);
#define EIGHT NAME(eight)
#define WIDTH ((int)(PIECE / sizeof(REAL))) /* numbers of a piece */

FUNCTION EIGHT load(const REAL *at)
{
    EIGHT x;
    UNROLLED
    for (int k = 0; k < PIECES; k++)
        x.piece[k] = *(const NAME(anywhere) *)(at + k * WIDTH);
    return x;
}

FUNCTION void store(REAL *at, EIGHT x)
{
    UNROLLED
    for (int k = 0; k < PIECES; k++)
        *(NAME(anywhere) *)(at + k * WIDTH) = x.piece[k];
}

/* The first count of eight readable numbers, followed by zeros. */
FUNCTION EIGHT load_first(const REAL *at, npy_intp count)
{
    static const INT masks[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
    EIGHT x = load(at);
    UNROLLED
    for (int k = 0; k < PIECES; k++) {
        NAME(mask) mask;
        memcpy(&mask, masks + LANES - count + k * WIDTH, sizeof mask);
        x.piece[k] = (NAME(piece))((NAME(mask))x.piece[k] & mask);
    }
    return x;
}

FUNCTION EIGHT multiplied(EIGHT x, EIGHT y)
{
    UNROLLED
    for (int k = 0; k < PIECES; k++)
        x.piece[k] *= y.piece[k];
    return x;
}

FUNCTION EIGHT scaled(EIGHT x, REAL number)
{
    UNROLLED
    for (int k = 0; k < PIECES; k++)
        x.piece[k] *= number;
    return x;
}

FUNCTION EIGHT added(EIGHT x, EIGHT y)
{
    UNROLLED
    for (int k = 0; k < PIECES; k++)
        x.piece[k] += y.piece[k];
    return x;
}

/* ---- Gradients and values of a linear model with one output (see __init__.py). Samples are taken four at a time; if fewer are
   left, the last one is repeated with slope zero. Padding, samples of weight zero at an agent's end, is not read. */

typedef struct {
    const REAL *row[SAMPLES + 3], *rest[SAMPLES + 3]; /* the m features of each of k samples, and the last m % 8 of them */
    REAL copy[LANES][LANES]; /* of the rest, if fewer than eight numbers are readable there */
    npy_intp k, m, left, ahead; /* left is m % 8 */
} NAME(samples);
#define BATCH NAME(samples)

typedef REAL NAME(four) __attribute__((vector_size(4 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef INT NAME(places) __attribute__((vector_size(4 * sizeof(REAL))));
#define FOUR NAME(four)
#ifdef __clang__
#define SHUFFLED(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define SHUFFLED(x, y, ...) __builtin_shuffle(x, y, (NAME(places)){__VA_ARGS__})
#endif

/* Make a batch of k samples that begin at x; the agent's features end at end. */
FUNCTION void take(BATCH *b, const char *x, const char *end, npy_intp dx, npy_intp k, npy_intp m)
{
    b->k = k, b->m = m, b->left = m % LANES;
    b->ahead = dx > LONG_ROW ? AHEAD : ROWS_AHEAD * dx;
    const char *const rest = x + (m - b->left) * SIZE;
    for (npy_intp s = 0; s < k; s++)
        b->row[s] = (const REAL *)(x + s * dx);
    for (npy_intp s = 0; s < k; s++)
        b->rest[s] = (const REAL *)(rest + s * dx);
    for (npy_intp s = k - 1, c = 0; b->left && s >= 0 && end - (const char *)b->rest[s] < LANES * SIZE; s--, c++) {
        memset(b->copy[c], 0, sizeof b->copy[c]);
        memcpy(b->copy[c], b->rest[s], b->left * sizeof(REAL));
        b->rest[s] = b->copy[c];
    }
    for (npy_intp s = k; s < k + 3; s++) {
        b->row[s] = b->row[k - 1];
        b->rest[s] = b->rest[k - 1];
    }
}

/* Write the outputs of the batch, and repetitions of the last one up to a multiple of four, to f. */
FUNCTION void put_outputs(REAL *f, const BATCH *b, const REAL *w, REAL bias)
{
    const npy_intp left = b->left, whole = b->m - left;
    REAL w_copy[LANES] = {0};
    for (npy_intp j = 0; j < left; j++)
        w_copy[j] = w[whole + j];
    const EIGHT w_left = load(w_copy);
    for (npy_intp s = 0; s < b->k; s += 4) {
        EIGHT totals[4];
        const REAL *four[4];
        UNROLLED
        for (int i = 0; i < 4; i++) {
            four[i] = b->row[s + i];
            totals[i] = left ? multiplied(load_first(b->rest[s + i], left), w_left) : (EIGHT){0};
        }
        for (npy_intp j = 0; j < whole; j += LANES) {
            const EIGHT part = load(w + j);
            UNROLLED
            for (int i = 0; i < 4; i++) {
                __builtin_prefetch((const char *)(four[i] + j) + b->ahead);
                totals[i] = added(totals[i], multiplied(load(four[i] + j), part));
            }
        }
        FOUR sums[4];
        UNROLLED
        for (int i = 0; i < 4; i++) {
            REAL t[LANES];
            store(t, totals[i]);
            sums[i] = *(FOUR *)t + *(FOUR *)(t + 4);
        }
        const FOUR one = SHUFFLED(sums[0], sums[1], 0, 1, 4, 5) + SHUFFLED(sums[0], sums[1], 2, 3, 6, 7);
        const FOUR other = SHUFFLED(sums[2], sums[3], 0, 1, 4, 5) + SHUFFLED(sums[2], sums[3], 2, 3, 6, 7);
        *(FOUR *)(f + s) = (SHUFFLED(one, other, 0, 2, 4, 6) + SHUFFLED(one, other, 1, 3, 5, 7)) + bias;
    }
}

/* Add the sum of u times the features, over the samples of the batch, to the gradient g. */
FUNCTION void add_multiples(REAL *g, const BATCH *b, const REAL *u)
{
    const npy_intp left = b->left, whole = b->m - left;
    for (npy_intp j = 0; j < whole; j += LANES) {
        EIGHT total = load(g + j);
        for (npy_intp s = 0; s < b->k; s += 4) {
            EIGHT four[4];
            UNROLLED
            for (int i = 0; i < 4; i++)
                four[i] = scaled(load(b->row[s + i] + j), u[s + i]);
            total = added(total, added(added(four[0], four[1]), added(four[2], four[3])));
        }
        store(g + j, total);
    }
    if (left == 0)
        return;
    REAL rest[LANES] = {0};
    memcpy(rest, g + whole, left * sizeof(REAL));
    EIGHT total = load(rest);
    for (npy_intp s = 0; s < b->k; s += 4) {
        EIGHT four[4];
        UNROLLED
        for (int i = 0; i < 4; i++)
            four[i] = scaled(load_first(b->rest[s + i], left), u[s + i]);
        total = added(total, added(added(four[0], four[1]), added(four[2], four[3])));
    }
    store(rest, total);
    memcpy(g + whole, rest, left * sizeof(REAL));
}

/* The total plus k numbers, four at a time. */
FUNCTION REAL sum_of(const REAL *u, npy_intp k, REAL total)
{
    for (npy_intp s = 0; s < k; s += 4)
        total += (u[s] + u[s + 1]) + (u[s + 2] + u[s + 3]);
    return total;
}

FUNCTION npy_intp up_to_the_last(const REAL *c, npy_intp n)
{
    while (n > 0 && c[n - 1] == 0)
        n--;
    return n;
}

/* Arguments of an agent whose numbers are not side by side, or whose samples overlap, are copied first. */
#define BEGIN_LINEAR \
    const npy_intp p = lengths[1], n = lengths[2], m = lengths[3]; \
    const int copied = scattered(steps[8], m) || (n > 1 && steps[7] < m * SIZE); \
    const npy_intp dx = copied || n < 2 ? m * SIZE : steps[7]; \
    REAL u[SAMPLES + 3], *scratch = NULL; \
    if (p < m || p > m + 1) \
        return refused( \
            PyExc_ValueError, "w must have as many numbers as x has features, or one more for the bias; got %zd for %zd", p, m); \
    if (copied || scattered(steps[6], p) || scattered(steps[9], n) || scattered(steps[10], n) || scattered(steps[11], 3) \
        || scattered(steps[12], p)) { \
        scratch = malloc(((copied ? n * m : 0) + 2 * n + 2 * p + 3) * sizeof(REAL)); \
        if (!scratch) \
            return refused(PyExc_MemoryError, "no memory for the %zd x %zd features of an agent", n, m); \
    } \
    for (npy_intp agent = 0; agent < lengths[0]; agent++) { \
        REAL *next = scratch; \
        const REAL *const w = side_by_side(args[0] + agent * steps[0], steps[6], p, &next); \
        const REAL *const d = side_by_side(args[2] + agent * steps[2], steps[9], n, &next); \
        const REAL *const c = side_by_side(args[3] + agent * steps[3], steps[10], n, &next); \
        const REAL *const set = side_by_side(args[4] + agent * steps[4], steps[11], 3, &next); \
        const REAL most = set[2], bias = p > m ? w[m] : 0; \
        const npy_intp used = up_to_the_last(c, n); \
        const char *x = args[1] + agent * steps[1]; \
        if (copied) { \
            REAL *const rows = next; \
            for (npy_intp s = 0; s < used; s++) \
                for (npy_intp j = 0; j < m; j++) \
                    rows[s * m + j] = AT(x + s * steps[7], steps[8], j); \
            x = (const char *)rows, next += n * m; \
        } \
        const char *const end = x + (n - 1) * dx + m * SIZE; \
        (void)most;
#define END_LINEAR \
    } \
    free(scratch); \
    return 0;

#define GRADIENTS(name, loss) \
    LOOP(name) \
    { \
        BEGIN_LINEAR \
        const npy_intp fours = NUMBERS / (m > 1 ? m : 1) / 4 * 4, few = fours < 4 ? 4 : fours < SAMPLES ? fours : SAMPLES; \
        const REAL scale = set[0], ridge = set[1]; \
        char *const out = args[5] + agent * steps[5]; \
        REAL *const g = scattered(steps[12], p) ? next : (REAL *)out; \
        for (npy_intp j = 0; j < p; j++) \
            g[j] = ridge != 0 ? ridge * w[j] : 0; \
        for (npy_intp begin = 0; begin < used; begin += few) { \
            const npy_intp k = few < used - begin ? few : used - begin; \
            BATCH batch; \
            take(&batch, x + begin * dx, end, dx, k, m); \
            put_outputs(u, &batch, w, bias); \
            INDEPENDENT \
            for (npy_intp s = 0; s < k; s++) \
                u[s] = loss(u[s], d[begin + s]) * (scale * c[begin + s]); \
            u[k] = u[k + 1] = u[k + 2] = 0; \
            add_multiples(g, &batch, u); \
            if (p > m) \
                g[m] = sum_of(u, k, g[m]); \
        } \
        if (g == next) \
            put_back(out, steps[12], p, g); \
        END_LINEAR \
    }

#define VALUES(name, loss) \
    LOOP(name) \
    { \
        BEGIN_LINEAR \
        REAL total = 0; \
        for (npy_intp begin = 0; begin < used; begin += SAMPLES) { \
            const npy_intp k = SAMPLES < used - begin ? SAMPLES : used - begin; \
            BATCH batch; \
            take(&batch, x + begin * dx, end, dx, k, m); \
            put_outputs(u, &batch, w, bias); \
            INDEPENDENT \
            for (npy_intp s = 0; s < k; s++) \
                u[s] = loss(u[s], d[begin + s]) * c[begin + s]; \
            u[k] = u[k + 1] = u[k + 2] = 0; \
            total = sum_of(u, k, total); \
        } \
        AT(args[5], steps[5], agent) = total; \
        END_LINEAR \
    }

#define HUBER_SLOPE(f, d) huber_slope(f, d, most)
#define HUBER_VALUE(f, d) huber_value(f, d, most)
GRADIENTS(linear_logistic, logistic_slope)
GRADIENTS(linear_huber, HUBER_SLOPE)
VALUES(linear_logistic_value, logistic_value)
VALUES(linear_huber_value, HUBER_VALUE)

/* ---- Products of rows, and of triangles of matrices. NumPy copies broadcast arrays and parts of rows to a buffer first. */

FUNCTION void put_multiple(REAL factor, char *x, npy_intp dx, char *out, npy_intp dout, npy_intp m)
{
    if (dx == SIZE && dout == SIZE) {
        INDEPENDENT
        for (npy_intp j = 0; j < m; j++)
            AT(out, SIZE, j) = factor * AT(x, SIZE, j);
    } else
        for (npy_intp j = 0; j < m; j++)
            AT(out, dout, j) = factor * AT(x, dx, j);
}

LOOP(scaled_rows)
{
    for (npy_intp i = 0; i < lengths[0]; i++)
        for (npy_intp row = 0; row < lengths[1]; row++) {
            char *const x = args[1] + i * steps[1] + row * steps[4], *const out = args[2] + i * steps[2] + row * steps[6];
            put_multiple(AT(args[0] + i * steps[0], steps[3], row), x, steps[5], out, steps[7], lengths[2]);
        }
    return 0;
}

LOOP(outer)
{
    for (npy_intp i = 0; i < lengths[0]; i++)
        for (npy_intp row = 0; row < lengths[1]; row++) {
            char *const x = args[1] + i * steps[1], *const out = args[2] + i * steps[2] + row * steps[5];
            put_multiple(AT(args[0] + i * steps[0], steps[3], row), x, steps[4], out, steps[6], lengths[2]);
        }
    return 0;
}

#define UPPER(name, operator) \
    LOOP(name) \
    { \
        const npy_intp n = lengths[1], dx = steps[3], dout = steps[5]; \
        for (npy_intp i = 0; i < lengths[0]; i++) \
            for (npy_intp row = 0; row < n; row++) { \
                char *const x = args[0] + i * steps[0] + row * (steps[2] + dx); \
                char *const out = args[1] + i * steps[1] + row * (steps[4] + dout); \
                if (dx == SIZE && dout == SIZE) { \
                    INDEPENDENT \
                    for (npy_intp j = 0; j < n - row; j++) \
                        AT(out, SIZE, j) operator AT(x, SIZE, j); \
                } else \
                    for (npy_intp j = 0; j < n - row; j++) \
                        AT(out, dout, j) operator AT(x, dx, j); \
            } \
        return 0; \
    }
UPPER(upper_multiplied, *=)
UPPER(upper_added, +=)

/* ---- Product of a CSR matrix with x (n, p); each sum is in the order of the entries. */

#if BYTES < 32 && !defined(__aarch64__)
#define MIXED_TOGETHER (DOUBLE ? 3 : 4) /* times eight columns, whose sums fit the registers */
#else
#define MIXED_TOGETHER (DOUBLE ? 6 : 8)
#endif

typedef struct {
    const char *x;
    const REAL *weights;
    const npy_intp *senders;
    npy_intp dx, first, last; /* entries of a row of the matrix */
} NAME(entries);

/* Write the sums of vectors times eight columns. */
FUNCTION void put_sums(REAL *out, NAME(entries) e, npy_intp column, const int vectors)
{
    EIGHT totals[MIXED_TOGETHER];
    UNROLLED
    for (int v = 0; v < vectors; v++)
        totals[v] = (EIGHT){0};
    for (npy_intp entry = e.first; entry < e.last; entry++) {
        const REAL *const sent = (const REAL *)(e.x + e.senders[entry] * e.dx) + column;
        UNROLLED
        for (int v = 0; v < vectors; v++)
            totals[v] = added(totals[v], scaled(load(sent + v * LANES), e.weights[entry]));
    }
    UNROLLED
    for (int v = 0; v < vectors; v++)
        store(out + column + v * LANES, totals[v]);
}

/* As side_by_side, of integers: places of a matrix's entries. */
FUNCTION const npy_intp *whole_numbers(const char *at, npy_intp step, npy_intp count, npy_intp **scratch)
{
    if (step == sizeof(npy_intp) || count < 2)
        return (const npy_intp *)at;
    npy_intp *const copy = *scratch;
    for (npy_intp i = 0; i < count; i++)
        copy[i] = *(const npy_intp *)(at + i * step);
    *scratch += count;
    return copy;
}

LOOP(mixed)
{
    const npy_intp n = lengths[1], p = lengths[2], k = lengths[3], m = lengths[4], rows = lengths[5];
    const npy_intp dwhole = sizeof(npy_intp), dx = scattered(steps[6], p) ? p * SIZE : steps[5];
    if (m != rows + 1)
        return refused(PyExc_ValueError, "begins must have one number more than out has rows; got %zd for %zd", m, rows);
    REAL *scratch = NULL;
    npy_intp *places = NULL;
    int wrong = 0;
    if (scattered(steps[6], p) || scattered(steps[7], k) || scattered(steps[11], p))
        wrong |= !(scratch = malloc(((n + 1) * p + k + 1) * sizeof(REAL)));
    if (steps[8] != dwhole || steps[9] != dwhole)
        wrong |= !(places = malloc((k + m) * sizeof(npy_intp)));
    if (wrong)
        refused(PyExc_MemoryError, "no memory for copies of %zd rows of %zd", n + 1, p);
    for (npy_intp i = 0; !wrong && i < lengths[0]; i++) {
        REAL *next = scratch;
        npy_intp *next_place = places;
        const char *x = args[0] + i * steps[0];
        const REAL *const weights = side_by_side(args[1] + i * steps[1], steps[7], k, &next);
        const npy_intp *const senders = whole_numbers(args[2] + i * steps[2], steps[8], k, &next_place);
        const npy_intp *const begins = whole_numbers(args[3] + i * steps[3], steps[9], m, &next_place);
        wrong = begins[0] < 0 || begins[rows] > k;
        for (npy_intp row = 0; row < rows; row++)
            wrong |= begins[row] > begins[row + 1];
        if (wrong) {
            refused(PyExc_ValueError, "begins must ascend within the %zd entries; got %zd numbers that do not", k, m);
            break;
        }
        for (npy_intp entry = begins[0]; entry < begins[rows]; entry++)
            wrong |= (npy_uintp)senders[entry] >= (npy_uintp)n;
        if (wrong) {
            npy_intp entry = begins[0];
            while ((npy_uintp)senders[entry] < (npy_uintp)n)
                entry++;
            refused(PyExc_ValueError, "indices must be rows of x; got %zd for %zd rows", senders[entry], n);
            break;
        }
        if (scattered(steps[6], p)) {
            for (npy_intp row = 0; row < n; row++)
                for (npy_intp j = 0; j < p; j++)
                    next[row * p + j] = AT(x + row * steps[5], steps[6], j);
            x = (const char *)next, next += n * p;
        }
        for (npy_intp begin = 0; begin < p; begin += COLUMNS)
            for (npy_intp row = 0; row < rows; row++) {
                char *const target = args[4] + i * steps[4] + row * steps[10];
                REAL *const out = scattered(steps[11], p) ? next : (REAL *)target;
                const NAME(entries) e = {x, weights, senders, dx, begins[row], begins[row + 1]};
                const npy_intp end = begin + COLUMNS < p ? begin + COLUMNS : p;
                npy_intp column = begin;
                for (; column + MIXED_TOGETHER * LANES <= end; column += MIXED_TOGETHER * LANES)
                    put_sums(out, e, column, MIXED_TOGETHER);
                for (; column + 2 * LANES <= end; column += 2 * LANES)
                    put_sums(out, e, column, 2);
                for (; column + LANES <= end; column += LANES)
                    put_sums(out, e, column, 1);
                if (column < end && p >= LANES)
                    put_sums(out, e, end - LANES, 1); /* some columns a second time */
                else
                    for (; column < end; column++) {
                        REAL total = 0;
                        for (npy_intp entry = e.first; entry < e.last; entry++)
                            total += AT(x + e.senders[entry] * dx, SIZE, column) * e.weights[entry];
                        out[column] = total;
                    }
                if (out == next)
                    put_back(target + begin * steps[11], steps[11], end - begin, out + begin);
            }
    }
    free(scratch);
    free(places);
    return wrong ? -1 : 0;
}

#undef DOUBLE
#undef REAL
#undef INT
#undef UINT
#undef MANTISSA
#undef BIAS
#undef ZERO_FROM
#undef DOWN
#undef MAGIC
#undef C_SHORT
#undef C_REST
#undef INFINITE
#undef MAGNITUDE
#undef SIGN
#undef PIECE
#undef MIXED_TOGETHER

#endif
