"""The contract of the package's layers, for authors of layers elsewhere."""

from qlayers.testing.layer_contract import (
    LayerCase,
    case_name,
    check_layer,
    check_name,
    check_reload_in_fresh_process,
    contract_checks,
)

__all__ = [
    "LayerCase",
    "case_name",
    "check_layer",
    "check_name",
    "check_reload_in_fresh_process",
    "contract_checks",
]
