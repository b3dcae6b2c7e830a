"""The compiled kernels: errors against mpmath for any bits, special values, and the same bits wherever an element stands."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from consensus import kernels
from tests.helpers.every_kernel import KERNELS, OF_ONE, OF_TWO, bits, compiled, every_dtype

mpmath = pytest.importorskip("mpmath")
pytestmark = compiled
MOST = mpmath.mpf(2000)  # beyond it all of the functions are at their limits
any_bits = st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=40)
every_kernel = pytest.mark.parametrize("kernel", [KERNELS[name] for name in sorted(OF_ONE | OF_TWO)])


def sigmoid(x):
    return 1 / (1 + mpmath.exp(-min(max(x, -MOST), MOST)))


def softplus(x):
    return x if x > MOST else mpmath.log1p(mpmath.exp(max(x, -MOST)))


def labelled(kernel, label):
    return lambda x: kernel(x, np.full_like(x, label))


EXACT = {  # functions of a number; those of two at some values of the other
    "tanh": (labelled(kernels.tanh_sum, 0), lambda x: mpmath.tanh(min(max(x, -MOST), MOST))),
    "sigmoid": (kernels.sigmoid, sigmoid),
    "sigmoid of a sum": (labelled(kernels.sigmoid_sum, 0), sigmoid),
    "softplus": (kernels.softplus, softplus),
    "exp": (lambda x: kernels.exp(-np.abs(x)), lambda x: mpmath.exp(-min(abs(x), MOST))),
    "value, no": (labelled(kernels.logistic_value, 0), softplus),
    "value, yes": (labelled(kernels.logistic_value, 1), lambda x: softplus(-x)),
    "slope, no": (labelled(kernels.logistic_slope, 0), sigmoid),
    "slope, yes": (labelled(kernels.logistic_slope, 1), lambda x: -sigmoid(-x)),
    "curvature": (kernels.logistic_curvature, lambda x: sigmoid(x) * sigmoid(-x)),
}
WORST = {  # of all float32, which were tried once; at most 3.91 units
    "tanh": 0.530533492565155,
    "sigmoid": 1.0439424514770508,
    "softplus": 0.34919437766075134,
    "exp": 5.862032890319824,
    "value, yes": 1.2653218507766724,
    "slope, yes": 1.111829400062561,
    "curvature": 14.687931060791016,
}
SLOPES = {  # of activations h, which are in an interval
    "tanh": (kernels.tanh_slope, -1, lambda h: 1 - h * h),
    "sigmoid": (kernels.sigmoid_slope, 0, lambda h: h * (1 - h)),
}


def errors(found, exact, x):
    """In units in the last place, those of subnormal numbers where the exact value is one."""
    with mpmath.workprec(200):
        wanted = [exact(mpmath.mpf(float(one))) for one in x]
        spacing = np.abs(np.spacing(np.array([float(one) for one in wanted]).astype(found.dtype)))
        off = [abs(mpmath.mpf(float(one)) - other) for one, other in zip(found, wanted, strict=True)]
        return np.array([float(one / mpmath.mpf(float(unit))) for one, unit in zip(off, spacing, strict=True)])


def from_bits(numbers, dtype):
    x = np.array(numbers, np.uint64).astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
    return x[np.isfinite(x)]


def arguments(kernel, x):
    labels = (np.arange(x.size) % 2).astype(x.dtype).reshape(x.shape)
    return (x,) if kernel.__name__ in OF_ONE else (x, labels)


@every_dtype
@pytest.mark.parametrize("name", EXACT)
@settings(deadline=None, max_examples=20)
@given(numbers=any_bits)
def test_four_units_in_the_last_place_for_any_bits(name, dtype, numbers):
    ours, exact = EXACT[name]
    x = from_bits(numbers, dtype)
    assert errors(ours(x), exact, x).max(initial=0) <= 4


@every_dtype
@pytest.mark.parametrize("name", EXACT)
def test_four_units_in_the_last_place_where_functions_bend_and_float32_is_worst(name, dtype):
    ours, exact = EXACT[name]
    rng, worst = np.random.default_rng(0), WORST.get(name, 1.0)
    x = [rng.uniform(-size, size, 200) for size in (1e-3, 0.3, 1, 3, 30, 110, 760)]
    x = np.concatenate([*x, [worst, -worst]]).astype(dtype)
    assert errors(ours(x), exact, x).max() <= 4


@every_dtype
@pytest.mark.parametrize("name", SLOPES)
@settings(deadline=None)
@given(numbers=st.lists(st.floats(0, 1) | st.floats(0, 1).map(lambda h: 1 - h / 2**20), min_size=1, max_size=30))
def test_slopes_of_activations(name, dtype, numbers):
    ours, least, exact = SLOPES[name]
    h = np.array(numbers).astype(dtype)
    h = np.concatenate([h, least * h])
    h = np.abs(h) if least == 0 else h
    assert errors(ours(h), exact, h).max() <= 4


@every_dtype
@settings(deadline=None)
@given(numbers=any_bits)
def test_sums_and_products_are_rounded_as_by_numpy(dtype, numbers):
    a = from_bits(numbers, dtype) / 4
    b = a[::-1].copy()
    for kernel in (kernels.tanh_sum, kernels.sigmoid_sum):
        assert bits(kernel(a, b)) == bits(kernel(a + b, np.full_like(a, -0.0)))
    rng = np.random.default_rng(4)
    u, h = rng.uniform(0, 1, (2, 99)).astype(dtype)
    assert bits(kernels.tanh_backward(u, -h)) == bits(u * kernels.tanh_slope(-h))
    assert bits(kernels.sigmoid_backward(u, h)) == bits(u * kernels.sigmoid_slope(h))
    a, bias = (rng.normal(size=shape).astype(dtype) for shape in ((3, 4, 9), (3, 1, 9)))
    assert bits(kernels.tanh_sum(a, bias)) == bits(kernels.tanh_sum(a, np.broadcast_to(bias, a.shape).copy()))


@every_dtype
def test_limits_and_signed_zeros(dtype):
    x = np.array([-np.inf, -0.0, 0.0, np.inf], dtype)
    half, log2 = 0.5, np.log(dtype(2))
    wanted = {
        "tanh": [-1, -0.0, 0, 1],
        "sigmoid": [0, half, half, 1],
        "softplus": [0, log2, log2, np.inf],
        "exp": [0, 1, 1, 0],
        "value, no": [0, log2, log2, np.inf],
        "value, yes": [np.inf, log2, log2, 0],
        "slope, no": [0, half, half, 1],
        "slope, yes": [-1, -half, -half, 0],
        "curvature": [0, 0.25, 0.25, 0],
    }
    for name, values in wanted.items():
        with np.errstate(all="raise", under="ignore"):
            found = EXACT[name][0](x)
        np.testing.assert_array_equal(found, np.array(values, dtype), err_msg=name)
    np.testing.assert_array_equal(np.signbit(kernels.tanh_sum(x, -np.zeros_like(x))), [True, True, False, False])


@every_dtype
@every_kernel
def test_nan_stays_nan_alone_and_without_a_warning(kernel, dtype):
    x = -np.linspace(0, 1, 45, dtype=dtype)
    clean = kernel(*arguments(kernel, x))
    for place in range(len(x)):
        holed = x.copy()
        holed[place] = np.nan if place % 2 else -np.nan
        with np.errstate(all="raise", under="ignore"):
            found = kernel(*arguments(kernel, holed))
        assert np.isnan(found[place])
        assert bits(np.delete(found, place)) == bits(np.delete(clean, place))


@every_dtype
@every_kernel
def test_bits_do_not_depend_on_the_place_of_an_element(kernel, dtype):
    given = arguments(kernel, -np.abs(np.random.default_rng(1).normal(scale=3, size=70)).astype(dtype))
    whole = kernel(*given)
    cuts = [slice(i, i + 1) for i in range(70)] + [slice(None, None, -1)]
    for offset in range(35):  # from every alignment, of every length, in every direction
        cuts += [slice(offset, None), slice(None, offset), slice(offset, None, 3)]
    for cut in cuts:
        assert bits(kernel(*(argument[cut] for argument in given))) == bits(whole[cut])
    shaped = [argument.reshape(2, 5, 7) for argument in given]
    assert bits(kernel(*shaped)) == bits(whole)
    assert kernel(*shaped, out=shaped[0]) is shaped[0]
    assert bits(shaped[0]) == bits(whole)


@every_dtype
@every_kernel
def test_the_kernel_is_the_function_that_it_replaces(kernel, dtype):
    given = arguments(kernel, -np.linspace(0, 1, 99, dtype=dtype))
    np.testing.assert_allclose(kernel(*given), kernel.__wrapped__(*given, None), rtol=0, atol=8 * np.finfo(dtype).eps)
    assert kernel(*given).dtype == dtype


def softmax_slope(f, classes):
    return kernels.softmax_slope(f, classes, out=np.empty(f.shape, f.dtype))


@every_dtype
@pytest.mark.parametrize("columns", [2, 3, 10, 33, 1500])
def test_softmax_of_a_row_is_that_of_scipy_and_depends_on_the_row_alone(columns, dtype):
    rng = np.random.default_rng(3)
    f = rng.normal(scale=5, size=(3, 50, columns)).astype(dtype)
    classes = rng.integers(-1, columns, (3, 50)).astype(dtype)
    found = softmax_slope(f, classes)
    wanted = special.softmax(f.astype(float), axis=-1) - (classes[..., None] == np.arange(columns))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=6 * np.finfo(dtype).eps)
    assert bits(softmax_slope(f[1:, 7:31], classes[1:, 7:31])) == bits(found[1:, 7:31])
    assert bits(softmax_slope(f.swapaxes(0, 1), classes.T)) == bits(found.swapaxes(0, 1))
    assert bits(softmax_slope(f[2, 4], classes[2, 4])) == bits(found[2, 4])


@every_dtype
def test_softmax_at_logits_of_any_size(dtype):
    largest = np.finfo(dtype).max / 2
    f = np.array([[largest, -largest, 0], [-largest, -largest, -np.inf], [0, 1, np.nan], [-np.nan, 1, 0], [-3, -3, -3]], dtype)
    with np.errstate(all="raise", under="ignore"):
        found = softmax_slope(f, np.full(5, -1, dtype))
    assert np.isnan(found[2:4]).all()
    np.testing.assert_array_equal(found[[0, 1]], np.array([[1, 0, 0], [0.5, 0.5, 0]], dtype))
    assert np.ptp(found[4]) == 0


@pytest.mark.parametrize("label", [-1, 0, 2, 3, 0.5, np.inf, -np.inf])
def test_a_label_that_is_no_class_subtracts_nothing(label):
    found = softmax_slope(np.zeros((1, 3)), np.array([label]))[0]
    np.testing.assert_allclose(found, np.full(3, 1 / 3) - (np.arange(3) == label), rtol=1e-15)


def test_numpy_computes_other_dtypes():
    x = np.linspace(-1, 1, 9)
    long, short = x.astype(np.longdouble), x.astype(np.float32)
    np.testing.assert_array_equal(kernels.tanh_sum(long, long), np.tanh(long + long))
    np.testing.assert_array_equal(kernels.tanh_sum(short, x), np.tanh(short + x))
