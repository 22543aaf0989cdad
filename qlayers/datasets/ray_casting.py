"""Ray casting of a room with one object: the geometry behind `mini_shapes3d`.

The scene is a square room without ceiling, seen by a camera that moves on an
arc around an object in the middle of the floor. Nothing here
knows colours: a pixel is described by *how much* light reaches the eye from the
floor, from the walls, from the object, and how much of it is sky. Colouring is then a
product with three palette colours, see `mini_shapes3d`.

The constants of `Scene` were fitted to 25 published frames of Shapes3D (camera and room
from the edges between sky, wall and floor, lights and object sizes from the pixels).
"""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]

SHAPE_NAMES = ("cube", "cylinder", "sphere", "capsule")

FLOOR, WALL, OBJECT, SKY = range(4)

# Far beyond the room, yet small enough to stay finite in float32 products.
_FAR = np.float32(1e6)


def dot(first: FloatArray, second: FloatArray) -> FloatArray:
    """Scalar product over the last axis; several times faster than `np.sum`."""
    return np.einsum("...i,...i->...", first, second)


def unit(vectors: FloatArray) -> FloatArray:
    return vectors / np.sqrt(dot(vectors, vectors))[..., None]


@dataclasses.dataclass(frozen=True)
class Scene:
    """Measures of the room; the object stands at the origin and z points upwards.

    Args:
        camera_distance: Horizontal distance from the camera to the object.
        camera_height: Height of the camera over the floor.
        camera_pitch: Downward tilt of the camera, radians.
        focal_length: Focal length in half widths of the image.
        room_half_width: Distance from the object to each wall.
        wall_height: Height of the walls.
        lamp_position: Position of the lamp, a spotlight aimed at the origin.
        lamp: Strength of the lamp, weighted by the cosine of incidence.
        lamp_focus: Exponent of the spotlight's fall-off away from its axis.
        headlight: Strength of the light that shines along the camera's view.
        ambient: Light that reaches every surface, also inside the shadow.
        shine: Strength of the lamp's highlight on the object.
        shine_exponent: Sharpness of the highlight.
        cube_half_width: Half edge of the cube at scale 1.
        cylinder_radius: Radius of the cylinder at scale 1.
        cylinder_half_height: Half its height.
        sphere_radius: Radius of the sphere at scale 1.
        capsule_radius: Radius of the capsule at scale 1.
        capsule_half_height: Half the length of its straight part.
    """

    camera_distance: float = 10.0
    camera_height: float = 2.81
    camera_pitch: float = 0.0076
    focal_length: float = 2.36
    room_half_width: float = 12.75
    wall_height: float = 7.44
    lamp_position: tuple[float, float, float] = (-4.42, 2.16, 21.83)
    lamp: float = 0.8
    lamp_focus: float = 7.55
    headlight: float = 0.6
    ambient: float = 0.346
    shine: float = 0.263
    shine_exponent: float = 2.96
    cube_half_width: float = 1.245
    cylinder_radius: float = 1.306
    cylinder_half_height: float = 1.374
    sphere_radius: float = 1.495
    capsule_radius: float = 1.104
    capsule_half_height: float = 1.224


def camera_rays(
    scene: Scene, azimuth: float, image_size: int, supersampling: int
) -> tuple[FloatArray, FloatArray]:
    """Casts a regular grid of rays through every pixel.

    Args:
        scene: The measures of the room.
        azimuth: Angle of the camera around the object, radians.
        image_size: Side of the square image in pixels.
        supersampling: Rays per pixel along each side.

    Returns:
        The camera position (3,) and unit directions (pixels, rays per pixel, 3).
    """
    side = image_size * supersampling
    steps = (np.arange(side) + 0.5) / side * 2.0 - 1.0
    across, down = np.meshgrid(steps, steps)
    sine, cosine = np.sin(azimuth), np.cos(azimuth)
    pitch_sine, pitch_cosine = np.sin(scene.camera_pitch), np.cos(scene.camera_pitch)
    ahead = scene.focal_length * pitch_cosine - down * pitch_sine
    up = -scene.focal_length * pitch_sine - down * pitch_cosine
    directions = np.stack(
        [cosine * across - sine * ahead, sine * across + cosine * ahead, up], axis=-1
    )
    blocks = (
        unit(directions)
        .reshape(image_size, supersampling, image_size, supersampling, 3)
        .transpose(0, 2, 1, 3, 4)
    )
    distance = scene.camera_distance
    origin = np.array([distance * sine, -distance * cosine, scene.camera_height])
    return (
        origin.astype(np.float32),
        blocks.reshape(image_size**2, supersampling**2, 3).astype(np.float32),
    )


