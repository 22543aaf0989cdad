"""The 480 geometry buffers from which `mini_shapes3d` composes its images."""

import dataclasses

import numpy as np
import numpy.typing as npt

from qlayers.datasets.ray_casting import (
    FLOOR,
    OBJECT,
    SHAPE_NAMES,
    SKY,
    WALL,
    FloatArray,
    Scene,
    camera_rays,
    dot,
    hit_cylinder,
    hit_room,
    hit_shape,
    shade,
    unit,
)


def _ray_mean(light: FloatArray) -> FloatArray:
    """Averages the rays of each pixel."""
    return np.einsum("prk->pk", light) / np.float32(light.shape[1])


def geometry_buffers(
    image_size: int,
    scales: npt.NDArray[np.float64],
    azimuths: npt.NDArray[np.float64],
    supersampling: int,
    scene: Scene | None = None,
) -> FloatArray:
    """Casts every combination of scale, shape and azimuth.

    Rays that can meet neither the largest object nor its shadow are traced once per
    azimuth; only the others are traced again for each object.

    Args:
        image_size: Side of the square images.
        scales: Sizes of the object.
        azimuths: Camera angles, radians.
        supersampling: Rays per pixel along each side.
        scene: The measures of the room; the fitted ones by default.

    Returns:
        Brightness of floor, wall and object and the share of sky in each pixel,
        (scales, shapes, azimuths, pixels, 4).
    """
    scene = scene or Scene()
    buffers = np.empty(
        (len(scales), len(SHAPE_NAMES), len(azimuths), image_size**2, 4), np.float32
    )
    for which, azimuth in enumerate(azimuths):
        origin, rays = camera_rays(scene, float(azimuth), image_size, supersampling)
        room = _cast_room(scene, origin, rays, float(azimuth))
        buffers[:, :, which] = _ray_mean(room.light)
        for j, shape in enumerate(SHAPE_NAMES):
            near = _near_object(
                scene, shape, float(np.max(scales)), origin, rays, room.points
            )
            part = room.select(near)
            for i, scale in enumerate(scales):
                light = _add_object(
                    scene, shape, float(scale), origin, rays[near], part, float(azimuth)
                )
                buffers[i, j, which, near] = _ray_mean(light)
    return buffers


@dataclasses.dataclass(frozen=True)
class _RoomView:
    """The empty room as one camera sees it; leading axes are pixels and rays."""

    surface: npt.NDArray[np.int8]
    points: FloatArray
    light: FloatArray

    def select(self, pixels: npt.NDArray[np.bool_]) -> "_RoomView":
        return _RoomView(self.surface[pixels], self.points[pixels], self.light[pixels])


def _cast_room(
    scene: Scene, origin: FloatArray, rays: FloatArray, azimuth: float
) -> _RoomView:
    surface, points, normals = hit_room(scene, origin, rays)
    brightness = shade(scene, points, normals, rays, azimuth)
    light = np.zeros((*surface.shape, 4), np.float32)
    for kind in (FLOOR, WALL):
        light[..., kind] = np.where(surface == kind, brightness, 0)
    light[..., SKY] = surface == SKY
    return _RoomView(surface, points, light)


def _size_of(scene: Scene, shape: str) -> tuple[float, float]:
    """Radius and height of the upright cylinder that contains a shape at scale 1."""
    return {
        "cube": (scene.cube_half_width * np.sqrt(2), 2 * scene.cube_half_width),
        "cylinder": (scene.cylinder_radius, 2 * scene.cylinder_half_height),
        "sphere": (scene.sphere_radius, 2 * scene.sphere_radius),
        "capsule": (
            scene.capsule_radius,
            2 * (scene.capsule_half_height + scene.capsule_radius),
        ),
    }[shape]


def _near_object(
    scene: Scene,
    shape: str,
    scale: float,
    origin: FloatArray,
    rays: FloatArray,
    points: FloatArray,
) -> npt.NDArray[np.bool_]:
    """Marks the pixels that the object at this scale or its shadow may touch."""
    radius, height = (scale * size for size in _size_of(scene, shape))
    seen, _ = hit_cylinder(origin, rays.reshape(-1, 3), 1.01 * radius, 1.01 * height)
    seen = seen.reshape(rays.shape[:2])
    # The shadow lies around the segment from the foot of the object to where the
    # lamp projects its top.
    lamp = np.asarray(scene.lamp_position, np.float32)
    stretch = lamp[2] / (lamp[2] - height)
    top = (1 - stretch) * lamp[:2]
    along = np.clip(points[..., :2] @ top / (top @ top), 0, 1)
    aside = points[..., :2] - along[..., None] * top
    shadowed = dot(aside, aside) < (radius * stretch) ** 2
    return np.any(np.isfinite(seen) | shadowed, axis=1)


def _add_object(
    scene: Scene,
    shape: str,
    scale: float,
    origin: FloatArray,
    rays: FloatArray,
    room: _RoomView,
    azimuth: float,
) -> FloatArray:
    """Puts the object and its shadow into a part of the empty room."""
    directions = rays.reshape(-1, 3)
    light = room.light.reshape(-1, 4).copy()
    distance, normals = hit_shape(scene, shape, scale, origin, directions)
    hit = np.isfinite(distance)
    _darken_floor(scene, shape, scale, room, ~hit, light)
    points = origin + distance[hit, None] * directions[hit]
    light[hit] = 0
    light[hit, OBJECT] = shade(
        scene, points, normals[hit], directions[hit], azimuth, shiny=True
    )
    return light.reshape(*rays.shape[:2], 4)


def _darken_floor(
    scene: Scene,
    shape: str,
    scale: float,
    room: _RoomView,
    visible: npt.NDArray[np.bool_],
    light: FloatArray,
) -> None:
    """Takes the lamp away from the floor points that the object hides from it."""
    floor = np.flatnonzero((room.surface.ravel() == FLOOR) & visible)
    points = room.points.reshape(-1, 3)[floor]
    to_lamp = unit(np.asarray(scene.lamp_position, np.float32) - points)
    hidden, _ = hit_shape(scene, shape, scale, points, to_lamp)
    # The floor faces away from the headlight's horizontal beam: ambient remains.
    light[floor[np.isfinite(hidden)], FLOOR] = scene.ambient
