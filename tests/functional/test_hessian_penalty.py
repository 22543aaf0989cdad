"""The Hessian penalties on functions whose Hessians are known."""

import keras
import numpy as np
import pytest
from keras import ops

from qlayers.functional import hessian_penalty
from qlayers.functional.hessian_penalty import (
    coordinate_moments,
    draw_coordinates,
    draw_directions,
    num_evaluations,
    penalty_of_moments,
    penalty_of_samples,
)
from tests.finite_differences import finite_differences
from tests.gradients import as_float64, gradient_of

rng = np.random.default_rng(0)
N, OUTPUTS, SAMPLES = 3, 2, 6
Z = (rng.normal(size=(SAMPLES, N)) * [1.0, 2.0, 0.5]).astype("float32")
HESSIANS = rng.normal(size=(OUTPUTS, N, N))
HESSIANS = HESSIANS + HESSIANS.transpose(0, 2, 1)


def quadratic(hessians, xp=ops):
    """A function with the given Hessians, on Keras or NumPy tensors."""
    hessians = hessians.astype("float32" if xp is ops else "float64")

    def fn(z):
        return 0.5 * xp.einsum("bi,kij,bj->bk", z, hessians, z)

    return fn


def two_outputs(xp):
    """Two tensors of different size and scale, neither additive nor quadratic."""
    first = rng_matrix(5, "float32" if xp is ops else "float64")
    second = rng_matrix(4, "float32" if xp is ops else "float64")

    def fn(z):
        return [xp.tanh(xp.matmul(z, first)), 10.0 * xp.cos(xp.matmul(z, second))]

    return fn


def rng_matrix(width, dtype):
    return np.random.default_rng(width).normal(size=(N, width)).astype(dtype)


def equation_16(hessians, scale):
    """Share of the mixed derivatives, numerators and denominators summed over k."""
    scaled = (hessians * scale[:, None] * scale[None, :]) ** 2
    mixed = scaled.sum() - np.einsum("kii->", scaled)
    return mixed / scaled.sum()


def algorithm_1(fn, z, directions, epsilon, aggregate):
    """Lines 14 to 24 of Algorithm 1 with the centre and population variances."""
    num_draws = len(directions) // 2
    centre = fn(z)
    total = 0.0
    curvatures = [
        np.stack(
            [
                (fn(z + epsilon * d)[k] - 2 * centre[k] + fn(z - epsilon * d)[k])
                for d in directions
            ]
        )
        / epsilon**2
        for k in range(len(centre))
    ]
    numerators = [c[:num_draws].var(0).sum(-1) for c in curvatures]
    denominators = [c[num_draws:].var(0).sum(-1) for c in curvatures]
    if aggregate == "joint":
        total = sum(numerators) / sum(denominators)
    else:
        total = sum(n / d for n, d in zip(numerators, denominators, strict=True))
    return float(total.mean())


@pytest.mark.backends
@pytest.mark.parametrize("num_perturbations", [2, 3])
@pytest.mark.parametrize("aggregate", ["joint", "per_output"])
def test_value_is_algorithm_1(aggregate, num_perturbations):
    directions = draw_directions(SAMPLES, N, num_perturbations, True, seed=4) * Z.std(0)
    expected = algorithm_1(
        two_outputs(np),
        Z.astype("float64"),
        as_float64(directions),
        0.1,
        aggregate,
    )
    value = hessian_penalty(
        two_outputs(ops),
        Z,
        num_perturbations=num_perturbations,
        aggregate=aggregate,
        seed=4,
    )
    np.testing.assert_allclose(as_float64(value), expected, rtol=2e-3)


@pytest.mark.backends
def test_equation_16_is_reached_with_many_perturbations():
    scale = np.array([1.0, 2.0, 0.5])
    value = hessian_penalty(
        quadratic(HESSIANS), Z, scale, num_perturbations=4000, seed=1
    )
    expected = equation_16(HESSIANS, scale)
    # Six samples of 4000 draws: about 1.5 % standard error.
    np.testing.assert_allclose(as_float64(value), expected, rtol=0.05)
    assert 0.1 < expected < 0.9


