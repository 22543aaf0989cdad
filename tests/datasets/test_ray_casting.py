"""The ray caster against an independent one that marches signed distances."""

import numpy as np
import pytest

from qlayers.datasets.geometry_buffers import geometry_buffers
from qlayers.datasets.ray_casting import (
    FLOOR,
    OBJECT,
    SHAPE_NAMES,
    SKY,
    WALL,
    Scene,
    camera_rays,
    hit_shape,
)

SCENE = Scene()


def _distance_to(shape, scale, points):
    """Signed distance to each shape, from its textbook formula."""
    x, y, z = points.T
    around = np.hypot(x, y)
    if shape == "cube":
        half = SCENE.cube_half_width * scale
        outside = np.abs(np.stack([x, y, z - half])) - half
        return np.linalg.norm(np.maximum(outside, 0), axis=0) + np.minimum(
            outside.max(axis=0), 0
        )
    if shape == "cylinder":
        half = SCENE.cylinder_half_height * scale
        outside = np.stack(
            [around - SCENE.cylinder_radius * scale, np.abs(z - half) - half]
        )
        return np.linalg.norm(np.maximum(outside, 0), axis=0) + np.minimum(
            outside.max(axis=0), 0
        )
    if shape == "sphere":
        radius = SCENE.sphere_radius * scale
        return np.hypot(around, z - radius) - radius
    radius = SCENE.capsule_radius * scale
    length = 2 * SCENE.capsule_half_height * scale
    return np.hypot(around, z - np.clip(z, radius, radius + length)) - radius


def _march(shape, scale, origins, directions, start=0.0):
    """Distance at which each ray comes within 1e-4 of the shape, else infinity."""
    travelled = np.full(len(directions), start, np.float64)
    for _ in range(300):
        travelled += _distance_to(
            shape, scale, origins + travelled[:, None] * directions
        )
    reached = np.abs(
        _distance_to(shape, scale, origins + travelled[:, None] * directions)
    )
    return np.where((reached < 1e-4) & (travelled < 100), travelled, np.inf)


@pytest.mark.parametrize("shape", SHAPE_NAMES)
@pytest.mark.parametrize("azimuth", [-0.5, 0.2])
def test_hits_agree_with_sphere_tracing(shape, azimuth):
    origin, rays = camera_rays(SCENE, azimuth, 24, 1)
    rays = rays.reshape(-1, 3)
    distance, normals = hit_shape(SCENE, shape, 1.1, origin, rays)
    expected = _march(shape, 1.1, origin.astype(float), rays.astype(float))
    # A ray may graze the outline within the marcher's tolerance.
    disagree = np.isfinite(distance) != np.isfinite(expected)
    assert disagree.mean() < 0.005
    both = np.isfinite(distance) & np.isfinite(expected)
    assert both.sum() > 30
    np.testing.assert_allclose(distance[both], expected[both], atol=5e-3)
    points = origin + distance[both, None] * rays[both]
    step = 1e-3
    gradient = np.stack(
        [
            _distance_to(shape, 1.1, points + step * axis)
            - _distance_to(shape, 1.1, points - step * axis)
            for axis in np.eye(3)
        ],
        axis=1,
    ) / (2 * step)
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    # Edges have no normal: allow a few rays to land on one.
    agreement = np.sum(gradient * normals[both], axis=1)
    assert np.mean(agreement > 0.999) > 0.95


@pytest.mark.parametrize("shape", SHAPE_NAMES)
def test_shadow_is_where_the_object_hides_the_lamp(shape):
    buffers = geometry_buffers(32, np.array([1.25]), np.array([0.3]), 1)
    light = buffers[0, SHAPE_NAMES.index(shape), 0]
    origin, rays = camera_rays(SCENE, 0.3, 32, 1)
    rays = rays.reshape(-1, 3).astype(float)
    floor = light[:, FLOOR] > 0
    points = origin + (-origin[2] / rays[floor, 2])[:, None] * rays[floor]
    to_lamp = np.array(SCENE.lamp_position) - points
    to_lamp /= np.linalg.norm(to_lamp, axis=1, keepdims=True)
    hidden = np.isfinite(_march(shape, 1.25, points, to_lamp, start=1e-2))
    dark = np.isclose(light[floor, FLOOR], SCENE.ambient, atol=1e-5)
    assert hidden.sum() > 5
    assert np.mean(hidden != dark) < 0.01


def test_every_ray_sees_exactly_one_surface():
    light = geometry_buffers(16, np.array([0.75, 1.25]), np.array([-0.5, 0.5]), 1)
    assert np.all(np.sum(light > 0, axis=-1) == 1)
    assert np.all(np.isin(light[..., SKY], [0, 1]))


def test_walls_end_at_the_projected_height():
    light = geometry_buffers(64, np.array([1.0]), np.array([0.0]), 1)[0, 0, 0]
    rows = light.reshape(64, 64, 4)
    depth = SCENE.camera_distance + SCENE.room_half_width
    for surface, height in ((WALL, SCENE.wall_height), (FLOOR, 0.0)):
        angle = np.arctan2(height - SCENE.camera_height, depth)
        slope = np.tan(angle + SCENE.camera_pitch)
        expected = 32 - 32 * SCENE.focal_length * slope
        first = np.argmax(rows[:, 2, surface] > 0)
        assert abs(first - expected) <= 1


def test_supersampling_converges_to_the_finer_image():
    coarse, fine = (
        geometry_buffers(16, np.array([1.0]), np.array([0.2]), rays)[0, 2, 0]
        for rays in (3, 9)
    )
    single = geometry_buffers(16, np.array([1.0]), np.array([0.2]), 1)[0, 2, 0]
    assert np.abs(coarse - fine).mean() < 0.5 * np.abs(single - fine).mean()
    partly = (fine[:, OBJECT] > 0) & (fine[:, FLOOR] + fine[:, WALL] > 0)
    assert partly.sum() > 5


def test_unknown_shape_is_named():
    with pytest.raises(ValueError, match="teapot"):
        hit_shape(SCENE, "teapot", 1.0, np.zeros(3), np.ones((1, 3)))
