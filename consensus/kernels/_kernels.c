/* The compiled kernels: NumPy ufuncs for float64 and float32, in one version for each level of processor.

   kernel.py chooses the level once. Each ufunc computes what the NumPy function of the same name does in __init__.py. The file
   includes itself once for each level and type, with DOUBLE 1 or 0: the part after #else is compiled six times on x86-64, and
   twice elsewhere. It needs GCC or Clang.

   Results are equal to the bit on all levels: the compiler keeps the operations and their order as written (setup.py passes
   -ffp-contract=off and never -ffast-math). Sums over features are written as eight partial sums, so that their order does not
   depend on the length of registers. */

#ifndef DOUBLE

#include <Python.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/ndarraytypes.h>
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
    static TARGET void NAME(name)(char **args, const npy_intp *lengths, const npy_intp *steps, void *Py_UNUSED(data))
#define LOOP(name) LOOP_(loop_##name)
#define FUNCTION static inline __attribute__((always_inline, unused)) TARGET

/* Each function has a name for each level and type. */
#define bits NAME(bits)
#define number NAME(number)
#define magnitude NAME(magnitude)
#define passing_nan NAME(passing_nan)
#define chosen NAME(chosen)
#define expand NAME(expand)
#define ratio NAME(ratio)
#define log1p_exp NAME(log1p_exp)
#define tanh NAME(tanh)
#define sigmoid NAME(sigmoid)
#define softplus NAME(softplus)
#define exp NAME(exp)
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
#define SOFTMAX_BLOCK 1024 /* numbers that stay in the first-level cache from one pass to the next */

/* The name of a kernel, its number of arguments, its signature as a generalized ufunc, and how many of the last are intp. */
#define LINEAR "(p),(n,m),(n),(n),(k)->"
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
#define TABLE(level) static PyUFuncGenericFunction level##_loops[][2] = {KERNELS(ROW)};

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
    PyUFuncGenericFunction (*loops)[2];
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

static char types[COUNT][2 * MOST_ARGUMENTS]; /* NumPy keeps pointers to these and to the loops */
static void *nothing[2];