def hit_room(
    scene: Scene, origin: FloatArray, directions: FloatArray
) -> tuple[npt.NDArray[np.int8], FloatArray, FloatArray]:
    """Finds what each ray would meet in the empty room.

    Returns:
        Surface (`FLOOR`, `WALL` or `SKY`), the point that was hit and its normal.
    """
    half = np.float32(scene.room_half_width)
    with np.errstate(divide="ignore"):
        to_sides = (np.sign(directions[..., :2]) * half - origin[:2]) / directions[
            ..., :2
        ]
        to_floor = np.where(
            directions[..., 2] < 0, -origin[2] / directions[..., 2], _FAR
        )
    wall_axis = (to_sides[..., 1] < to_sides[..., 0]).astype(np.int8)
    to_wall = np.minimum(to_sides[..., 0], to_sides[..., 1])
    distance = np.minimum(to_wall, to_floor)
    points = origin + distance[..., None] * directions
    surface = np.where(to_floor < to_wall, FLOOR, WALL).astype(np.int8)
    surface[(surface == WALL) & (points[..., 2] > scene.wall_height)] = SKY
    normals = np.zeros_like(points)
    normals[..., 2] = surface == FLOOR
    for axis in (0, 1):
        faces = (surface == WALL) & (wall_axis == axis)
        normals[..., axis] = np.where(faces, -np.sign(directions[..., axis]), 0)
    return surface, points, normals


