"""The layer contract as parameters of a test."""

import pytest

from qlayers.testing import LayerCase, case_name, check_name, contract_checks

# What compiles or draws twice. A layer goes through these once in the default run, in
# its plain form; its variants ("vector_revived" beside "vector") in the slow run.
_EXPENSIVE = ("jit_step", "export", "two_replicas", "mixed_bfloat16", "seed_reproduces")
# What the layers' bases do for all of them: a few layers stand for the others.
_SHARED = ("export", "two_replicas", "mixed_bfloat16")
_REPRESENTATIVES = (
    "latent",
    "vector",
    "gumbel",
    "cliff",
    "normalized_hessian",
    "discriminator",
)


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


def _is_for_the_slow_run(case: LayerCase, check: str, cases: list[LayerCase]) -> bool:
    if any(case.name.startswith(f"{other.name}_") for other in cases):
        return check in _EXPENSIVE
    return check in _SHARED and case.name not in _REPRESENTATIVES
