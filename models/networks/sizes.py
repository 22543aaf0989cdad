"""Checks and arithmetic on image sizes and layer widths that all networks share."""

from collections.abc import Sequence

from qlayers.checks import check_count, check_number

SMALLEST_SIDE = 4


def check_image_shape(
    image_shape: Sequence[int], multiple_of: int = 1, at_least: int = 1
) -> tuple[int, int, int]:
    """Returns `(height, width, channels)` as a tuple, or raises if it does not fit."""
    if len(image_shape) != 3:
        raise ValueError(
            "`image_shape` must be (height, width, channels). "
            f"Received: {tuple(image_shape)}."
        )
    height, width, channels = (check_count("image_shape", s) for s in image_shape)
    if height % multiple_of or width % multiple_of or min(height, width) < at_least:
        raise ValueError(
            f"Height and width of `image_shape` must be multiples of {multiple_of} "
            f"and at least {at_least}. Received: {tuple(image_shape)}. Resize the "
            "images."
        )
    return height, width, channels


def count_stages(image_shape: Sequence[int], at_least: int = 1) -> int:
    """How often an image is halved until its shorter side is 4 pixels: 64 -> 4.

    Args:
        image_shape: `(height, width, channels)`.
        at_least: The fewest stages the network is made of.
    """
    height, width, _ = check_image_shape(image_shape)
    shorter = min(height, width)
    stages = max((shorter // SMALLEST_SIDE).bit_length() - 1, 0)
    too_few = stages < at_least
    uneven = shorter != SMALLEST_SIDE * 2**stages or max(height, width) % 2**stages
    if too_few or uneven:
        first = SMALLEST_SIDE * 2**at_least
        raise ValueError(
            "This network halves the image down to a shorter side of "
            f"{SMALLEST_SIDE} pixels in at least {at_least} steps: the shorter side "
            f"must be {first}, {2 * first}, {4 * first}, ... and the longer one a "
            f"multiple of that over {SMALLEST_SIDE}. Received `image_shape` "
            f"{tuple(image_shape)}. Resize the images."
        )
    return stages


def smallest_map(image_shape: Sequence[int]) -> tuple[int, int]:
    """Height and width of the feature map after all halvings."""
    factor = 2 ** count_stages(image_shape)
    return image_shape[0] // factor, image_shape[1] // factor


def scale_width(channels: int, width: float) -> int:
    """The paper's number of channels or units times the width multiplier."""
    return max(1, round(channels * check_number("width", width, exclusive=True)))