static PyObject *ufuncs(PyObject *Py_UNUSED(module), PyObject *level)
{
    size_t chosen = 0;
    while (PyUnicode_Check(level) && chosen < LEVELS && PyUnicode_CompareWithASCIIString(level, levels[chosen].name) != 0)
        chosen++;
    if (!PyUnicode_Check(level) || chosen == LEVELS || !levels[chosen].here())
        return PyErr_Format(PyExc_ValueError, "this processor has no level %R", level);
    PyObject *found = PyDict_New();
    for (size_t i = 0; found && i < COUNT; i++) {
        PyObject *made = PyUFunc_FromFuncAndDataAndSignature(
            levels[chosen].loops[i], nothing, types[i], 2, kernels[i].arguments, 1, PyUFunc_None, kernels[i].name, NULL, 0,
            kernels[i].signature);
        if (!made || PyDict_SetItemString(found, kernels[i].name, made) < 0)
            Py_CLEAR(found);
        Py_XDECREF(made);
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
    import_umath();
#ifdef __x86_64__
    __builtin_cpu_init();
#endif
    for (size_t i = 0; i < COUNT; i++)
        for (int type = 0; type < 2; type++) {
            char *row = types[i] + type * (kernels[i].arguments + 1), real = type ? NPY_FLOAT : NPY_DOUBLE;
            for (int j = 0; j <= kernels[i].arguments; j++) {
                int whole = j < kernels[i].arguments && j >= kernels[i].arguments - kernels[i].integers;
                row[j] = whole ? NPY_INTP : real;
            }
        }
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

/* exp(-2 a) = up DOWN (q - p) / (q + p). The factor 2^-n = up DOWN has two parts because it may be subnormal. */
FUNCTION void expand(REAL a, REAL *up, REAL *q, REAL *p)
{
    const INT most = bits(R(ZERO_FROM)), i = bits(a);
    a = number(i < most ? i : most);
    const REAL t = a * R(2.8853900817779268) + MAGIC, n = t - MAGIC;
    const REAL r = (a - n * C_SHORT) - n * C_REST, z = r * r;
#if DOUBLE /* 3/2 times the integers: sums that are large within their binade round less */
    *p = r * (15592.5 + z * (1890 + z * 31.5));
    *q = 15592.5 + z * (7087.5 + z * (315 + z * 1.5));
#else
    *p = r * (15 + z);
    *q = 15 + z * 6;
#endif
    *up = number((INT)(((UINT)(2 * BIAS + 1) << MANTISSA) - ((UINT)bits(t) << MANTISSA)));
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

FUNCTION REAL exp(REAL x)
{
    REAL up, n, d;
    ratio(x, &up, &n, &d);
    return passing_nan(n / d * up * DOWN, x);
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
    }

BINARY(tanh_sum)
UNARY(tanh_slope)
BINARY(tanh_backward)
BINARY(sigmoid_sum)
UNARY(sigmoid_slope)
BINARY(sigmoid_backward)
UNARY(sigmoid)
UNARY(softplus)
UNARY(exp)
BINARY(logistic_value)
BINARY(logistic_slope)
UNARY(logistic_curvature)
MULTIPLES(combined, 2, a * x + b * y)
MULTIPLES(descended, 3, x - a * (b * y + c * z))

/* ---- Softmax of rows of logits minus one at the row's class, if it has one. Rows of the result are contiguous. */

/* The bits of a float, or back: integers in the order of floats, with NaN above infinity. */
FUNCTION INT ordered(INT i)
{
    return i ^ (i < 0 ? MAGNITUDE : 0);
}

LOOP(softmax_slope)
{
    const npy_intp n = lengths[0], k = lengths[1], df = steps[0], dc = steps[1], dk = steps[3];
    const npy_intp few = k < SOFTMAX_BLOCK ? SOFTMAX_BLOCK / (k > 1 ? k : 1) : 1;
    for (npy_intp begin = 0; begin < n; begin += few) {
        const npy_intp count = few < n - begin ? few : n - begin;
        REAL *const block = (REAL *)args[2] + begin * k;
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
            block[i] = exp(block[i]);
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
        }
    }
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

#define GRADIENTS(name, loss) \
    LOOP(name) \
    { \
        const npy_intp p = lengths[1], n = lengths[2], m = lengths[3], dx = steps[7]; \
        const npy_intp fours = NUMBERS / (m > 1 ? m : 1) / 4 * 4, few = fours < 4 ? 4 : fours < SAMPLES ? fours : SAMPLES; \
        REAL u[SAMPLES + 3]; \
        for (npy_intp agent = 0; agent < lengths[0]; agent++) { \
            const REAL *const w = (REAL *)(args[0] + agent * steps[0]), *const c = (REAL *)(args[3] + agent * steps[3]); \
            const REAL *const d = (REAL *)(args[2] + agent * steps[2]), *const set = (REAL *)(args[4] + agent * steps[4]); \
            const REAL scale = set[0], ridge = set[1], most = set[2], bias = p > m ? w[m] : 0; \
            const char *const x = args[1] + agent * steps[1]; \
            REAL *const g = (REAL *)(args[5] + agent * steps[5]); \
            const npy_intp used = up_to_the_last(c, n); \
            (void)most; \
            for (npy_intp j = 0; j < p; j++) \
                g[j] = ridge != 0 ? ridge * w[j] : 0; \
            for (npy_intp begin = 0; begin < used; begin += few) { \
                const npy_intp k = few < used - begin ? few : used - begin; \
                BATCH batch; \
                take(&batch, x + begin * dx, x + n * dx, dx, k, m); \
                put_outputs(u, &batch, w, bias); \
                INDEPENDENT \
                for (npy_intp s = 0; s < k; s++) \
                    u[s] = loss(u[s], d[begin + s]) * (scale * c[begin + s]); \
                u[k] = u[k + 1] = u[k + 2] = 0; \
                add_multiples(g, &batch, u); \
                if (p > m) \
                    g[m] = sum_of(u, k, g[m]); \
            } \
        } \
    }

#define VALUES(name, loss) \
    LOOP(name) \
    { \
        const npy_intp p = lengths[1], n = lengths[2], m = lengths[3], dx = steps[7]; \
        REAL u[SAMPLES + 3]; \
        for (npy_intp agent = 0; agent < lengths[0]; agent++) { \
            const REAL *const w = (REAL *)(args[0] + agent * steps[0]), *const c = (REAL *)(args[3] + agent * steps[3]); \
            const REAL *const d = (REAL *)(args[2] + agent * steps[2]), *const set = (REAL *)(args[4] + agent * steps[4]); \
            const REAL most = set[2], bias = p > m ? w[m] : 0; \
            const char *const x = args[1] + agent * steps[1]; \
            const npy_intp used = up_to_the_last(c, n); \
            REAL total = 0; \
            (void)most; \
            for (npy_intp begin = 0; begin < used; begin += SAMPLES) { \
                const npy_intp k = SAMPLES < used - begin ? SAMPLES : used - begin; \
                BATCH batch; \
                take(&batch, x + begin * dx, x + n * dx, dx, k, m); \
                put_outputs(u, &batch, w, bias); \
                INDEPENDENT \
                for (npy_intp s = 0; s < k; s++) \
                    u[s] = loss(u[s], d[begin + s]) * c[begin + s]; \
                u[k] = u[k + 1] = u[k + 2] = 0; \
                total = sum_of(u, k, total); \
            } \
            AT(args[5], steps[5], agent) = total; \
        } \
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
}

LOOP(outer)
{
    for (npy_intp i = 0; i < lengths[0]; i++)
        for (npy_intp row = 0; row < lengths[1]; row++) {
            char *const x = args[1] + i * steps[1], *const out = args[2] + i * steps[2] + row * steps[5];
            put_multiple(AT(args[0] + i * steps[0], steps[3], row), x, steps[4], out, steps[6], lengths[2]);
        }
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

LOOP(mixed)
{
    const npy_intp p = lengths[2], rows = lengths[5], *const begins = (const npy_intp *)args[3];
    for (npy_intp begin = 0; begin < p; begin += COLUMNS)
        for (npy_intp row = 0; row < rows; row++) {
            REAL *const out = (REAL *)(args[4] + row * steps[10]);
            const REAL *const weights = (const REAL *)args[1];
            const npy_intp *const senders = (const npy_intp *)args[2];
            const NAME(entries) e = {args[0], weights, senders, steps[5], begins[row], begins[row + 1]};
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
                        total += AT(args[0] + e.senders[entry] * e.dx, SIZE, column) * e.weights[entry];
                    out[column] = total;
                }
        }
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
