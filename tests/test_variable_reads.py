"""What a training step reads of a weight, it reads before the weight is updated."""

import pytest

from qlayers.testing.layer_contract import make_model, sample_data
from tests.contract import with_slow_variants
from tests.quantizers.cases import CASES as QUANTIZERS
from tests.regularizers.cases import CASES as REGULARIZERS

tf = pytest.importorskip("tensorflow")

READS = ("ReadVariableOp", "ResourceGather")


def _before(operations):
    """Operations whose results enter the given ones, however far back."""
    found, waiting = set(), list(operations)
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
    return found


@pytest.mark.parametrize("case", with_slow_variants([*QUANTIZERS, *REGULARIZERS]))
def test_every_read_enters_the_update(case):
    """Order alone does not hold: TensorFlow's graph optimizer forgets it.

    A read that the update does not need may then follow it, on a busy machine.
    """
    model = make_model(case, jit_compile=False)
    x = sample_data()
    y = model(x).numpy()
    step = tf.function(model.train_step).get_concrete_function((x, y))
    handles = {id(handle): inner for handle, inner in step.graph.captures}
    late = []
    for variable in model.trainable_variables:
        uses = handles[id(variable.value.handle)].consumers()
        reads = [
            use for use in uses if use.type in ("ReadVariableOp", "ResourceGather")
        ]
        others = [use for use in uses if use not in reads]
        needed = _before(others)
        late += [use.name for use in reads if others and use not in needed]
    assert late == []
