"""One transformer block by hand and by PyTorch, to compare with those that are spread over ranks."""

import numpy as np

from consensus.model_parallel.transformer import Arrays, TransformerSizes


def drawn(sizes, samples, seed=0):
    """Parameters (P,), with nothing 0 or 1, features and cotangents (samples, sequence * width)."""
    rng = np.random.default_rng(seed)
    w = sizes.init(rng) + 0.1 * rng.standard_normal(sizes.parameters)
    return w, *rng.standard_normal((2, samples, sizes.features))


def by_hand(sizes, w, x, s):
    """Outputs (samples, sequence * width), token by token, and head by head, with the activation ``s``."""
    first, (W1, b1), (W2, b2), second, (W3, b3), (W4, b4) = sizes.arrays(w)
    outputs, each = [], sizes.width // sizes.heads

    def normal(token, gain_shift):
        return (token - token.mean()) / np.sqrt(token.var() + 1e-5) * gain_shift[0] + gain_shift[1]

    for sample in x.reshape(len(x), sizes.sequence, sizes.width):
        mixed = [normal(token, first) @ W1 + b1 for token in sample]
        found = []
        for head in range(sizes.heads):
            query, key, value = (
                [token[(3 * head + which) * each : (3 * head + which + 1) * each] for token in mixed] for which in range(3)
            )
            for place in range(sizes.sequence):
                powers = np.array([np.exp(query[place] @ other / np.sqrt(each)) for other in key])
                found.append(powers / powers.sum() @ np.array(value))
        heads = np.array(found).reshape(sizes.heads, sizes.sequence, each)
        for place, token in enumerate(sample):
            y = token + heads[:, place].ravel() @ W2 + b2
            outputs.append(y + s(normal(y, second) @ W3 + b3) @ W4 + b4)
    return np.array(outputs).reshape(x.shape)


def by_torch(torch, sizes, w, x, u):
    """Outputs, and gradients by the parameters (P,) and the features, of PyTorch's own encoder layer."""
    layer = torch.nn.TransformerEncoderLayer(
        sizes.width,
        sizes.heads,
        sizes.hidden,
        dropout=0.0,
        activation=getattr(torch, sizes.activation),
        batch_first=True,
        norm_first=True,
        dtype=torch.float64,
    )
    # PyTorch has all queries first, then all keys, then all values.
    order = np.arange(3 * sizes.width).reshape(sizes.heads, 3, -1).transpose(1, 0, 2).ravel()
    attention = layer.self_attn
    theirs = Arrays(
        (layer.norm1.weight, layer.norm1.bias),
        (attention.in_proj_weight, attention.in_proj_bias),
        (attention.out_proj.weight, attention.out_proj.bias),
        (layer.norm2.weight, layer.norm2.bias),
        (layer.linear1.weight, layer.linear1.bias),
        (layer.linear2.weight, layer.linear2.bias),
    )
    with torch.no_grad():
        for name, pair in sizes.arrays(w)._asdict().items():
            for tensor, array in zip(getattr(theirs, name), pair, strict=True):
                array = array[..., order] if name == "attention" else array
                tensor.copy_(torch.tensor(np.ascontiguousarray(array.T)))
    tokens = torch.tensor(x.reshape(len(x), sizes.sequence, sizes.width), requires_grad=True)
    outputs = layer(tokens)
    outputs.backward(torch.tensor(u).reshape(outputs.shape))
    gradient = np.zeros_like(w)
    for name, pair in sizes.arrays(gradient)._asdict().items():
        for tensor, array in zip(getattr(theirs, name), pair, strict=True):
            array[..., order if name == "attention" else slice(None)] = tensor.grad.numpy().T
    return outputs.detach().numpy().reshape(x.shape), gradient, tokens.grad.numpy().reshape(x.shape)


def sizes_for(side, activation="relu"):
    """Sizes that fit a grid of that side, with biases that are cut unevenly."""
    return TransformerSizes.checked(6 * side, 2 * side, 12 * side, 5, activation)
