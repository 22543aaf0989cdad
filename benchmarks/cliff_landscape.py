"""Cliff's loss over all pairs of projections of two latents, as a picture.

    python -m benchmarks.cliff_landscape     # writes docs/images/cliff_landscape.png

Two correlated latents have a density with steps along both axes. They are projected
onto two directions; the univariate term of the criterion must be least at 0 and 90
degrees, the bivariate term at the pair of both (Barin-Pacela et al. 2025, appendix D).
"""

from pathlib import Path
from typing import Any

import numpy as np

PICTURE = (
    Path(__file__).resolve().parents[1] / "docs" / "images" / "cliff_landscape.png"
)
NUM_CONDITIONS = 40


def grid_density(num_samples: int = 2000) -> np.ndarray:
    """Samples of a density that is constant on the cells of a 3 x 3 grid."""
    generator = np.random.default_rng(1)
    edges = np.array([0.0, 0.9, 2.1, 3.6])
    probability = np.array([[0.30, 0.05, 0.02], [0.04, 0.25, 0.06], [0.02, 0.04, 0.22]])
    cell = generator.choice(9, size=num_samples, p=probability.ravel())
    place = np.stack([cell // 3, cell % 3], axis=1)
    z = edges[place] + np.diff(edges)[place] * generator.uniform(size=place.shape)
    return z - z.mean(0)


def projected(z: np.ndarray, *angles: float) -> np.ndarray:
    """The latents along directions given in degrees, `(samples, len(angles))`."""
    radians = np.deg2rad(angles)
    return (z @ np.stack([np.cos(radians), np.sin(radians)])).astype("float32")


def univariate(z: np.ndarray, angle: float) -> float:
    """Entropy of the slopes of the density of one projection."""
    from qlayers.functional import cliff_terms

    values = cliff_terms(projected(z, angle), terms=["univariate"])
    return float(values["univariate"])


def bivariate(z: np.ndarray, first: float, second: float) -> float:
    """Divergence between the conditional slopes of two projections."""
    from qlayers.functional import cliff_terms

    values = cliff_terms(
        projected(z, first, second),
        conditions=np.arange(NUM_CONDITIONS),
        terms=["bivariate"],
    )
    return float(values["bivariate"])


def landscapes(z: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Univariate term of each angle, and bivariate term of each pair of angles."""
    one = np.array([univariate(z, angle) for angle in angles])
    two = np.zeros((len(angles), len(angles)))
    for row, first in enumerate(angles):
        for column in range(row, len(angles)):
            two[row, column] = two[column, row] = bivariate(z, first, angles[column])
    return one, two


def draw(z: np.ndarray, angles: np.ndarray, path: Path) -> None:
    """Draws the latents and the three landscapes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    one, two = landscapes(z, angles)
    figure, ((a, b), (c, d)) = plt.subplots(2, 2, figsize=(10, 8.6))
    a.scatter(*z.T, s=3, alpha=0.5, color="#33557a")
    a.set(title="latents", xlabel="$z_1$", ylabel="$z_2$", aspect="equal")
    b.plot(angles, one, color="#33557a")
    b.set(title="univariate, one angle", xlabel="angle (degrees)", ylabel="entropy")
    b.set_xticks(range(0, 181, 45))
    for axis, values, title in (
        (c, one[:, None] + one[None, :], "univariate, two angles"),
        (d, two, "bivariate, two angles"),
    ):
        _draw_map(axis, angles, values, title)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _draw_map(axis: Any, angles: np.ndarray, values: np.ndarray, title: str) -> None:
    mesh = axis.pcolormesh(angles, angles, values, shading="nearest", cmap="viridis")
    rows, columns = np.where(values <= values.min() + 1e-9)
    axis.scatter(angles[columns], angles[rows], marker="x", color="red", s=60)
    axis.set(
        title=f"{title} (x: least)",
        xlabel="angle of the first (degrees)",
        ylabel="angle of the second (degrees)",
        aspect="equal",
    )
    axis.set_xticks(range(0, 181, 45))
    axis.set_yticks(range(0, 181, 45))
    axis.figure.colorbar(mesh, ax=axis)


def main() -> None:
    angles = np.arange(0.0, 181.0, 3.0)
    draw(grid_density(8000), angles, PICTURE)
    print(f"Wrote {PICTURE}")


if __name__ == "__main__":
    main()