@pytest.mark.backends
def test_equation_8_is_reached_with_many_perturbations():
    mixed = (HESSIANS**2).sum((1, 2)) - np.einsum("kii->k", HESSIANS**2)
    arguments = {"num_perturbations": 4000, "normalized": False, "seed": 1}
    largest = hessian_penalty(quadratic(HESSIANS), Z, **arguments)
    np.testing.assert_allclose(as_float64(largest), 2 * mixed.max(), rtol=0.05)
    mean = hessian_penalty(quadratic(HESSIANS), Z, aggregate="mean", **arguments)
    np.testing.assert_allclose(as_float64(mean), 2 * mixed.mean(), rtol=0.05)


@pytest.mark.backends
def test_two_perturbations_estimate_equation_8_without_bias():
    many = np.repeat(Z, 2000, axis=0)
    value = hessian_penalty(
        quadratic(HESSIANS[:1]), many, normalized=False, aggregate="mean", seed=1
    )
    expected = 2 * ((HESSIANS[0] ** 2).sum() - (np.diag(HESSIANS[0]) ** 2).sum())
    np.testing.assert_allclose(as_float64(value), expected, rtol=0.05)


@pytest.mark.backends
def test_directions_have_the_moments_they_should():
    directions = as_float64(draw_directions(500, N, 20, True, seed=0))
    signs, normal = directions[:20], directions[20:]
    np.testing.assert_array_equal(np.abs(signs), 1.0)
    assert abs(signs.mean()) < 0.03
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    assert abs((normal**4).mean() - 3) < 0.2


@pytest.mark.backends
def test_rescaling_latents_or_outputs_changes_only_the_plain_penalty():
    factors = np.array([10.0, 0.1, 3.0], "float32")
    hessians = HESSIANS / (factors[:, None] * factors[None, :])
    pairs = {
        "latents": (quadratic(hessians), Z * factors),
        "outputs": (quadratic(100 * HESSIANS), Z),
    }
    # Enough draws for the change to show in any of them.
    plainly = {"normalized": False, "num_perturbations": 100, "seed": 2}
    base = as_float64(hessian_penalty(quadratic(HESSIANS), Z, seed=2))
    plain = as_float64(hessian_penalty(quadratic(HESSIANS), Z, **plainly))
    for name, (fn, z) in pairs.items():
        value = as_float64(hessian_penalty(fn, z, seed=2))
        np.testing.assert_allclose(value, base, rtol=1e-3, err_msg=name)
        other = as_float64(hessian_penalty(fn, z, **plainly))
        assert not np.isclose(other, plain, rtol=0.1)


@pytest.mark.backends
def test_an_additive_function_costs_nothing():
    def additive(z):
        return ops.tanh(z[:, :1]) + ops.square(z[:, 1:2]) + ops.sin(z[:, 2:])

    assert as_float64(hessian_penalty(additive, Z, seed=0)) < 1e-6
    assert as_float64(hessian_penalty(additive, Z, normalized=False, seed=0)) < 1e-6


@pytest.mark.backends
def test_a_linear_function_gives_zero_not_noise_over_noise():
    matrix = rng.normal(size=(N, 50)).astype("float32")
    value = hessian_penalty(lambda z: ops.matmul(z, matrix), Z, seed=0)
    assert as_float64(value) < 0.02
    constant = hessian_penalty(lambda z: ops.zeros_like(z), Z, seed=0)
    assert as_float64(constant) == 0.0


@pytest.mark.backends
def test_a_product_has_mixed_derivatives_only():
    value = hessian_penalty(
        lambda z: z[:, :1] * z[:, 1:2], Z[:, :2], num_perturbations=2000, seed=0
    )
    np.testing.assert_allclose(as_float64(value), 1.0, rtol=0.1)


