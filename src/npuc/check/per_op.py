"""Local check: every op of the model, given the operand values that the compiled graph itself
produced, against PyTorch. Rounding that adds up raises no alarm, and a wrong rule cannot hide."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.fx
import torch.utils._pytree as pytree

from npuc.check.report import OpCheck
from npuc.errors import CheckFailed
from npuc.ir import DType, Origin, Quant, TensorType, apply_moves

#: largest difference in steps of the result, by bits of its type. A 16-bit TABLE interpolates
#: between 512 points and its RESCALE rounds again: several of 65,536 steps are right for it.
STEPS = {4: 1, 8: 1, 16: 32}
#: largest float error relative to the largest magnitude of the result
RELATIVE = {
    DType.FP32: 1e-3,
    DType.FP16: 2e-2,
    DType.BF16: 5e-2,
    DType.FP8E4M3: 0.15,
    DType.FP8E5M2: 0.3,
}
#: a float result may be this many times as far from the exact one as PyTorch's
NOISE = 8
#: the model's own floats hold what is quantized to this many of their steps at the largest value
FLOAT_STEPS = 2


@dataclass(frozen=True)
class Observed:
    """What a value of the compiled graph holds of one of the model; its shape may be another."""

    array: np.ndarray
    type: TensorType

    def as_in_model(self, shape: Sequence[int]) -> tuple[np.ndarray, TensorType]:
        """The array and its type in the model's shape; as it is when `shape` does not fit."""
        quant = self.type.quant
        if self.array.size != int(np.prod(shape)) or (quant is not None and quant.axis is not None):
            return self.array, self.type
        return self.array.reshape(shape), self.type.with_(shape=tuple(shape))


