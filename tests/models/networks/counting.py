"""Parameter counts from a paper's description: weights plus biases of each layer."""


def conv(kernel_size, inputs, outputs, bias=True):
    return kernel_size**2 * inputs * outputs + bias * outputs


def dense(inputs, outputs):
    return inputs * outputs + outputs


def norm(channels):
    """A scale and a shift for each channel."""
    return 2 * channels


def trainable(model):
    return sum(int(v.shape.num_elements()) for v in model.trainable_variables)