@pytest.mark.backends
@pytest.mark.parametrize("normalized", [True, False])
def test_one_call_without_the_centre(normalized):
    rows = []

    def fn(points):
        rows.append(as_float64(points))
        return quadratic(HESSIANS)(points)

    hessian_penalty(fn, Z, normalized=normalized, seed=0)
    (points,) = rows
    assert len(points) == (8 if normalized else 4) * SAMPLES
    is_centre = (points[:, None] == Z[None].astype("float64")).all(-1).any()
    assert not is_centre
    # Points come in pairs around the samples.
    middle = 0.5 * (points[: len(points) // 2] + points[len(points) // 2 :])
    repeated = np.tile(Z, (len(middle) // SAMPLES, 1))
    np.testing.assert_allclose(middle, repeated, atol=1e-5)


@pytest.mark.backends
@pytest.mark.parametrize("aggregate", ["joint", "per_output"])
def test_gradient_flows_through_latents_and_scale(aggregate):
    epsilon = 0.5
    unit = as_float64(draw_directions(SAMPLES, N, 2, True, seed=4))

    def reference(z):
        return algorithm_1(two_outputs(np), z, unit * z.std(0), epsilon, aggregate)

    expected = finite_differences(reference, Z)
    ours = gradient_of(
        lambda z: hessian_penalty(
            two_outputs(ops), z, epsilon=epsilon, aggregate=aggregate, seed=4
        ),
        Z,
    )
    np.testing.assert_allclose(
        ours, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max()
    )


@pytest.mark.backends
def test_gradient_reaches_the_function():
    """d(plain penalty)/dA for f = z' A z / 2, by hand for two given directions."""
    directions = np.array([[[1.0, 1.0]], [[1.0, -1.0]]], "float32")
    z = ops.convert_to_tensor(np.array([[0.3, -0.2]], "float32"))
    matrix = np.array([[[1.0, 0.7], [0.7, -2.0]]], "float32")

    def penalty(a):
        def fn(points):
            return 0.5 * ops.einsum("bi,kij,bj->bk", points, a, points)

        return ops.mean(
            penalty_of_samples(
                fn, z, ops.convert_to_tensor(directions), 1.0, False, "max"
            )
        )

    # The curvatures are 2 h12 + trace and -2 h12 + trace: variance 8 h12^2, where
    # h12 = (a12 + a21) / 2.
    np.testing.assert_allclose(as_float64(penalty(matrix)), 8 * 0.7**2, rtol=1e-4)
    expected = np.array([[[0.0, 8 * 0.7], [8 * 0.7, 0.0]]])
    np.testing.assert_allclose(gradient_of(penalty, matrix), expected, atol=2e-4)


@pytest.mark.backends
def test_half_precision_outputs_do_not_turn_rounding_into_a_penalty():
    matrix = rng.normal(size=(N, 50)).astype("float32")

    def half(z):
        return ops.cast(ops.matmul(z, matrix), "float16")

    assert as_float64(hessian_penalty(half, Z, seed=0)) < 0.05


@pytest.mark.parametrize("directions", ["random", "coordinates"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_outputs_keep_their_penalty(dtype, directions):
    """Rounding once, the penalty is that of float32; it was a small part of it."""
    z = np.random.default_rng(1).normal(size=(200, N)).astype("float32")
    first = 0.3 * rng_matrix(64, "float32")

    def wide(points):
        return ops.tanh(ops.matmul(points, first))

    def half(points):
        return ops.cast(wide(points), dtype)

    arguments = {"seed": 5, "directions": directions, "num_perturbations": 8}
    # A single second derivative of bfloat16 values needs a long step.
    is_coarse = (dtype, directions) == ("bfloat16", "coordinates")
    arguments["epsilon"] = 0.6 if is_coarse else 0.2
    expected = as_float64(hessian_penalty(wide, z, **arguments))
    value = as_float64(hessian_penalty(half, z, **arguments))
    np.testing.assert_allclose(value, expected, rtol=0.15)


def exact_hessians(z, matrix):
    """Second derivatives of tanh(z A), `(samples, outputs, n, n)`."""
    t = np.tanh(z @ matrix)
    slope = -2 * t * (1 - t**2)
    return np.einsum("bk,ik,jk->bkij", slope, matrix, matrix)


def batch_share(hessians, scale):
    """The mixed derivatives' share over all samples and outputs."""
    scaled = (hessians * scale[:, None] * scale[None, :]) ** 2
    return 1 - np.einsum("bkii->", scaled) / scaled.sum()


@pytest.mark.backends
@pytest.mark.parametrize("num_perturbations", [2, 3, 4])
def test_coordinates_measure_the_share_of_the_batch(num_perturbations):
    """Against exact second derivatives; many samples take the noise away."""
    z = np.random.default_rng(2).normal(size=(6000, 5)).astype("float32")
    matrix = np.random.default_rng(3).normal(size=(5, 7)) * 0.5
    scale = np.array([1.0, 1.2, 0.8, 1.1, 0.9])
    value = hessian_penalty(
        lambda points: ops.tanh(ops.matmul(points, matrix.astype("float32"))),
        z,
        scale,
        num_perturbations=num_perturbations,
        epsilon=0.05,
        directions="coordinates",
        seed=1,
    )
    expected = batch_share(exact_hessians(z.astype("float64"), matrix), scale)
    assert 0.1 < expected < 0.95
    np.testing.assert_allclose(as_float64(value), expected, rtol=0.05)


@pytest.mark.backends
def test_coordinates_measure_equation_8():
    many = np.repeat(Z, 500, axis=0)
    arguments = {"normalized": False, "directions": "coordinates", "seed": 1}
    mixed = (HESSIANS**2).sum((1, 2)) - np.einsum("kii->k", HESSIANS**2)
    mean = hessian_penalty(quadratic(HESSIANS), many, aggregate="mean", **arguments)
    np.testing.assert_allclose(as_float64(mean), 2 * mixed.mean(), rtol=0.05)


@pytest.mark.backends
def test_coordinates_of_one_pair_are_exact():
    """With two latents every sample measures the whole Hessian of a quadratic."""
    hessians, scale = HESSIANS[:, :2, :2], np.array([1.0, 2.0])
    value = hessian_penalty(
        quadratic(hessians), Z[:3, :2], scale, directions="coordinates", seed=0
    )
    expected = equation_16(hessians, scale)
    np.testing.assert_allclose(as_float64(value), expected, rtol=1e-3)


@pytest.mark.backends
def test_coordinates_divide_each_output_on_request():
    hessians, scale = HESSIANS[:, :2, :2], np.array([1.0, 2.0])

    def fn(z):
        values = quadratic(hessians)(z)
        return [values[:, :1], 100.0 * values[:, 1:]]

    arguments = {"directions": "coordinates", "aggregate": "per_output", "seed": 0}
    value = hessian_penalty(fn, Z[:3, :2], scale, **arguments)
    expected = sum(equation_16(hessians[k : k + 1], scale) for k in range(2))
    np.testing.assert_allclose(as_float64(value), expected, rtol=1e-3)


@pytest.mark.backends
def test_coordinates_evaluate_no_more_than_random_directions():
    for num_perturbations, n in [(2, 2), (2, 3), (2, 12), (3, 12), (4, 12), (8, 3)]:
        for normalized in (True, False):
            rows = []

            def fn(points, rows=rows):
                rows.append(points.shape[0])
                return ops.square(ops.sum(points, axis=-1, keepdims=True))

            for directions in ("random", "coordinates"):
                hessian_penalty(
                    fn,
                    np.ones((4, n), "float32"),
                    np.ones(n),
                    num_perturbations=num_perturbations,
                    normalized=normalized,
                    directions=directions,
                )
            assert len(rows) == 2 and rows[1] <= rows[0]


@pytest.mark.backends
def test_coordinates_are_drawn_equally_often():
    steps = as_float64(draw_coordinates(60, 12, 2, True, seed=3))
    assert steps.shape == (3, 60, 12)
    np.testing.assert_array_equal(np.abs(steps).sum(-1), 1.0)
    np.testing.assert_array_equal(np.abs(steps).sum((0, 1)), 15.0)
    # No sample steps twice along one latent.
    assert np.abs(steps).sum(0).max() == 1.0
    many = np.abs(as_float64(draw_coordinates(12_000, 4, 2, True, seed=3))).sum(0)
    pairs = (many.T @ many)[np.triu_indices(4, 1)]
    np.testing.assert_allclose(pairs, 12_000 * 3 / 6, rtol=0.05)


@pytest.mark.backends
def test_coordinates_of_additive_and_linear_functions():
    def additive(z):
        return ops.tanh(z[:, :1]) + ops.square(z[:, 1:2]) + ops.sin(z[:, 2:])

    matrix = rng.normal(size=(N, 50)).astype("float32")
    arguments = {"directions": "coordinates", "seed": 0}
    assert as_float64(hessian_penalty(additive, Z, **arguments)) < 1e-5
    linear = hessian_penalty(lambda z: ops.matmul(z, matrix), Z, **arguments)
    assert as_float64(linear) < 0.02
    constant = hessian_penalty(lambda z: ops.zeros_like(z), Z, **arguments)
    assert as_float64(constant) == 0.0


@pytest.mark.backends
def test_gradient_of_coordinates():
    """d share / d h12 of one quadratic in two latents, by hand."""
    matrix = np.array([[1.0, 0.7], [0.7, -2.0]], "float32")
    z = np.array([[0.3, -0.2]], "float32")

    def penalty(a):
        def fn(points):
            return 0.5 * ops.einsum("bi,ij,bj->b", points, a, points)[:, None]

        return hessian_penalty(
            fn, z, np.ones(2), epsilon=1.0, directions="coordinates", seed=0
        )

    # h12 = (a12 + a21) / 2, share = 2 h12^2 / (2 h12^2 + h11^2 + h22^2).
    off, own = 2 * 0.7**2, 1.0 + 4.0
    np.testing.assert_allclose(as_float64(penalty(matrix)), off / (off + own), 1e-4)
    of_off = own / (off + own) ** 2
    of_own = -off / (off + own) ** 2
    expected = np.array(
        [[2 * 1.0 * of_own, 2 * 0.7 * of_off], [2 * 0.7 * of_off, -4.0 * of_own]]
    )
    np.testing.assert_allclose(gradient_of(penalty, matrix), expected, atol=2e-4)


@pytest.mark.backends
@pytest.mark.parametrize("num_perturbations", [2, 3])
def test_moments_of_coordinates_are_unbiased(num_perturbations):
    """Two samples cover few of the latents; the mean over draws has all of them."""
    size, draws, epsilon = 5, 500, 0.5
    matrix = np.random.default_rng(5).normal(size=(2, size, size))
    hessians = matrix + matrix.transpose(0, 2, 1)
    scale = np.array([1.0, 2.0, 0.5, 1.5, 0.8], "float32")
    z = ops.zeros((2, size))
    num_points = num_evaluations(num_perturbations, True)
    settings = (epsilon, True, "joint", num_points)
    seeds = keras.random.SeedGenerator(0)
    steps = [
        draw_coordinates(2, size, num_perturbations, True, seeds) * scale
        for _ in range(draws)
    ]
    tables = ops.vectorized_map(
        lambda step: coordinate_moments(quadratic(hessians), z, step, *settings),
        ops.stack(steps),
    )
    drawn = as_float64(tables)[:, 0] / epsilon**4
    scaled = (hessians * scale[:, None] * scale[None, :]) ** 2
    mixed = scaled.sum() - np.einsum("kii->", scaled)
    error = np.std(drawn, axis=0) / np.sqrt(draws)
    expected = np.array([mixed, scaled.sum()])
    assert (np.abs(np.mean(drawn, axis=0) - expected) < 4 * error).all()
    assert (error < 0.05 * expected).all()


@pytest.mark.backends
def test_gradient_of_coordinates_is_that_of_equation_16():
    """With many samples, against finite differences of the exact share."""
    scale = np.array([1.0, 2.0, 0.5])
    many = np.zeros((9_000, N), "float32")

    def penalty(a):
        def fn(points):
            return 0.5 * ops.einsum("bi,kij,bj->bk", points, a, points)

        settings = {"epsilon": 1.0, "directions": "coordinates", "seed": 3}
        return hessian_penalty(fn, many, scale, **settings)

    def exact(a):
        return equation_16(0.5 * (a + a.transpose(0, 2, 1)), scale)

    expected = finite_differences(exact, HESSIANS.astype("float32"))
    ours = gradient_of(penalty, HESSIANS.astype("float32"))
    np.testing.assert_allclose(ours, expected, atol=0.03 * np.abs(expected).max())


def large_operations_of_gradient(penalty, shape):
    """Types of operations in a penalty's gradient that return as much as `shape`."""
    import tensorflow as tf

    def gradient(values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            penalized = penalty(lambda points: values)
        return tape.gradient(penalized, values)

    traced = tf.function(gradient).get_concrete_function(tf.TensorSpec(shape))
    sizes = {
        (operation.type, output.shape.num_elements())
        for operation in traced.graph.get_operations()
        for output in operation.outputs
    }
    return {kind for kind, size in sizes if size is None or size >= np.prod(shape)}


@pytest.mark.parametrize("directions", ["random", "coordinates"])
def test_gradient_fills_no_tensors_with_zeros(directions):
    """Gradients of slices and gathered points took 8 times as long as without them."""
    draw = draw_coordinates if directions == "coordinates" else draw_directions
    steps, z = draw(SAMPLES, N, 2, True, seed=0), ops.convert_to_tensor(Z)

    def penalty(fn):
        if directions == "random":
            return ops.mean(penalty_of_samples(fn, z, steps, 0.1, True, "joint"))
        moments = coordinate_moments(fn, z, steps, 0.1, True, "joint", 8)
        return penalty_of_moments(moments)

    found = large_operations_of_gradient(penalty, (8 * SAMPLES, 5))
    assert "Reshape" in found
    assert not found & {"StridedSliceGrad", "UnsortedSegmentSum", "ScatterNd"}


def test_bad_arguments():
    fn = quadratic(HESSIANS)
    with pytest.raises(ValueError, match="num_perturbations"):
        hessian_penalty(fn, Z, num_perturbations=1)
    with pytest.raises(ValueError, match="epsilon"):
        hessian_penalty(fn, Z, epsilon=0.0)
    with pytest.raises(ValueError, match="aggregate"):
        hessian_penalty(fn, Z, aggregate="max")
    with pytest.raises(ValueError, match="aggregate"):
        hessian_penalty(fn, Z, normalized=False, aggregate="joint")
    with pytest.raises(ValueError, match="directions"):
        hessian_penalty(fn, Z, directions="hadamard")
    with pytest.raises(ValueError, match="at least two"):
        hessian_penalty(fn, Z[:, :1], directions="coordinates")


def test_a_seed_generator_moves_on_and_an_integer_does_not():
    fn, generator = quadratic(HESSIANS), keras.random.SeedGenerator(3)
    moving = [float(hessian_penalty(fn, Z, seed=generator)) for _ in range(2)]
    fixed = [float(hessian_penalty(fn, Z, seed=3)) for _ in range(2)]
    assert moving[0] != moving[1]
    assert fixed[0] == fixed[1]
