"""The potential network: a point-wise perceptron with hand-written passes, batched over B problems.

Each of the B problems has a network of its own. A network update needs the output o, its gradient with respect to the
weights, and for the gradient penalty also the gradient g = do/dx and the derivative of the penalty with respect to the
weights. Since the activation is piecewise linear, all of these follow from three passes over the layers:

- forward: h_k = L(h_{k-1} W_k + b_k), o = <h_last, w> (+ <h_2, w'> with the skip connection) + c;
- backward: delta_k = do/d(pre-activation of layer k), which gives g = J^T W_1 delta_1, J being the Jacobian of the
  features;
- tangent: t_k, the derivative of h_k along dP/dg, P being the penalty.

The gradient of "sum_n a_n o_n + P" with respect to W_k is then the single product (a h_{k-1} + t_{k-1})^T delta_k, so a
penalised update costs 4/3 of one without a penalty; automatic differentiation needs a second graph for it.
``tests/transport/test_potential.py`` compares every pass with automatic differentiation.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from pwan.randomness import torch_generator
from pwan.transport.settings import Architecture

# Points that a pass handles at once. Those of a CPU stay in a core's cache (benchmarks/README.md; 256 to 1,024 were no
# faster). Those of a GPU came with benchmarks/gpu.py; no measurement of each alone is recorded.
BLOCK = 2048  # on a CPU, of one problem or of several small ones
GPU_CHUNK = 2**20  # on a GPU, of all problems together, which keeps all of it busy
GPU_LEAST = 16384  # on a GPU, of one problem, however many there are
GPU_ROWS = 2048  # points that one product sums over; a product over all of them would keep few of a GPU's units busy


def points_at_once(points: Tensor) -> int:
    """How many points (B, n, D) of each problem a pass handles at once."""
    return max(GPU_LEAST, GPU_CHUNK // len(points)) if points.is_cuda else BLOCK


def _leaky_backward(gradient: Tensor, activation: Tensor, slope: float, out: Tensor | None = None) -> Tensor:
    """The gradient times the derivative of the leaky ReLU at its output; into ``out``, or over the gradient."""
    out = gradient if out is None else out
    return torch.ops.aten.leaky_relu_backward.grad_input(gradient, activation, slope, True, grad_input=out)


# A rule for the penalty: from the gradient norms (B, n) to dP/dnorm (B, n).
PenaltySlope = Callable[[Tensor], Tensor]


class PotentialNetwork:
    """B networks of one architecture, one for each problem.

    Args:
        architecture: of all of them.
        dimension: D, coordinates of a point.
        seeds: of the first weights, one for each network.
        device: where the networks are; None for the CPU.

    Attributes:
        parameters: (B, P) all weights of each network in one row, so that one optimiser step or one sum over ranks
            handles everything.
        layers: views into it, of a piece that a pass handles.
        frequencies: (B, D, m) the fixed matrices of the Fourier features, or None.
    """

    layers: tuple[list[Tensor], list[Tensor], Tensor, Tensor]

    def __init__(
        self, architecture: Architecture, dimension: int, seeds: Sequence[int], device: torch.device | None = None
    ) -> None:
        self.architecture, self.dimension = architecture, dimension
        m = architecture.features
        inputs = dimension + 2 * m
        self.shapes = list(zip((inputs, *architecture.widths[:-1]), architecture.widths, strict=True))
        self.skip = _skips(architecture)
        rows, frequencies = zip(*(_first(architecture, dimension, self.shapes, seed) for seed in seeds), strict=True)
        self.parameters: Tensor = torch.nn.Parameter(torch.stack(rows).to(device), requires_grad=False)  # (B, P)
        self.frequencies = torch.stack(frequencies).to(device) if m else None  # (B, D, m)

    def only(self, k: int) -> PotentialNetwork:
        """The network of problem k alone, as it is now."""
        network = self._part(slice(k, k + 1))
        network.parameters = torch.nn.Parameter(network.parameters.detach().clone(), requires_grad=False)
        return network

    def _part(self, problems: slice) -> PotentialNetwork:
        """The networks of some of the problems, which go on changing with these."""
        part = copy.copy(self)
        part.parameters = self.parameters[problems]
        part.frequencies = None if self.frequencies is None else self.frequencies[problems]
        return part

    def _blocks(self, features: Tensor) -> Iterator[tuple[PotentialNetwork, tuple[slice, slice]]]:
        """The pieces (problems, points) of (B, n, F) that a pass takes one after the other, with their networks."""
        (b, n, _), points = features.shape, points_at_once(features)
        problems = b if features.is_cuda else max(1, points // max(1, n))
        for first in range(0, b, problems):
            of_these = slice(first, first + problems)
            part = self._part(of_these)
            part.layers = pieces(part.parameters, self.shapes)
            for start in range(0, n, points):
                yield part, (of_these, slice(start, start + points))

    def features(self, points: Tensor) -> Tensor:
        """What the first layer sees of the points: (B, n, D) to (B, n, F); constant as long as the points are."""
        if self.frequencies is None:
            return points
        phase = torch.bmm(points, self.frequencies)  # (B, n, m)
        return torch.cat((points, phase.sin(), phase.cos()), -1)

    def _jacobian_transposed(self, features: Tensor, vector: Tensor) -> Tensor:
        """J^T v: from the gradient with respect to the features (B, n, F) to that with respect to x (B, n, D)."""
        if self.frequencies is None:
            return vector
        d, m = self.dimension, self.architecture.features
        sin, cos = features[..., d : d + m], features[..., d + m :]
        phase = (vector[..., d : d + m] * cos).addcmul_(vector[..., d + m :], sin, value=-1)
        return torch.baddbmm(vector[..., :d], phase, self.frequencies.mT)  # (B, n, D)

    def _jacobian(self, features: Tensor, vector: Tensor) -> Tensor:
        """J v: from a direction in x (B, n, D) to the direction of the features (B, n, F)."""
        if self.frequencies is None:
            return vector
        d, m = self.dimension, self.architecture.features
        sin, cos = features[..., d : d + m], features[..., d + m :]
        out, phase = torch.empty_like(features), torch.bmm(vector, self.frequencies)
        out[..., :d] = vector
        torch.mul(phase, cos, out=out[..., d : d + m])
        torch.mul(phase, sin, out=out[..., d + m :]).neg_()
        return out

    def _forward(self, features: Tensor) -> list[Tensor]:
        """The features and the outputs of all hidden layers."""
        weights, biases, _, _ = self.layers
        hidden = [features]
        for weight, bias in zip(weights, biases, strict=True):
            hidden.append(
                torch.nn.functional.leaky_relu_(torch.baddbmm(bias, hidden[-1], weight), self.architecture.slope)
            )
        return hidden

    def _output(self, hidden: list[Tensor]) -> Tensor:
        _, _, weight, bias = self.layers
        last = self.architecture.widths[-1]
        out = _rowwise(hidden[-1], weight[..., :last]).add_(bias)
        return out.add_(_rowwise(hidden[2], weight[..., last:])) if self.skip else out  # (B, n)

    def _backward(self, hidden: list[Tensor], scale: Tensor | None = None) -> list[Tensor]:
        """delta_k = do/d(pre-activation of layer k), first layer first; times scale (B, n, 1) where that is given."""
        weights, _, output, _ = self.layers
        slope, last = self.architecture.slope, self.architecture.widths[-1]
        if scale is not None:
            output = scale * output  # (B, n, out)
        last_delta = torch.empty_like(hidden[-1])
        deltas = [_leaky_backward(output[..., :last].expand_as(last_delta), hidden[-1], slope, last_delta)]
        for k in range(len(weights) - 1, 0, -1):
            if self.skip and k == 2:
                above = torch.baddbmm(output[..., last:], deltas[0], weights[k].mT)
            else:
                above = torch.bmm(deltas[0], weights[k].mT)
            deltas.insert(0, _leaky_backward(above, hidden[k], slope))
        return deltas

    def _input_gradient(self, features: Tensor, deltas: list[Tensor]) -> Tensor:
        return self._jacobian_transposed(features, torch.bmm(deltas[0], self.layers[0][0].mT))

    def output(self, features: Tensor) -> Tensor:
        """The network's output o, (B, n, F) to (B, n)."""
        outputs = features.new_empty(features.shape[:2])
        for part, block in self._blocks(features):
            outputs[block] = part._output(part._forward(features[block]))
        return outputs

    def output_and_gradient(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The output o (B, n) and its gradient with respect to the points do/dx (B, n, D)."""
        outputs = features.new_empty(features.shape[:2])
        gradients = features.new_empty(*features.shape[:2], self.dimension)
        for part, block in self._blocks(features):
            hidden = part._forward(features[block])
            outputs[block] = part._output(hidden)
            gradients[block] = part._input_gradient(features[block], part._backward(hidden))
        return outputs, gradients

    def accumulate_gradient(
        self,
        features: Tensor,
        slope_of_loss: Callable[[Tensor], Tensor],
        slope_of_penalty: PenaltySlope | None,
        out: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        """Write the gradient of loss(o) + penalty(|do/dx|) with respect to the parameters into ``out`` (B, P).

        Args:
            features: (B, n, F) of all points.
            slope_of_loss: from o (B, n) to dloss/do (B, n).
            slope_of_penalty: from the norms of do/dx (B, n) to dpenalty/dnorm (B, n); None leaves the penalty out.
            out: (B, P), written over.

        Returns:
            The outputs (B, n) and, with a penalty, the gradient norms (B, n).
        """
        blocks = list(self._blocks(features))
        outputs = features.new_empty(features.shape[:2])
        kept = []
        for part, block in blocks:
            kept.append(part._forward(features[block]))
            outputs[block] = part._output(kept[-1])
        loss_slopes = slope_of_loss(outputs)  # (B, n)
        out.zero_()
        if slope_of_penalty is None:
            for (part, block), hidden in zip(blocks, kept, strict=True):
                part._add_plain_gradient(out[block[0]], hidden, loss_slopes[block][..., None])
            return outputs, None
        norms, back = torch.empty_like(outputs), []
        for (part, block), hidden in zip(blocks, kept, strict=True):
            deltas = part._backward(hidden)
            gradient = part._input_gradient(features[block], deltas)  # (b, n, D)
            norms[block] = gradient.norm(dim=-1)
            back.append((deltas, gradient))
        # dP/dg = dP/dnorm g/|g|
        factors = slope_of_penalty(norms) / norms.clamp(min=1e-12)  # (B, n)
        for (part, block), hidden, (deltas, gradient) in zip(blocks, kept, back, strict=True):
            tangent = part._jacobian(features[block], gradient * factors[block][..., None])
            part._add_penalised_gradient(out[block[0]], hidden, deltas, loss_slopes[block][..., None], tangent)
        return outputs, norms

    def _add_plain_gradient(self, out: Tensor, hidden: list[Tensor], column: Tensor) -> None:
        d_weights, d_biases, d_output, d_bias = pieces(out, self.shapes)
        for k, delta in enumerate(self._backward(hidden, column)):  # delta is scaled by the loss's slope
            _add_product(d_weights[k], hidden[k], delta)
            d_biases[k].add_(delta.sum(1, keepdim=True))
        last = self.architecture.widths[-1]
        d_output[..., :last].add_((hidden[-1] * column).sum(1, keepdim=True))
        if self.skip:
            d_output[..., last:].add_((hidden[2] * column).sum(1, keepdim=True))
        d_bias.add_(column.sum(1))

    def _add_penalised_gradient(
        self, out: Tensor, hidden: list[Tensor], deltas: list[Tensor], column: Tensor, tangent: Tensor
    ) -> None:
        weights = self.layers[0]
        d_weights, d_biases, d_output, d_bias = pieces(out, self.shapes)
        last = self.architecture.widths[-1]
        for k, weight in enumerate(weights):
            above = _leaky_backward(torch.bmm(tangent, weight), hidden[k + 1], self.architecture.slope)
            mixed = tangent.addcmul_(hidden[k], column)  # a h_k + t_k
            if k == 2 and self.skip:
                d_output[..., last:].add_(mixed.sum(1, keepdim=True))
            _add_product(d_weights[k], mixed, deltas[k])
            d_biases[k].add_((deltas[k] * column).sum(1, keepdim=True))
            tangent = above
        d_output[..., :last].add_(tangent.addcmul_(hidden[-1], column).sum(1, keepdim=True))
        d_bias.add_(column.sum(1))


def _first(arch: Architecture, dimension: int, shapes: Sequence[tuple[int, int]], seed: int) -> tuple[Tensor, Tensor]:
    """The first weights (P,) of a network and its frequencies (D, m)."""
    like: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
    draw: dict[str, Any] = {"generator": torch_generator(seed, "network"), **like}
    frequencies = arch.frequency * torch.randn(dimension, arch.features, **draw)
    out = arch.widths[-1] + (arch.widths[1] if _skips(arch) else 0)
    rows = []
    for n_in, n_out in [*shapes, (out, 1)]:
        last = n_out == 1 and n_in == out
        bound = 1 / math.sqrt(n_in)
        if arch.init == "torch":
            weight = (torch.rand(n_in, n_out, **draw) * 2 - 1) * bound
            bias = (torch.rand(n_out, **draw) * 2 - 1) * bound
        else:
            std = 0.1 * bound if last else math.sqrt(2 / (1 + arch.slope**2)) * bound
            weight, bias = std * torch.randn(n_in, n_out, **draw), torch.zeros(n_out, **like)
        rows += [weight.flatten(), bias]
    return torch.cat(rows), frequencies


def _skips(arch: Architecture) -> bool:
    """Whether the second hidden layer leads to the output as well: not where it is the last one."""
    return arch.skip and len(arch.widths) > 2


def pieces(flat: Tensor, shapes: Sequence[tuple[int, int]]) -> tuple[list[Tensor], list[Tensor], Tensor, Tensor]:
    """Views into the weights of networks in one row each, or into a gradient like it.

    Args:
        flat: (B, P).
        shapes: (in, out) of each hidden layer.

    Returns:
        Weights (B, in, out) and biases (B, 1, out) of the hidden layers, output weight (B, 1, out), bias (B, 1).
    """
    b, at, weights, biases = flat.shape[0], 0, [], []
    for n_in, n_out in shapes:
        weights.append(flat[:, at : at + n_in * n_out].view(b, n_in, n_out))
        at += n_in * n_out
        biases.append(flat[:, at : at + n_out].view(b, 1, n_out))
        at += n_out
    return weights, biases, flat[:, None, at:-1], flat[:, -1:]


# A problem's numbers have the same bits alone and in a batch, where the number of Fourier features is a multiple of 4.
# The library's kernels for products with very few rows or columns round differently from one memory alignment to
# another, so the two below have more, and `_jacobian_transposed` gives its product an array that it has made
# for it.


def _rowwise(hidden: Tensor, weight: Tensor) -> Tensor:
    """<hidden_n, weight> for each point: (B, n, w) and (B, 1, w) to (B, n)."""
    return torch.bmm(hidden, torch.cat((weight, weight), 1).mT)[..., 0]


def _add_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    """out += left^T right: (B, n, i) and (B, n, o) to (B, i, o)."""
    n = left.shape[1]
    if left.is_cuda and n >= 2 * GPU_ROWS:
        whole = n - n % GPU_ROWS
        parts = [side[:, :whole].unflatten(1, (-1, GPU_ROWS)) for side in (left, right)]  # (B, s, GPU_ROWS, .)
        out.add_((parts[0].mT @ parts[1]).sum(1))
        left, right = left[:, whole:], right[:, whole:]
        if whole == n:
            return
    if left.shape[-1] >= 8:
        out.baddbmm_(left.mT, right)
        return
    for k in range(left.shape[-1]):
        out[:, k].add_((left[..., k : k + 1] * right).sum(1))
