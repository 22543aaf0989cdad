"""The layer contract as parameters of a test."""

import pytest

from qlayers.testing import LayerCase, case_name, check_name, contract_checks

# What compiles or draws twice. A layer goes through these once in the default run, in
# its plain form; its variants ("vector_revived" beside "vector") in the slow run.
_EXPENSIVE = ("jit_step", "export", "two_replicas", "mixed_bfloat16", "seed_reproduces")


def contract_parameters(cases: list[LayerCase]) -> list:
    """Every case with every check."""
    return [
        pytest.param(
            case,
            check,
            id=f"{case_name(case)}-{check_name(check)}",
            marks=[pytest.mark.slow]
            if _is_variant(case, cases) and check_name(check) in _EXPENSIVE
            else [],
        )
        for case in cases
        for check in contract_checks()
    ]


def _is_variant(case: LayerCase, cases: list[LayerCase]) -> bool:
    return any(case.name.startswith(f"{other.name}_") for other in cases)