def hit_shape(
    scene: Scene, shape: str, scale: float, origins: FloatArray, directions: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Intersects rays with the object.

    Args:
        scene: The measures of the room.
        shape: One of `SHAPE_NAMES`.
        scale: Size of the object.
        origins: (3,) or (n, 3).
        directions: Unit vectors (n, 3).

    Returns:
        Distance (n,), `inf` where the ray misses, and the outward normal (n, 3).
    """
    if shape == "cube":
        half = scene.cube_half_width * scale
        return _hit_box(origins, directions, half)
    if shape == "cylinder":
        radius, half = scene.cylinder_radius * scale, scene.cylinder_half_height * scale
        return hit_cylinder(origins, directions, radius, 2 * half)
    if shape == "sphere":
        radius = scene.sphere_radius * scale
        return _hit_sphere(origins, directions, radius, radius)
    if shape == "capsule":
        radius, half = scene.capsule_radius * scale, scene.capsule_half_height * scale
        return _hit_capsule(origins, directions, radius, 2 * half)
    raise ValueError(f"Unknown shape {shape!r}; the shapes are {SHAPE_NAMES}.")


def _hit_box(
    origins: FloatArray, directions: FloatArray, half: float
) -> tuple[FloatArray, FloatArray]:
    """Slab test against the cube that stands on the floor."""
    centre = np.array([0, 0, half], np.float32)
    safe = np.where(np.abs(directions) < 1e-9, np.float32(1e-9), directions)
    first = (centre - half - origins) / safe
    second = (centre + half - origins) / safe
    entries = np.minimum(first, second)
    leaves = np.maximum(first, second)
    entry = np.maximum(np.maximum(entries[:, 0], entries[:, 1]), entries[:, 2])
    leave = np.minimum(np.minimum(leaves[:, 0], leaves[:, 1]), leaves[:, 2])
    hit = (entry <= leave) & (entry > 0)
    normals = np.where(entries == entry[:, None], -np.sign(directions), 0)
    return np.where(hit, entry, np.inf).astype(np.float32), normals


def _first_root(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Smaller root of a t^2 + 2 b t + c, `inf` where there is none in front."""
    discriminant = b * b - a * c
    root = (-b - np.sqrt(np.maximum(discriminant, 0))) / np.maximum(a, 1e-12)
    return np.where((discriminant > 0) & (root > 0), root, np.inf).astype(np.float32)


def _hit_sphere(
    origins: FloatArray, directions: FloatArray, radius: float, height: float
) -> tuple[FloatArray, FloatArray]:
    """Sphere whose centre is at `height` over the origin."""
    offset = origins - np.array([0, 0, height], np.float32)
    b = dot(offset, directions)
    c = dot(offset, offset) - np.float32(radius) ** 2
    distance = _first_root(np.ones(1, np.float32), b, c)
    finite = np.where(np.isfinite(distance), distance, 0)
    normals = (offset + finite[..., None] * directions) / np.float32(radius)
    return distance, normals


def _hit_tube(
    origins: FloatArray, directions: FloatArray, radius: float, low: float, high: float
) -> tuple[FloatArray, FloatArray]:
    """Side of an upright cylinder between two heights."""
    flat, start = directions[..., :2], np.broadcast_to(origins, directions.shape)
    a = dot(flat, flat)
    b = dot(start[..., :2], flat)
    c = dot(start[..., :2], start[..., :2]) - np.float32(radius) ** 2
    distance = _first_root(a, b, c)
    finite = np.where(np.isfinite(distance), distance, 0)
    points = start + finite[..., None] * directions
    inside = (points[..., 2] >= low) & (points[..., 2] <= high)
    normals = points / np.float32(radius)
    normals[..., 2] = 0
    return np.where(inside, distance, np.inf).astype(np.float32), normals


def _nearer(
    first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Keeps, ray by ray, the hit that comes first."""
    closer = second[0] < first[0]
    return (
        np.where(closer, second[0], first[0]),
        np.where(closer[..., None], second[1], first[1]),
    )


def hit_cylinder(
    origins: FloatArray, directions: FloatArray, radius: float, height: float
) -> tuple[FloatArray, FloatArray]:
    """Upright cylinder with a lid; its bottom rests on the floor, never seen."""
    start = np.broadcast_to(origins, directions.shape)
    falling = np.where(np.abs(directions[..., 2]) < 1e-9, 1e-9, directions[..., 2])
    distance = (np.float32(height) - start[..., 2]) / falling
    points = start[..., :2] + distance[..., None] * directions[..., :2]
    on_lid = (distance > 0) & (dot(points, points) <= radius**2)
    lid = (
        np.where(on_lid, distance, np.inf).astype(np.float32),
        np.broadcast_to(np.array([0, 0, 1], np.float32), directions.shape),
    )
    return _nearer(_hit_tube(origins, directions, radius, 0.0, height), lid)


def _hit_capsule(
    origins: FloatArray, directions: FloatArray, radius: float, length: float
) -> tuple[FloatArray, FloatArray]:
    """Tube with a half sphere at each end, standing on the lower one."""
    tube = _hit_tube(origins, directions, radius, radius, radius + length)
    lower = _hit_sphere(origins, directions, radius, radius)
    upper = _hit_sphere(origins, directions, radius, radius + length)
    return _nearer(tube, _nearer(lower, upper))


def shade(
    scene: Scene,
    points: FloatArray,
    normals: FloatArray,
    directions: FloatArray,
    azimuth: float,
    lit: npt.NDArray[np.bool_] | bool = True,
    shiny: bool = False,
) -> FloatArray:
    """Brightness of surface points: ambient light, lamp and headlight.

    Args:
        scene: The measures of the room.
        points: Where the rays hit, (n, 3).
        normals: Surface normals, (n, 3).
        directions: Directions of the rays, (n, 3).
        azimuth: Angle of the camera, along which the headlight shines.
        lit: Where the lamp is not hidden by the object.
        shiny: Adds the lamp's highlight.

    Returns:
        Brightness (n,); 1 is the full palette colour, more than 1 saturates.
    """
    position = np.asarray(scene.lamp_position, np.float32)
    to_lamp = unit(position - points)
    lamp = np.maximum(dot(normals, to_lamp), 0) * scene.lamp
    if shiny:
        glint = np.maximum(dot(normals, unit(to_lamp - directions)), 0)
        lamp += scene.shine * glint**scene.shine_exponent
    axis = position / np.linalg.norm(position)
    lamp *= np.maximum(to_lamp @ axis, 0) ** scene.lamp_focus
    forward = np.array([-np.sin(azimuth), np.cos(azimuth), 0], np.float32)
    head = np.maximum(-(normals @ forward), 0) * scene.headlight
    return (scene.ambient + np.where(lit, lamp, 0) + head).astype(np.float32)
