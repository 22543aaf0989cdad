"""Scores in situations whose truth is known, and what they say about themselves."""

import numpy as np
import pytest

from qlayers.metrics import irs, mig, modularity
from qlayers.metrics.stress import QUESTIONS, situations, stress, stress_table
from tests.metrics.samples import full_grid, noisy


@pytest.fixture(scope="module")
def rows():
    return {(row.situation, row.score): row for row in stress(samples=600)}


def test_at_least_ten_scores_and_twelve_situations(rows):
    assert len({situation for situation, _ in rows}) >= 12
    assert len({score for _, score in rows}) >= 10
    assert all(np.isfinite(row.value) for row in rows.values())


@pytest.mark.parametrize("situation", ["perfect", "permuted"])
def test_scores_are_right_about_perfect_latents(rows, situation):
    for score in QUESTIONS:
        if score not in ("SAP", "UDR", "DCI-ES, E"):
            assert rows[situation, score].value > 0.95, score
    # Chance correlations of 600 samples, squared maximum over sum; trees of depth 1
    # cannot tell six values apart.
    assert rows[situation, "UDR"].value > 0.8
    assert rows[situation, "DCI-ES, E"].value > 0.7


def test_noise_is_no_structure(rows):
    for score in ("InfoE", "MIG", "SAP", "MCC", "MCC (Pearson)"):
        assert rows["noise", score].value < 0.2, score


@pytest.mark.parametrize(
    "situation, score, note",
    [
        ("correlated sources", "modularity", "dependent"),
        ("correlated sources", "MIG", "dependent"),
        ("correlated sources", "InfoM", "dependent"),
        ("rare classes, noise", "DCI-I", "guessing"),
        ("more features than samples", "modularity", "few"),
        ("perfect", "SAP", "in the middle"),
        ("noise", "IRS", "shuffled"),
        ("noise", "DCI-ES, E", "better than guessing"),
        ("rotated by 45°", "UDR", "same mistake"),
    ],
)
def test_a_widely_used_score_misleads_and_says_so(rows, situation, score, note):
    row = rows[situation, score]
    assert row.misleads
    assert any(note in text for text in row.notes)


def test_nothing_is_noted_about_good_data(rows):
    for situation in ("perfect", "permuted"):
        for score in QUESTIONS:
            if score not in ("SAP", "UDR"):
                assert rows[situation, score].notes == (), score


def test_the_note_on_dependence_knows_the_score_of_the_sources():
    generator = np.random.default_rng(1)
    first = generator.integers(0, 4, 20_000)
    second = np.where(generator.random(20_000) < 0.7, first, 3 - first)
    sources = np.stack([first, second], axis=1)
    from qlayers.metrics import infomec

    result = infomec(sources, sources.astype(float), discrete_latents=True)
    note = next(note for note in result.notes if "dependent" in note)
    said = float(note.split("about ")[1].split(" ")[0])
    assert result.modularity == pytest.approx(said, abs=0.02)


def test_the_note_on_few_samples_knows_the_bias():
    generator = np.random.default_rng(2)
    sources = generator.integers(0, 5, (200, 4))
    latents = generator.normal(size=(200, 10))
    result = modularity(sources, latents)
    note = next(note for note in result.notes if "few" in note)
    said = float(note.split("about ")[1].split("%")[0]) / 100
    # Independent: all information found is bias.
    found = result.mutual_information / np.log(5)
    assert found.mean() == pytest.approx(said, rel=0.35)
    assert not any("few" in note for note in mig(*noisy(samples=8000)).notes)


def test_table_has_a_line_for_every_situation():
    rows = stress(["MIG", "MCC"], samples=200)
    table = stress_table(rows).splitlines()
    assert len(table) == 2 + len(situations(samples=50))
    assert table[0] == "| situation | MIG | MCC |"
    with pytest.raises(ValueError, match="scores"):
        stress(["MAG"])


def irs_by_hand(sources, latents, quantile):
    """The definition, one pair at a time."""
    largest = np.abs(latents - latents.mean(0)).max(0)
    rows = []
    for z, top in zip(latents.T, largest, strict=True):
        row = []
        for s in sources.T:
            held = [
                np.percentile(np.abs(z[s == v] - z[s == v].mean()), 100 * quantile)
                for v in np.unique(s)
            ]
            row.append(1 - np.mean(held) / top)
        rows.append(max(row))
    return np.average(rows, weights=largest)


@pytest.mark.parametrize("quantile", [0.9, 0.99, 1.0])
def test_irs_is_its_definition(quantile):
    sources, latents = noisy((3, 5, 4), samples=500)
    expected = irs_by_hand(sources, latents, quantile)
    assert float(irs(sources, latents, quantile=quantile)) == pytest.approx(expected)


def test_irs_of_known_codes():
    grid = full_grid((4, 4), repeats=10)
    result = irs(grid, np.hstack([grid, np.ones((160, 1))]))
    assert result.irs == pytest.approx(1.0)
    assert result.source_of_latent.tolist() == [0, 1, -1]
    # z = s0 + s1 moves by 1.5 to either side while one is held, by 3 in all.
    both = irs(grid, grid.sum(axis=1, keepdims=True), quantile=1.0)
    assert both.irs == pytest.approx(0.5)
    assert irs(grid, np.ones((160, 2))).irs == 0.0
    with pytest.raises(ValueError, match="quantile"):
        irs(grid, grid, quantile=0.0)
