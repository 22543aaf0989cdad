"""BetaVAE and FactorVAE scores on a small dataset held in memory."""

import numpy as np
import pytest

from qlayers.metrics import beta_vae_score, factor_vae_score


class TinyShapes:
    """Three factors rendered into a 3 x 4 image of brightness bars.

    Implements for real what the scores need of a dataset: `factor_sizes`,
    `sample(n, seed)` and `images_of(sources)`.
    """

    factor_sizes = (4, 3, 5)

    def __init__(self):
        self.images_seen = 0

    def sample(self, n, seed):
        generator = np.random.default_rng(seed)
        sources = generator.integers(0, self.factor_sizes, (n, 3))
        return sources, self.images_of(sources)

    def images_of(self, sources):
        sources = np.asarray(sources)
        assert sources.min() >= 0
        assert np.all(sources < self.factor_sizes)
        self.images_seen += len(sources)
        bars = sources / (np.array(self.factor_sizes) - 1)
        return np.repeat(bars[:, :, None], 4, axis=2)[..., None].astype(np.float32)


def decode(images):
    """The perfect encoder: one latent per factor."""
    return images[:, :, 0, 0]


SMALL = {"num_train": 300, "num_eval": 200, "batch_size": 32, "seed": 1}


class TestBetaVAE:
    def test_perfect_encoder(self):
        # The fixed factor's latent difference is exactly 0, all others positive.
        result = beta_vae_score(TinyShapes(), decode, **SMALL)
        assert result.score == 1.0
        assert float(result) == 1.0

    def test_permuted_and_flipped_encoder(self):
        result = beta_vae_score(
            TinyShapes(), lambda images: -decode(images)[:, [2, 0, 1]], **SMALL
        )
        assert result.score == 1.0

    def test_constant_encoder_guesses(self):
        # Nothing to see: the majority factor, about one in three.
        result = beta_vae_score(
            TinyShapes(), lambda images: np.zeros((len(images), 2)), **SMALL
        )
        assert result.score == pytest.approx(1 / 3, abs=4 * np.sqrt(2 / 9 / 200))

    def test_number_of_images(self):
        data = TinyShapes()
        beta_vae_score(data, decode, **SMALL)
        assert data.images_seen == 2 * (300 + 200) * 32

    def test_points_follow_the_definition(self):
        # The pairs agree in the chosen factor and nowhere else by construction.
        from qlayers.metrics._factor_sampling import FactorSampler

        sampler = FactorSampler(TinyShapes(), decode, 16, seed=0)
        total = 0
        for factors, (first, second) in sampler.points(100, copies=2):
            total += len(factors)
            for factor, a, b in zip(factors, first, second, strict=True):
                differs = np.any(a != b, axis=0)
                assert not differs[factor]
                assert np.delete(differs, factor).all()
                assert len(np.unique(a[:, factor])) > 1
        assert total == 100


class TestFactorVAE:
    def test_perfect_encoder(self):
        result = factor_vae_score(TinyShapes(), decode, num_variance=500, **SMALL)
        assert result.score == 1.0
        # Each latent is voted for by its own factor only.
        assert np.count_nonzero(result.votes) == 3
        assert result.votes.sum() == 300

    def test_sum_and_difference_cannot_tell_their_factors_apart(self):
        # Fixing either factor stills both latents alike, and the third factor stills
        # none: every vote is a coin toss.
        def encode(images):
            bars = decode(images)
            return np.stack([bars[:, 0] + bars[:, 1], bars[:, 0] - bars[:, 1]], axis=1)

        result = factor_vae_score(TinyShapes(), encode, num_variance=500, **SMALL)
        assert result.score < 0.55

    def test_narrow_latents_are_pruned(self):
        # A constant latent would win every vote if it were not pruned.
        def encode(images):
            latents = decode(images)
            return np.hstack([latents, np.full((len(latents), 1), 0.01)])

        result = factor_vae_score(TinyShapes(), encode, num_variance=500, **SMALL)
        assert result.active.tolist() == [True, True, True, False]
        assert result.score == 1.0

    def test_nothing_active(self):
        result = factor_vae_score(
            TinyShapes(),
            lambda images: np.zeros((len(images), 2)),
            num_variance=500,
            **SMALL,
        )
        assert result.score == 0.0
        assert "no latent is active" in result.notes[0]

    def test_shared_factor_of_a_batch(self):
        from qlayers.metrics._factor_sampling import FactorSampler

        sampler = FactorSampler(TinyShapes(), decode, 16, seed=0)
        for factors, (latents,) in sampler.points(50, copies=1):
            still = latents.var(axis=1) == 0
            np.testing.assert_array_equal(still.argmax(axis=1), factors)
            assert np.all(still.sum(axis=1) == 1)

    def test_latents_that_are_equally_steady_share_the_vote(self):
        """A rare value is absent from many batches, whichever factor is fixed."""

        def encode(images):
            bars = decode(images)
            rare = np.all(bars == 0, axis=1, keepdims=True)
            return np.hstack([bars, rare])

        def first_last(images):
            return encode(images)[:, ::-1]

        result, other = (
            factor_vae_score(TinyShapes(), each, num_variance=500, **SMALL)
            for each in (encode, first_last)
        )
        assert result.active.all()
        assert other.score == pytest.approx(result.score)
        np.testing.assert_allclose(other.votes[::-1], result.votes)
        # The rare value is absent from a batch of 32 with probability 0.51 (0.3 to
        # 0.8 by the factor that is fixed): then it has half of the vote.
        assert result.votes.sum() == pytest.approx(SMALL["num_train"])
        assert 0.15 < result.votes[3].sum() / SMALL["num_train"] < 0.4


@pytest.mark.parametrize("score", [beta_vae_score, factor_vae_score])
class TestBoth:
    def test_same_seed_same_score(self, score):
        encode = lambda images: decode(images) + decode(images)[:, ::-1]  # noqa: E731
        first = score(TinyShapes(), encode, **SMALL)
        second = score(TinyShapes(), encode, **SMALL)
        assert first.scores() == second.scores()

    def test_bad_encoders(self, score):
        with pytest.raises(ValueError, match=r"encode\(images\).*NaN"):
            score(TinyShapes(), lambda images: decode(images) * np.nan, **SMALL)
        with pytest.raises(ValueError, match="one row per image"):
            score(TinyShapes(), lambda images: decode(images)[:7], **SMALL)
        with pytest.raises(ValueError, match="shape"):
            score(TinyShapes(), lambda images: images, **SMALL)

    def test_bad_arguments(self, score):
        with pytest.raises(ValueError, match="num_train"):
            score(TinyShapes(), decode, num_train=0)
        with pytest.raises(ValueError, match="batch_size"):
            score(TinyShapes(), decode, batch_size=0)

    def test_dataset_without_variation(self, score):
        class Still(TinyShapes):
            factor_sizes = (1, 1, 1)

        with pytest.raises(ValueError, match="factor_sizes"):
            score(Still(), decode, **SMALL)

    def test_continuous_factors(self, score):
        class Smooth(TinyShapes):
            factor_sizes = (4, None, 5)

        with pytest.raises(ValueError, match=r"factor_sizes.*finite"):
            score(Smooth(), decode, **SMALL)

    def test_constant_factors_are_never_chosen(self, score):
        class Half(TinyShapes):
            factor_sizes = (4, 1, 5)

            def images_of(self, sources):
                bars = np.asarray(sources) / [3, 1, 4]
                return np.repeat(bars[:, :, None], 4, axis=2)[..., None]

        assert float(score(Half(), decode, **SMALL)) == 1.0
