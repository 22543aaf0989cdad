"""Every regularizer keeps the contract of the package's layers."""

import pytest

from tests.contract import contract_parameters
from tests.regularizers.cases import CASES

pytestmark = pytest.mark.backends


@pytest.mark.parametrize(("case", "check"), contract_parameters(CASES))
def test_contract(case, check, tmp_path):
    check(case, tmp_path)
