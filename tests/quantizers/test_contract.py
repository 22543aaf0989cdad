"""Every quantizer keeps the contract of the package's layers."""

import pytest

from qlayers.testing import check_reload_in_fresh_process
from tests.contract import contract_parameters, is_variant
from tests.quantizers.cases import CASES
from tests.regularizers.cases import CASES as REGULARIZERS

pytestmark = pytest.mark.backends


@pytest.mark.parametrize(("case", "check"), contract_parameters(CASES))
def test_contract(case, check, tmp_path):
    check(case, tmp_path)


def test_reload_in_fresh_process(tmp_path):
    """The regularizers too: a process costs more than their models. No variants."""
    cases = [
        c for c in (*CASES, *REGULARIZERS) if not is_variant(c, [*CASES, *REGULARIZERS])
    ]
    check_reload_in_fresh_process(cases, tmp_path)
