"""All methods by name."""

from models.method import Method
from models.methods import (
    cliff_paper,
    factor_qvae_paper,
    friede_paper,
    qlae_paper,
    self_sizing,
    tripod_paper,
)

METHODS: dict[str, Method] = {}


def register(method: Method, *, replace: bool = False) -> Method:
    """Makes a method known to `models.build` and to every launcher.

    Args:
        method: Record of the method.
        replace: Whether a method of the same name may be replaced.

    Returns:
        The record.

    Example:

    ```python
    register(Method("calm_qlae", calm_qlae, quantized=True))
    model = build("calm_qlae", (32, 32, 3), num_latents=12)
    ```
    """
    if method.name in METHODS and not replace:
        raise ValueError(
            f"There is a method {method.name!r} already. Choose another name, or pass "
            "`replace=True`."
        )
    METHODS[method.name] = method
    return method


for _module in (
    qlae_paper,
    factor_qvae_paper,
    friede_paper,
    tripod_paper,
    cliff_paper,
    self_sizing,
):
    for _method in _module.METHODS:
        register(_method)
