"""Every quantizer keeps the contract of the package's layers."""

import pytest

from qlayers.testing import (
    case_name,
    check_name,
    check_reload_in_fresh_process,
    contract_checks,
)
from tests.quantizers.cases import CASES

pytestmark = pytest.mark.backends


@pytest.mark.parametrize("check", contract_checks(), ids=check_name)
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_contract(case, check, tmp_path):
    check(case, tmp_path)


def test_reload_in_fresh_process(tmp_path):
    check_reload_in_fresh_process(CASES, tmp_path)
