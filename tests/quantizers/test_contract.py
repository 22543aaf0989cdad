"""Every quantizer keeps the contract of the package's layers."""

import pytest

from qlayers.testing import check_reload_in_fresh_process
from tests.contract import contract_parameters
from tests.quantizers.cases import CASES
from tests.regularizers.cases import CASES as REGULARIZERS

pytestmark = pytest.mark.backends


@pytest.mark.parametrize(("case", "check"), contract_parameters(CASES))
def test_contract(case, check, tmp_path):
    check(case, tmp_path)


def test_reload_in_fresh_process(tmp_path):
    """The regularizers too: starting a process costs more than all of their models."""
    check_reload_in_fresh_process([*CASES, *REGULARIZERS], tmp_path)
