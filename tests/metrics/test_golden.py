"""Codes whose scores follow from the definitions by hand.

Sources cover a full grid equally often, so independence is exact and plug-in
information has no sampling error: every expected value below is derived, not measured.
"""

import dataclasses

import numpy as np
import pytest
from scipy.special import digamma

from qlayers.metrics import dci, infomec, mcc, mig, modularity, sap
from qlayers.metrics.dci import disentanglement_scores
from tests.metrics.samples import full_grid

PROTOCOLS = ("paper", "standalone", "tripod")
SOURCES = full_grid((4, 4, 4), repeats=5)


def scores(latents, sources=SOURCES, **options):
    return infomec(sources, latents, discrete_latents=True, **options)


class TestInfoMEC:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_identity(self, protocol):
        # NMI is the identity matrix: one partner has all of every row and column.
        # Scores 2kx - k^2 pick the class linearly, so the infimum of InfoE's loss is 0.
        result = scores(SOURCES.astype(float), protocol=protocol)
        np.testing.assert_allclose(result.nmi, np.eye(3), atol=1e-12)
        assert result.modularity == pytest.approx(1.0)
        assert result.compactness == pytest.approx(1.0)
        assert result.explicitness == pytest.approx(1.0, abs=1e-4)
        assert result.active.all()

    def test_permutation_moves_only_the_matrix(self):
        result = scores(SOURCES[:, [2, 0, 1]].astype(float))
        np.testing.assert_allclose(result.nmi, np.eye(3)[:, [2, 0, 1]], atol=1e-12)
        assert result.modularity == pytest.approx(1.0)
        assert result.compactness == pytest.approx(1.0)

    def test_sign_flip_and_monotone_warp_change_nothing(self):
        for latents in (-SOURCES, np.exp(SOURCES)):
            result = scores(latents.astype(float))
            np.testing.assert_allclose(result.nmi, np.eye(3), atol=1e-12)

    def test_duplicated_latent(self):
        # Source 0 has two equal partners, share 1/2; the others share 1. Of 4 latents:
        # InfoC = ((1/2 + 1 + 1)/3 - 1/4) / (1 - 1/4) = 7/9. Each latent still has one
        # source, so InfoM = 1.
        result = scores(SOURCES[:, [0, 1, 2, 0]].astype(float))
        assert result.modularity == pytest.approx(1.0)
        assert result.compactness == pytest.approx(7 / 9)

    def test_rotated_pair(self):
        # z = (s0 + s1, s0 - s1) of two bits: H(z) = 1.5 bits, H(z | s) = 1 bit, so all
        # four NMI are 1/2 and both shares are at their minimum. s = (z0 ± z1)/2 is
        # linear, so InfoE = 1.
        bits = full_grid((2, 2), repeats=50)
        rotated = np.stack([bits.sum(axis=1), bits[:, 0] - bits[:, 1]], axis=1)
        result = scores(rotated.astype(float), sources=bits)
        np.testing.assert_allclose(result.nmi, np.full((2, 2), 0.5), atol=1e-12)
        assert result.modularity == pytest.approx(0.0, abs=1e-12)
        assert result.compactness == pytest.approx(0.0, abs=1e-12)
        assert result.explicitness == pytest.approx(1.0, abs=1e-4)

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_dead_latents_do_not_count(self, protocol):
        dead = np.full((len(SOURCES), 2), 0.3)
        result = scores(np.hstack([SOURCES, dead]), protocol=protocol)
        assert result.active.tolist() == [True, True, True, False, False]
        assert result.modularity == pytest.approx(1.0)
        assert result.compactness == pytest.approx(1.0)
        np.testing.assert_array_equal(result.nmi[:, 3:], 0)

    def test_independent_noise_latent_is_left_out_and_reported(self):
        grid = full_grid((4, 4, 6), repeats=3)
        result = scores(grid.astype(float), sources=grid[:, :2])
        assert result.active.all()
        assert result.modularity == pytest.approx(1.0)
        assert np.isnan(result.modularity_per_latent[2])
        assert any("without information" in note for note in result.notes)

    def test_pure_noise(self):
        # Exactly independent latents: no ratio is defined, nothing is explained.
        grid = full_grid((4, 4, 5, 5))
        result = scores(grid[:, 2:].astype(float), sources=grid[:, :2])
        assert result.modularity == result.compactness == 0.0
        assert result.explicitness == pytest.approx(0.0, abs=1e-6)

    def test_continuous_clusters(self):
        # Separate clusters: the estimate is psi(N) - psi(N/4) (no class mixes), and
        # that of an independent source is near 0.
        generator = np.random.default_rng(0)
        latents = SOURCES + 0.1 * generator.uniform(size=SOURCES.shape)
        result = infomec(SOURCES, latents, discrete_latents=False)
        size = len(SOURCES)
        expected = (digamma(size) - digamma(size / 4)) / np.log(4)
        np.testing.assert_allclose(np.diag(result.nmi), expected, atol=1e-9)
        assert result.modularity > 0.9

    def test_half_the_information(self):
        # A latent that tells only whether the source is 0, 1 or 2, 3: 1 of 2 bits.
        result = scores(np.hstack([SOURCES[:, :1] // 2, SOURCES[:, 1:]]))
        np.testing.assert_allclose(result.nmi, np.diag([0.5, 1, 1]), atol=1e-12)
        assert result.modularity == pytest.approx(1.0)
        assert result.compactness == pytest.approx(1.0)


class TestActivity:
    # Ranges 8, 1, 0.99, 0.4 and 0; one value in ten of the last column is 8.
    RANGES = np.array([8, 1, 0.99, 0.4, 0.0])

    def active(self, protocol, discrete):
        bits = full_grid((2,), repeats=50)
        latents = bits * self.RANGES
        result = infomec(
            bits, latents, discrete_latents=discrete, protocol=protocol, seed=0
        )
        return result.active.tolist()

    def test_paper_keeps_an_eighth_for_both_kinds(self):
        expected = [True, True, False, False, False]
        assert self.active("paper", True) == expected
        assert self.active("paper", False) == expected

    def test_standalone(self):
        # Continuous: above 8/20 = 0.4, so 0.4 itself is out. Discrete: above 0.
        assert self.active("standalone", False) == [True, True, True, False, False]
        assert self.active("standalone", True) == [True, True, True, True, False]

    def test_tripod_uses_interquartile_ranges(self):
        # Half zeros and half ones: the quartiles are the ends. Continuous: above 0.8.
        assert self.active("tripod", False) == [True, True, True, False, False]
        assert self.active("tripod", True) == [True, True, True, True, False]
        # A latent that is 0 in nine samples of ten has quartiles 0 and 0.
        rare = (np.arange(100) % 10 == 0).astype(float)
        bits = full_grid((2,), repeats=50)
        latents = np.stack([bits[:, 0], rare], axis=1)
        result = infomec(bits, latents, discrete_latents=True, protocol="tripod")
        assert result.active.tolist() == [True, False]


class TestDegenerate:
    def test_no_active_latent(self):
        result = scores(np.zeros((len(SOURCES), 3)))
        assert result.scores() == pytest.approx(
            {"modularity": 0, "explicitness": 0, "compactness": 0}, abs=1e-9
        )
        assert "no latent is active" in result.notes[0]

    def test_one_active_latent(self):
        result = scores(SOURCES[:, :1].astype(float))
        assert result.modularity == pytest.approx(1.0)
        assert result.compactness == pytest.approx(1.0)
        assert any("one active latent" in note for note in result.notes)

    def test_constant_source_is_left_out(self):
        sources = np.hstack([SOURCES, np.full((len(SOURCES), 1), 7)])
        result = scores(SOURCES.astype(float), sources=sources)
        plain = scores(SOURCES.astype(float))
        assert result.scores() == pytest.approx(plain.scores())
        assert result.nmi.shape == (4, 3)
        assert any("constant sources left out: 3" in note for note in result.notes)

    def test_only_constant_sources(self):
        sources = np.full((len(SOURCES), 2), 7)
        result = scores(SOURCES.astype(float), sources=sources)
        assert set(result.scores().values()) == {0.0}
        assert mig(sources, SOURCES).mig == 0.0
        assert modularity(sources, SOURCES).modularity == 0.0
        assert sap(sources, SOURCES).sap == 0.0
        assert set(dci(sources, SOURCES).scores().values()) == {0.0}

    def test_one_source(self):
        result = scores(SOURCES[:, :2].astype(float), sources=SOURCES[:, :1])
        assert result.modularity == pytest.approx(1.0)
        assert modularity(SOURCES[:, :1], SOURCES[:, :1]).modularity == 1.0

    @pytest.mark.parametrize("discrete", [True, False])
    def test_fewer_samples_than_classes(self, discrete):
        # Every class once: the histogram knows everything, neighbours know nothing.
        sources = np.arange(6)[:, None] * [1, 3]
        latents = np.arange(12.0).reshape(6, 2)
        result = infomec(sources, latents, discrete_latents=discrete)
        assert all(np.isfinite(value) for value in result.scores().values())
        np.testing.assert_allclose(result.nmi, 1.0 if discrete else 0.0, atol=1e-12)

    def test_two_samples(self):
        result = scores(np.array([[0.0], [1.0]]), sources=np.array([[0], [1]]))
        assert result.nmi[0, 0] == pytest.approx(1.0)


class TestOthers:
    def test_mig(self):
        assert mig(SOURCES, SOURCES).mig == pytest.approx(1.0)
        # The duplicated source has no gap.
        doubled = SOURCES[:, [0, 1, 2, 0]]
        assert mig(SOURCES, doubled).mig == pytest.approx(2 / 3)
        # Nothing known, nothing gained.
        assert mig(SOURCES[:, :1], SOURCES[:, 1:]).mig == pytest.approx(0, abs=1e-12)
        assert mig(SOURCES, -2.5 * SOURCES).mig == pytest.approx(1.0)

    def test_mig_of_half_the_information(self):
        # 1 bit of 2 from the only latent that knows: gap 1/2.
        result = mig(SOURCES[:, :1], np.hstack([SOURCES[:, :1] // 2, SOURCES[:, 1:]]))
        assert result.mig == pytest.approx(0.5)

    def test_mig_bins_merge_neighbours(self):
        # Two bins over 0..3 see only s // 2; as symbols all four values count.
        assert mig(SOURCES, SOURCES, num_bins=2).mig == pytest.approx(0.5)
        assert mig(SOURCES, SOURCES, num_bins=None).mig == pytest.approx(1.0)

    def test_modularity(self):
        assert modularity(SOURCES, SOURCES).modularity == pytest.approx(1.0)
        dead = np.hstack([SOURCES, np.zeros((len(SOURCES), 2))])
        # Two of five latents are dead: 3/5, or 1 if they are ignored.
        assert modularity(SOURCES, dead).modularity == pytest.approx(3 / 5)
        ignoring = modularity(SOURCES, dead, dead_latents="ignore")
        assert ignoring.modularity == pytest.approx(1.0)
        bits = full_grid((2, 2), repeats=50)
        rotated = np.stack([bits.sum(axis=1), bits[:, 0] - bits[:, 1]], axis=1)
        assert modularity(bits, rotated).modularity == pytest.approx(0, abs=1e-12)

    def test_mcc(self):
        assert float(mcc(SOURCES, SOURCES)) == pytest.approx(1.0)
        shuffled = -SOURCES[:, [2, 0, 1]]
        result = mcc(SOURCES, shuffled)
        assert result.mcc == pytest.approx(1.0)
        assert result.assignment.tolist() == [1, 2, 0]
        # A monotone warp keeps ranks, not lines: Pearson of k and e^k over 0..3.
        warped = np.exp(SOURCES)
        assert mcc(SOURCES, warped).mcc == pytest.approx(1.0)
        line = np.corrcoef(np.arange(4), np.exp(np.arange(4)))[0, 1]
        assert mcc(SOURCES, warped, "pearson").mcc == pytest.approx(line)
        # A rotation by 45 degrees: every correlation is 1/sqrt(2).
        bits = full_grid((2, 2), repeats=50)
        rotated = np.stack([bits.sum(axis=1), bits[:, 0] - bits[:, 1]], axis=1)
        assert mcc(bits, rotated, "pearson").mcc == pytest.approx(np.sqrt(0.5))
        # Independent: 0. Too few latents: unmatched sources count 0.
        assert mcc(SOURCES[:, :1], SOURCES[:, 1:]).mcc == pytest.approx(0, abs=1e-12)
        one = mcc(SOURCES, SOURCES[:, :1])
        assert one.mcc == pytest.approx(1 / 3)
        assert sorted(one.assignment.tolist()) == [-1, -1, 0]
        assert mcc(SOURCES, np.ones((len(SOURCES), 3))).mcc == 0.0

    def test_sap_of_bits(self):
        # A bit is read off its own latent without error; from an independent one every
        # guess is right half of the time, up to the test set's own frequencies.
        bits = full_grid((2, 2, 2), repeats=600)
        result = sap(bits, bits.astype(float))
        np.testing.assert_allclose(np.diag(result.score_matrix), 1.0)
        deviation = 4 * np.sqrt(0.25 / 1600)
        assert result.sap == pytest.approx(0.5, abs=deviation)
        doubled = sap(bits, bits[:, [0, 1, 2, 0, 1, 2]].astype(float))
        assert doubled.sap == pytest.approx(0.0)

    def test_dci_formulas(self):
        # Rows (1, 0), (1/2, 1/2), (0, 0): entropies 0 and log 2; the empty row has no
        # weight. D = (1*1 + 1*0) / 2.
        importance = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
        per_latent, total = disentanglement_scores(importance)
        np.testing.assert_allclose(per_latent[:2], [1.0, 0.0], atol=1e-8)
        assert total == pytest.approx(0.5)
        # Columns (2/3, 1/3, 0) with weight 3/4 and (0, 1, 0) with 1/4; base 3.
        entropy = -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)) / np.log(3)
        per_source, total = disentanglement_scores(importance.T)
        np.testing.assert_allclose(per_source, [1 - entropy, 1.0], atol=1e-8)
        assert total == pytest.approx(0.75 * (1 - entropy) + 0.25)

    def test_dci_of_the_identity(self):
        # Boosted trees see all latents at each split and need only the right one.
        sources = full_grid((3, 3), repeats=30)
        result = dci(sources, sources.astype(float), estimator="gradient_boosting")
        assert result.informativeness == 1.0
        assert result.disentanglement == pytest.approx(1.0, abs=1e-3)
        assert result.completeness == pytest.approx(1.0, abs=1e-3)
        # A forest's split sees one random latent of two, so even the identity leaves
        # a little importance on the wrong one.
        forest = dci(sources, sources.astype(float))
        assert forest.informativeness == 1.0
        assert 0.9 < forest.disentanglement < 1.0
        assert forest.importance.argmax(axis=0).tolist() == [0, 1]

    def test_dci_of_dead_and_duplicated_latents(self):
        sources = full_grid((4, 4), repeats=60)
        latents = np.hstack([sources, sources[:, :1], np.zeros((len(sources), 1))])
        result = dci(sources, latents.astype(float))
        assert result.active.tolist() == [True, True, True, False]
        assert result.importance[3].sum() == 0
        # The twins share what one of them would have: about 1 - log 2 / log 4 = 1/2.
        assert result.completeness_per_source[0] == pytest.approx(0.5, abs=0.1)
        assert result.completeness_per_source[1] > 0.85


def test_results_are_frozen():
    result = mig(SOURCES, SOURCES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.mig = 0.0
