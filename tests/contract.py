"""The layer contract as parameters of a test."""

from collections.abc import Callable
from typing import Any

import pytest

from qlayers.testing import LayerCase, case_name, check_name, contract_checks

# What a variant ("vector_revived" beside "vector") goes through in the default run: its
# shapes, its config and training from a file. The rest is the slow run's.
_OF_VARIANTS = (
    "symbolic_spec_is_eager_result",
    "config_round_trip",
    "keras_file_round_trip",
)
# What the layers' bases do for all of them, and what takes XLA seconds a layer: a few
# layers stand for the others.
_REPRESENTATIVES = {
    "jit_step": ("latent", "gumbel", "normalized_hessian", "independent_support"),
    "export": ("latent", "normalized_hessian"),
    "two_replicas": ("vector", "cliff", "discriminator"),
    "mixed_bfloat16": ("gumbel", "normalized_hessian"),
}


def case(name: str, make: Callable[[], Any], size: int = 4, **facts: Any) -> LayerCase:
    """A layer case with four inputs, if nothing else is said."""
    return LayerCase(name, make, size, **facts)


def stochastic(name: str, make: Callable[[], Any], **facts: Any) -> LayerCase:
    """A case whose training calls draw random numbers."""
    return case(name, make, is_stochastic=True, **facts)


def replicated(name: str, make: Callable[[], Any], **facts: Any) -> LayerCase:
    """A case whose draws are the same, however many replicas share the batch."""
    return stochastic(name, make, exact_on_replicas=True, **facts)


def contract_parameters(cases: list[LayerCase]) -> list:
    """Every case with every check."""
    return [
        pytest.param(
            case,
            check,
            id=f"{case_name(case)}-{check_name(check)}",
            marks=[pytest.mark.slow]
            if _is_for_the_slow_run(case, check_name(check), cases)
            else [],
        )
        for case in cases
        for check in contract_checks()
    ]


def is_variant(case: LayerCase, cases: list[LayerCase]) -> bool:
    """Whether a case is another one with an option changed, by its name."""
    return any(case.name.startswith(f"{other.name}_") for other in cases)


def with_slow_variants(cases: list[LayerCase]) -> list:
    """The cases as parameters of a test that leaves variants to the slow run."""
    return [
        pytest.param(
            case,
            id=case_name(case),
            marks=[pytest.mark.slow] * is_variant(case, cases),
        )
        for case in cases
    ]


def _is_for_the_slow_run(case: LayerCase, check: str, cases: list[LayerCase]) -> bool:
    if check == "steps_per_execution":
        return case.name != "latent"
    if is_variant(case, cases):
        return check not in _OF_VARIANTS
    return case.name not in _REPRESENTATIVES.get(check, (case.name,))