class CheckingInterpreter(torch.fx.Interpreter):
    """Runs the model's FX graph; each value that the compiled graph produced replaces PyTorch's
    after it was compared with it.

    `observed` maps names of FX nodes to what the compiled graph holds for them, `path` is in front
    of them in the branch or body of a loop that `module` is.
    """

    def __init__(
        self, module: torch.fx.GraphModule, observed: Mapping[str, Observed],
        where: Mapping[str, str], path: str = "",
    ) -> None:  # fmt: skip
        super().__init__(module)
        self.observed = observed
        self.where = where
        self.path = path
        self.found: list[OpCheck] = []
        self.unobserved = 0
        #: PyTorch's results of ops that the compiled graph holds in several forms
        self.results: dict[torch.fx.Node, torch.Tensor] = {}
        #: operand and dimension of ops that leave open which of equal elements comes first
        self.ordered: dict[torch.fx.Node, tuple[torch.Tensor, int]] = {}
        #: whether such an op of the compiled graph has chosen otherwise than PyTorch
        self.other_order = False
        #: branches and numbers of iterations, in order
        self.taken: list[tuple[str, int]] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        name = self.path + n.name
        if n.op == "placeholder" and name in self.observed:
            like = super().run_node(n)
            return _to_torch(*self.observed[name].as_in_model(like.shape), like)
        if isinstance(n.target, torch._ops.HigherOrderOperator):
            return self._control_flow(n, name)
        if n.target in _ORDERS:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            at = [a.name for a in n.target._schema.arguments].index("dim")  # type: ignore[union-attr]
            self.ordered[n] = args[0], args[at] if at < len(args) else kwargs.get("dim", -1)
        result = super().run_node(n)
        if n.op != "call_function" or not isinstance(result, torch.Tensor):
            return result
        if _is_qdq(n):
            return self._one_form(n, name, result)
        if any(_is_qdq(user) and self._differs(n, user) for user in n.users):
            self.results[n] = result
        return self._compared(n, name, result)

    def _one_form(self, n: torch.fx.Node, name: str, result: torch.Tensor) -> torch.Tensor:
        """A quantize or dequantize. Of an op in several forms, say in 8 and in 16 bits, each is
        compared with PyTorch's result and goes on to those who read it."""
        source = n.args[0]
        if not isinstance(source, torch.fx.Node):
            return result
        op = self._op_in_front(source)
        is_quantize = "dequantize" not in str(n.target)
        if op in self.results and is_quantize:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return n.target(self.results[op], *args[1:], **kwargs)  # type: ignore[operator,index]
        if is_quantize or not _is_qdq(source) or name not in self.observed:
            return result
        is_rounded_again = isinstance(source.args[0], torch.fx.Node) and _is_qdq(source.args[0])
        known = is_rounded_again or self._op_in_front(source.args[0]) in self.results
        return self._compared(n, name, result) if known else result

    def _op_in_front(self, x: Any) -> Any:
        """What `x` is a form of, past those that the compiled graph does not have: a sum that is
        rounded to 8 bits at once where the model rounds it to 16 bits in between."""
        while (
            isinstance(x, torch.fx.Node) and _is_qdq(x) and self.path + x.name not in self.observed
        ):
            x = x.args[0]
        return x

    def _differs(self, n: torch.fx.Node, quantize: torch.fx.Node) -> bool:
        """Whether what is quantized here is another value than the one that stands for `n`."""
        mine, theirs = (self.observed.get(self.path + x.name) for x in (n, quantize))
        return mine is None or theirs is None or mine.type != theirs.type

    def _compared(self, n: torch.fx.Node, name: str, result: torch.Tensor) -> torch.Tensor:
        """The value of the compiled graph after a comparison; PyTorch's where it has none."""
        if name not in self.observed:
            self.unobserved += 1
            return result
        array, type = self.observed[name].as_in_model(result.shape)
        error, steps = difference(array, type, result)
        where = self.where.get(name, name)
        self.found.append(OpCheck(name, where, error, steps, type.dtype.bits))
        if not error <= tolerance(type) and not self._is_noise(n, array, type, result):
            raise _departs(n, where, array, type, result, error, steps)
        return _to_torch(array, type, result)

    def _is_noise(
        self, n: torch.fx.Node, array: np.ndarray, type: TensorType, want: torch.Tensor
    ) -> bool:
        """Whether PyTorch's own rounding explains a difference, as its result in double shows:
        the mean of what is already centred, a norm of equal values. Of equal elements any may be
        the first."""
        if n.target is operator.getitem:
            known = self.ordered.get(n.args[0])  # type: ignore[arg-type]
            tie = known is not None and _is_tie(*known, array, want)
            self.other_order |= tie
            return tie
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        try:
            precise = n.target(*pytree.tree_map(_double, args), **kwargs)  # type: ignore[operator]
        except RuntimeError:
            return False  # the op mixes its operands with a dtype of its own
        if not isinstance(precise, torch.Tensor) or precise.shape != want.shape:
            return False
        error, _ = difference(array, type, precise)
        if error <= tolerance(type):
            return True
        if type.quant is not None:
            largest = max(map(_largest, [precise, *pytree.tree_leaves(args)]))
            lo, hi = type.quant.dequantize(np.array([type.quant.qmin, type.quant.qmax]))
            off = np.abs(type.quant.dequantize(array) - np.clip(as_numpy(precise), lo, hi))
            step = torch.finfo(want.dtype).eps if want.is_floating_point() else 0.0
            return float(np.nan_to_num(off).max(initial=0)) <= FLOAT_STEPS * step * largest
        if not type.dtype.is_float:
            return False
        noise = (want.double() - precise).abs().max().item()
        off = np.abs(array.astype(np.float64) - precise.numpy())
        return float(off.max(initial=0)) <= NOISE * noise

    def _control_flow(self, n: torch.fx.Node, name: str) -> Any:
        """The results of a branch, or of the last iteration of a loop on what the compiled loop had
        before it (where that is known); the ops in there are compared too."""
        args, _ = self.fetch_args_kwargs_from_env(n)
        kind = getattr(n.target, "_name", "")
        if kind == "cond":
            taken = bool(args[0])
            self.taken.append((name, int(taken)))
            path = f"{name}_{'then' if taken else 'else'}."
            return self._inside(args[1 if taken else 2], path, args[3])
        body, path = args[1], f"{name}_body."
        carried, extra, last, count = list(args[2]), list(args[3]), None, 0
        while _holds(args[0](*carried, *extra)):
            last, carried, count = carried, list(body(*carried, *extra)), count + 1
        self.taken.append((name, count))
        return carried if last is None else self._inside(body, path, [*last, *extra])

    def _inside(self, body: torch.fx.GraphModule, path: str, inputs: Sequence[Any]) -> Any:
        inner = CheckingInterpreter(body, self.observed, self.where, path)
        results = inner.run(*inputs)
        self.found += inner.found
        self.other_order |= inner.other_order
        self.taken += inner.taken
        self.unobserved += inner.unobserved
        return results


#: ops whose second result are places, in no certain order where elements are equal
_ORDERS = (torch.ops.aten.topk.default, torch.ops.aten.sort.default)


def _is_tie(x: torch.Tensor, dim: int, got: np.ndarray, want: torch.Tensor) -> bool:
    """Whether other places hold equal elements, each place at most once."""
    places = torch.from_numpy(np.ascontiguousarray(got)).long()
    if places.shape != want.shape or int(places.min()) < 0 or int(places.max()) >= x.shape[dim]:
        return False
    ordered = places.sort(dim).values
    twice = bool((ordered.diff(dim=dim) == 0).any())
    return not twice and torch.equal(x.gather(dim, places), x.gather(dim, want))


