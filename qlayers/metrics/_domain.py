"""Where a score is known to mislead: what a result tells its reader."""

from collections.abc import Callable

import numpy as np

from qlayers.metrics._checks import FloatArray
from qlayers.metrics._sample import Sample

# Shares of a source's entropy (or of accuracy) that are worth a note.
_NOTABLE = 0.05
_MOST_FREQUENT = 0.8
_COPY = 0.999
# Rows that correlations of latents are taken over: copies show in any of them.
_ROWS = 2_000

_KINDS = {
    "information": ("dependence", "few", "copies"),
    "gap": ("dependence", "few", "copies"),
    "trees": ("dependence", "rare", "copies"),
    "accuracy": ("many_values", "rare", "copies"),
    "correlation": ("dependence", "copies"),
    "robustness": ("small_groups",),
}


def domain_notes(sample: Sample, kind: str, num_bins: int | None = None) -> list[str]:
    """Notes on data outside the domain in which a score means what it says.

    Args:
        sample: What was scored.
        kind: Kind of the score: `"information"`, `"gap"`, `"trees"`, `"accuracy"`,
            `"correlation"` or `"robustness"`.
        num_bins: Bins per latent of a histogram; None takes values as symbols.
    """
    if not sample.varying.any():
        return []
    checks: dict[str, Callable[[], str]] = {
        "dependence": lambda: _dependence(sample),
        "few": lambda: _few_samples(sample, num_bins),
        "rare": lambda: _rare_classes(sample),
        "copies": lambda: _copies(sample),
        "many_values": lambda: _many_values(sample),
        "small_groups": lambda: _small_groups(sample),
    }
    notes = [checks[name]() for name in _KINDS[kind]]
    return [note for note in notes if note]


def _normalized(sources: FloatArray, sample: Sample) -> FloatArray:
    return sources / sample.source_entropy[sample.varying][:, None]


def _dependence(sample: Sample) -> str:
    """Correlated sources: a perfect latent knows several of them."""
    varying = sample.varying
    if varying.sum() < 2:
        return ""
    shared = sample.shared_information[np.ix_(varying, varying)]
    sizes = sample.source_symbols[:, varying].max(axis=0)
    # What the histogram finds between independent columns.
    shared = shared - np.outer(sizes, sizes) / (2 * sample.size)
    share = _normalized(shared, sample)
    np.fill_diagonal(share, 0.0)
    if share.max() < _NOTABLE:
        return ""
    first, second = np.unravel_index(share.argmax(), share.shape)
    names = np.flatnonzero(sample.varying)
    matrix = np.clip(share, 0, 1)
    np.fill_diagonal(matrix, 1.0)
    width = len(matrix)
    # Rows are sources, columns those latents; modularity looks at each latent.
    best = (matrix.max(axis=0) / matrix.sum(axis=0) - 1 / width) / (1 - 1 / width)
    return (
        f"sources {names[first]} and {names[second]} are dependent (they share "
        f"{share.max():.0%} of an entropy): latents equal to the sources would have a "
        f"modularity of about {best.mean():.2f} (InfoM), not 1"
    )


def _few_samples(sample: Sample, num_bins: int | None) -> str:
    """Histograms of few samples find information where there is none."""
    codes = sample.latent_bins(num_bins)
    cells = np.array([len(np.unique(column)) - 1 for column in codes.T])
    classes = sample.source_symbols[:, sample.varying].max(axis=0)
    bias = np.outer(classes, cells) / (2 * sample.size)
    entropy = sample.source_entropy[sample.varying][:, None]
    excess = np.minimum(bias / entropy, 1.0)
    if excess.mean() < _NOTABLE:
        return ""
    return (
        f"{sample.size} samples are few for these histograms: information is too high "
        f"by about {excess.mean():.0%} of a source's entropy (at most "
        f"{excess.max():.0%})"
    )


def _rare_classes(sample: Sample) -> str:
    counts = [np.bincount(column) for column in sample.source_symbols.T]
    frequent = np.array([count.max() / sample.size for count in counts])
    frequent[~sample.varying] = 0.0
    worst = int(frequent.argmax())
    if frequent[worst] < _MOST_FREQUENT:
        return ""
    return (
        f"source {worst} has one value in {frequent[worst]:.0%} of the samples: "
        f"guessing it has an accuracy of {frequent[worst]:.2f} without any latent"
    )


def _many_values(sample: Sample) -> str:
    largest = int(sample.source_symbols.max()) + 1
    if largest <= 2:
        return ""
    return (
        f"sources of up to {largest} values: a linear classifier of one latent cannot "
        "single out values in the middle, so that latents equal to the sources score "
        "well below 1"
    )


def _copies(sample: Sample) -> str:
    rows = sample.real_latents[:_ROWS]
    rows = rows - rows.mean(axis=0)
    length = np.sqrt((rows**2).sum(axis=0))
    live = length > 1e-12 * max(float(length.max()), 1e-300)
    unit = rows[:, live] / length[live]
    alike = np.triu(np.abs(unit.T @ unit), 1)
    pairs = np.argwhere(alike > _COPY)
    if not len(pairs):
        return ""
    names = np.flatnonzero(live)
    first, second = (int(names[index]) for index in pairs[0])
    return (
        f"{len(pairs)} pairs of latents are copies ({first} and {second}): gaps and "
        "compactness fall to 0 for a source that two latents know alike, and trees "
        "share its importance by chance"
    )


def _small_groups(sample: Sample) -> str:
    smallest = min(
        int(np.bincount(column).min())
        for column in sample.source_symbols[:, sample.varying].T
    )
    if smallest >= 20:
        return ""
    return (
        f"a source has a value with {smallest} samples: latents move less among so "
        "few, and robustness is too high"
    )
