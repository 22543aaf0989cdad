"""Unit vectors, the rotation trick and k-means, against their definitions."""

import numpy as np
import pytest
from keras import ops

from qlayers.functional import k_means, rotate_through, unit_vectors
from tests.gradients import as_float64, gradient_of

pytestmark = pytest.mark.backends
rng = np.random.default_rng(0)


def test_unit_vectors_of_any_size():
    x = np.array([[3e20, 4e20], [3e-20, -4e-20], [0.0, 0.0], [0.0, 2.0]], "float32")
    unit, length = (as_float64(value) for value in unit_vectors(x))
    np.testing.assert_allclose(
        unit, [[0.6, 0.8], [0.6, -0.8], [0, 0], [0, 1]], rtol=1e-6
    )
    np.testing.assert_allclose(length[:, 0], [5e20, 5e-20, 0, 2], rtol=1e-6, atol=1e-29)


def test_gradient_of_unit_vectors_is_that_of_the_quotient():
    x = rng.normal(size=(5, 3)).astype("float32")
    a = rng.normal(size=(5, 3)).astype("float32")
    found = gradient_of(lambda t: ops.sum(ops.multiply(a, unit_vectors(t)[0])), x)
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    unit = x / length
    expected = (a - unit * (a * unit).sum(-1, keepdims=True)) / length
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    found = gradient_of(lambda t: ops.sum(ops.multiply(a, unit_vectors(t)[0])), 0.0 * x)
    np.testing.assert_array_equal(found, a)


def plane_rotation(u, v):
    """The rotation by the angle between unit vectors u and v in their plane."""
    w = v - u * (u @ v)
    w = w / np.linalg.norm(w)
    cos, sin = u @ v, w @ v
    plane = np.stack([u, w], axis=1)
    turn = np.array([[cos, -sin], [sin, cos]])
    return np.eye(len(u)) + plane @ (turn - np.eye(2)) @ plane.T


def test_rotation_turns_the_gradient_with_the_vector():
    x, q, a = rng.normal(size=(3, 6, 4)).astype("float32")
    np.testing.assert_array_equal(as_float64(rotate_through(x, q)), q)
    found = gradient_of(lambda t: ops.sum(ops.multiply(a, rotate_through(t, q))), x)
    for i in range(len(x)):
        nx, nq = np.linalg.norm(x[i]), np.linalg.norm(q[i])
        jacobian = nq / nx * plane_rotation(x[i] / nx, q[i] / nq)
        np.testing.assert_allclose(jacobian @ x[i], q[i], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[i], jacobian.T @ a[i], rtol=2e-4, atol=1e-5)


def test_rotation_of_zero_and_opposite_vectors_has_a_finite_gradient():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]], "float32")
    q = np.array([[1.0, 1.0], [0.0, 0.0], [-1.0, -2.0]], "float32")
    a = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]], "float32")
    found = gradient_of(lambda t: ops.sum(ops.multiply(a, rotate_through(t, q))), x)
    np.testing.assert_array_equal(found[:2], a[:2])
    # The map takes x onto -x; what is parallel to x changes its sign.
    np.testing.assert_allclose(found[2], -a[2], rtol=1e-5)


def test_rotation_is_that_of_vector_quantize_pytorch():
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("vector_quantize_pytorch.vector_quantize_pytorch")
    x, q, a = rng.normal(size=(3, 7, 5)).astype("float32")
    theirs = torch.tensor(x, requires_grad=True)
    (torch.tensor(a) * peer.rotate_to(theirs, torch.tensor(q))).sum().backward()
    ours = gradient_of(lambda t: ops.sum(ops.multiply(a, rotate_through(t, q))), x)
    np.testing.assert_allclose(ours, theirs.grad.numpy(), rtol=1e-3, atol=1e-5)


def test_k_means_finds_separate_clusters():
    centres = np.array([[0, 0], [10, 0], [0, 10]], "float32")
    member = np.repeat(np.arange(3), 20)
    x = (centres[member] + rng.uniform(-1, 1, (60, 2))).astype("float32")
    expected = np.stack([x[member == k].mean(0) for k in range(3)])
    best = np.inf
    for seed in range(4):  # a start may put two means into one cluster
        means = as_float64(k_means(x, 3, seed=seed))
        distance = np.abs(means[:, None] - expected[None]).max(-1)
        best = min(best, distance.min(1).max())
    assert best < 1e-4


def test_k_means_is_lloyds_iteration():
    x = rng.normal(size=(40, 3)).astype("float32")
    means = as_float64(k_means(x, 5, num_iterations=0, seed=1))
    assert all(np.abs(x - mean).sum(-1).min() == 0 for mean in means)
    assert len(np.unique(means, axis=0)) == 5
    for _ in range(4):
        nearest = ((x[:, None] - means[None]) ** 2).sum(-1).argmin(-1)
        means = np.stack([x[nearest == k].mean(0) for k in range(5)])
    found = as_float64(k_means(x, 5, num_iterations=4, seed=1))
    np.testing.assert_allclose(found, means, rtol=1e-4, atol=1e-5)


def test_k_means_of_fewer_vectors_than_means_uses_each():
    x = np.array([[1.0], [2.0], [4.0]], "float32")
    found = as_float64(k_means(x, 7, seed=0))
    assert found.shape == (7, 1)
    np.testing.assert_allclose(np.unique(found), [1, 2, 4], rtol=1e-6)