def _holds(condition: Any) -> bool:
    """What the condition of a loop returns: a tensor, or a tuple of one."""
    return bool(condition[0] if isinstance(condition, (tuple, list)) else condition)


def _double(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def _largest(x: Any) -> float:
    is_float = isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel() > 0
    return float(x.abs().max()) if is_float else 0.0


def _is_qdq(n: torch.fx.Node) -> bool:
    return "quantize" in getattr(n.target, "__name__", str(n.target))


def tolerance(type: TensorType) -> float:
    """The largest error that the local check takes for a result of `type`."""
    if type.quant is not None and type.quant.qmax - type.quant.qmin <= 1:
        return 0.0  # a mask of 0 and 1, which stands for BOOL
    if type.quant is not None:
        return STEPS.get(type.dtype.bits, 1)
    return RELATIVE.get(type.dtype, 0.0)


def difference(array: np.ndarray, type: TensorType, want: torch.Tensor) -> tuple[float, bool]:
    """(error, whether in steps) of a compiled value against PyTorch's float or integer result.
    No code is NaN: where PyTorch has that, any is right."""
    expected = as_numpy(want)
    if tuple(array.shape) != tuple(expected.shape):
        return float("inf"), False
    if array.size == 0:
        return 0.0, type.quant is not None
    if type.quant is not None:
        off = np.abs(array.astype(np.int64) - quantized(type.quant, expected))
        return float(off[~np.isnan(expected)].max(initial=0)), True
    if not type.dtype.is_float:
        return float(np.count_nonzero(array.astype(np.int64) != expected.astype(np.int64))), False
    got = array.astype(np.float64)
    expected = saturated(expected.astype(np.float64), type)
    both = np.isfinite(got) & np.isfinite(expected)
    odd = ~both & ~((got == expected) | (np.isnan(got) & np.isnan(expected)))
    if np.any(odd & np.isfinite(expected)):
        return float("inf"), False
    scale = max(float(np.abs(expected[both]).max(initial=0.0)), 1e-6)
    return float(np.abs(got[both] - expected[both]).max(initial=0.0)) / scale, False


def saturated(real: np.ndarray, type: TensorType) -> np.ndarray:
    """Finite numbers cut to those that a float type has: a mask's lowest FP32 in FP16."""
    import ml_dtypes

    limit = float(ml_dtypes.finfo(type.dtype.numpy).max)
    return np.where(np.isfinite(real), np.clip(real, -limit, limit), real)


def quantized(quant: Quant, real: np.ndarray) -> np.ndarray:
    """Codes of real values; infinities saturate."""
    limit = np.abs(quant.scale).max() * 2.0**20
    return quant.quantize(np.clip(real.astype(np.float64), -limit, limit))


def as_numpy(x: torch.Tensor) -> np.ndarray:
    """A tensor as an array; bfloat16 and float8 as float32."""
    x = x.detach()
    if x.is_floating_point() and x.dtype not in (torch.float32, torch.float64, torch.float16):
        x = x.float()
    return x.numpy()


def _to_torch(array: np.ndarray, type: TensorType, like: Any) -> torch.Tensor:
    """The compiled value as the tensor that the model has in its place."""
    if type.quant is not None and like.is_floating_point():
        array = type.quant.dequantize(array)
    elif type.dtype.is_float:
        array = array.astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(array)).to(like.dtype)


def _departs(
    n: torch.fx.Node, where: str, array: np.ndarray, type: TensorType, want: torch.Tensor,
    error: float, steps: bool,
) -> CheckFailed:  # fmt: skip
    expected = as_numpy(want).astype(np.float64)
    got = type.quant.dequantize(array) if type.quant else array.astype(np.float64)
    if got.shape != expected.shape:
        why = f"shape {got.shape} instead of {expected.shape}"
    else:
        at = np.unravel_index(int(np.argmax(np.abs(np.nan_to_num(got - expected)))), got.shape)
        unit = "steps" if steps else "relative to the largest value"
        place = list(map(int, at))
        why = f"{got[at]:.6g} instead of {expected[at]:.6g} at {place}, off by {error:.4g} {unit}"
    return CheckFailed(
        f"{n.target} ({n.name}) departs from PyTorch", where, why,
        "this is a fault of npuc, please report it; check=False compiles without the check",
    )  # fmt: skip


def observe(
    graph_values: Mapping[Any, np.ndarray],
    origins: Mapping[str, Origin],
    types: Mapping[str, TensorType],
) -> dict[str, Observed]:
    """What the compiled graph computed, by the model's names, with the types of the lowering."""
    found = {}
    for name, (value, moves) in origins.items():
        if value in graph_values:
            array = apply_moves(graph_values[value], moves)
            if array is not None:
                found[name] = Observed(array, types[name])
    return found
