"""The many ATen spellings of one op become one canonical op: what lowering rules are written for.

Arguments are positional in the order below, those after `*` by keyword; every argument is always
there. Tensors are Values in the model's (NCHW) layout; `T?` may be None. Sizes are ints (SymDim
where dynamic), dims are non-negative and, where a tuple, sorted. dtype arguments are
`npuc.ir.DType`. An op that is not listed keeps its ATen schema
(`torch.ops.aten.<op>.<overload>._schema`, all defaults filled in): kind "aten.<op>" for the
default overload, else "aten.<op>.<overload>".
Type promotion is explicit: operands of one op have one dtype (an `aten.to` converts, Python
scalars are 0-d constants), float functions get float operands.

Layout and data movement (any dtype; a quantized value keeps its parameters)
    aten.view(x, shape)             reshape, flatten, unflatten, squeeze*, unsqueeze, view_as, ...
    aten.permute(x, dims)           transpose, t, mT, movedim, swapaxes, numpy_T, adjoint
    aten.expand(x, shape)           same rank as x; only dims of size 1 grow (views raise ranks)
    aten.repeat(x, repeats)         same rank as x; tile, repeat
    aten.cat(tensors, dim)          at least two tensors of one dtype; stack, concat, slice_scatter
                                    (step 1), select_scatter
    aten.slice(x, dim, start, end, step)    0 <= start <= end <= size, step >= 1; select, split,
                                    chunk, unbind, narrow, crop by a negative pad
    aten.slice_scatter(x, src, dim, start, end, step)      only with step > 1
    aten.pad(x, pads, mode, value)  pads = (before, after) of every dim in order, flat, 2 * rank
                                    entries >= 0 (as TOSA PAD); mode "constant" | "reflect" |
                                    "replicate" | "circular"; value a number
    aten.flip(x, dims)   aten.roll(x, shifts, dims)        as many dims as shifts
    aten.pixel_shuffle(x, factor)  aten.pixel_unshuffle(x, factor)   x rank 4
    aten.unfold(x, dim, size, step)   aten.im2col(x, kernel, dilation, padding, stride)
    aten.col2im(x, output_size, kernel, dilation, padding, stride)
    aten.as_strided(x, size, stride, storage_offset)

Convolution and products
    aten.convolution(x, weight, bias?, stride, padding, dilation, transposed, output_padding,
                     groups)
        every conv*d and conv_transpose*d, n = 1, 2 or 3 spatial dims, x has a batch dim. stride,
        dilation, output_padding: n ints. padding: ALWAYS 2n ints, (before, after) per spatial dim
        in order: 2-D (top, bottom, left, right), from numbers or 'same' (asymmetric: the odd one
        goes after) or 'valid'. weight [O, I/groups, k...], transposed: [I, O/groups, k...]; it
        need not be constant.
    aten.linear(x, weight, bias?)   x rank >= 2, weight [out, in] is constant; linear, addmm, mm,
                                    matmul by a constant matrix
    aten.matmul(a, b)               equal rank >= 2, batch dims broadcast; mm, bmm, matmul, dot, mv,
                                    baddbmm, ...

Normalization
    aten.batch_norm(x, weight?, bias?, running_mean, running_var, eps)   inference; channels: dim 1
    aten.layer_norm(x, normalized_shape, weight?, bias?, eps)
    aten.rms_norm(x, normalized_shape, weight?, eps)
    aten.group_norm(x, num_groups, weight?, bias?, eps)   instance_norm: as many groups as channels
    aten.softmax(x, dim)   aten.log_softmax(x, dim)

Pooling and resize (x has batch and channel dims; 1-D ones are 2-D with height 1 between views)
    aten.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode)    pairs; default stride filled
    aten.avg_pool2d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override?)
    aten.max_pool3d, aten.avg_pool3d        the same with triples
    aten.max_pool2d_with_indices(...)       only where the indices are used: two results
    aten.adaptive_avg_pool2d(x, output_size)    only where the size does not divide; otherwise
                                            mean.dim or avg_pool2d (max: amax, max_pool2d)
    aten.upsample_nearest2d(x, output_size, scales_h?, scales_w?)   _upsample_nearest_exact2d: same
    aten.upsample_bilinear2d(x, output_size, align_corners, scales_h?, scales_w?)
                                            also upsample_bicubic2d

Reductions (dim: sorted tuple, all dims where ATen means all; a dtype argument is an aten.to before)
    aten.mean.dim(x, dim, keepdim)   aten.sum.dim_IntList(x, dim, keepdim)
    aten.prod.dim_int(x, dim, keepdim)      dim is a tuple here too
    aten.amax(x, dim, keepdim)       aten.amin(x, dim, keepdim)    max, min, max.dim, aminmax
    aten.any.dims(x, dim, keepdim)   aten.all.dims(x, dim, keepdim)          x BOOL
    aten.var.correction(x, dim, *, correction, keepdim)            correction is a number
    aten.std.correction(x, dim, *, correction, keepdim)
    aten.argmax(x, dim, keepdim)     aten.argmin(x, dim, keepdim)  dim is one int; INT64 result;
                                                                   max.dim (indices)
    aten.cumsum(x, dim)              aten.cumprod(x, dim)

Pointwise, two operands (they broadcast; ranks may differ)
    aten.add.Tensor(a, b, *, alpha)  aten.sub.Tensor(a, b, *, alpha)   alpha a number: a + alpha * b
    aten.mul.Tensor(a, b)            aten.div.Tensor(a, b, *, rounding_mode)  None (float) | "trunc"
                                     | "floor"; floor_divide
    aten.maximum(a, b)  aten.minimum(a, b)      clamp.Tensor, max.other;  aten.fmax, aten.fmin
    aten.remainder.Tensor(a, b)  aten.fmod.Tensor(a, b)  aten.atan2(a, b)
    aten.pow.Tensor_Scalar(x, exponent: number)   square
    aten.pow.Tensor_Tensor(a, b)                  pow.Scalar has a 0-d constant base
    aten.{eq,ne,gt,ge,lt,le}.Tensor(a, b)         BOOL result
    aten.logical_{and,or,xor}(a, b)               BOOL operands; also bitwise_* of BOOL
    aten.bitwise_{and,or,xor,left_shift,right_shift}.Tensor(a, b)             integers
    aten.where(condition, a, b)                   where.*, masked_fill.*, tril, triu
    aten.prelu(x, weight)

Pointwise, one operand
    aten.clamp(x, min, max)          numbers or None; relu, relu6, hardtanh, clamp_min, clamp_max,
                                     clip. An infinite bound is None
    aten.{abs,neg,sign,floor,ceil,round,trunc,exp,expm1,exp2,log,log1p,log2,log10,sqrt,rsqrt,
          reciprocal,erf,erfinv,sin,cos,tan,asin,acos,atan,sinh,cosh,tanh,asinh,acosh,atanh,
          sigmoid,hardsigmoid,hardswish,silu,mish,log_sigmoid}(x)
    aten.round.decimals(x, *, decimals)    aten.logit(x, eps?)    aten.gelu(x, *, approximate)
    aten.elu(x, alpha, scale, input_scale)   selu, celu           aten.leaky_relu(x, slope)
    aten.softplus(x, beta, threshold)      aten.hardshrink(x, lambd)   aten.softshrink(x, lambd)
    aten.threshold(x, threshold, value)    aten.glu(x, dim)
    aten.logical_not(x) BOOL   aten.bitwise_not(x) integers
    aten.to(x, dtype)                to.*, _to_copy, type_as, float(), ...; never to its own dtype

Indexing (indices INT64 or INT32)
    aten.embedding(weight, indices)   aten.index_select(x, dim, index)   aten.gather(x, dim, index)
    aten.index.Tensor(x, indices: list of T or None)    two or more index tensors; one (of any rank,
                                      or a constant boolean vector) is index_select
    aten.index_put(x, indices, values, accumulate)
    aten.index_copy(x, dim, index, source)   aten.index_add(x, dim, index, source, *, alpha)
    aten.scatter.src(x, dim, index, src)     aten.scatter_add(x, dim, index, src)
    aten.topk(x, k, dim, largest, sorted)    aten.sort(x, dim, descending)

Control flow and quantization
    aten.cond(pred, inputs...)        regions (true, false), their inputs are `inputs...`; results =
                                      outputs of either
    aten.while_loop(inputs...)        regions (condition, body) with the same inputs; body's outputs
                                      and the results correspond to the inputs one to one
    aten.fft_rfft2(x)                 two FP32 results, real and imaginary part
    quantized_decomposed.quantize_per_tensor(x)      FP32 -> the quantized type of the result
    quantized_decomposed.dequantize_per_tensor(x)    quantized -> FP32
    quantized_decomposed.requantize(x)               quantized -> the (other) quantized type
    (args = (x,): the parameters stand in the types, per channel as well)

Quantized ops (after `fold_qdq`): every float operand and result has `type.quant`, except weight,
bias and statistics of norms and prelu's weight, which may stay FP32 constants. Codes are INT8 or
INT16 (those of a uint8 quantizer are shifted by 128; only a graph input or output that the program
itself has as uint8 is UINT8, with a requantize). A bias of convolution or linear is INT32 (INT48
beside INT16 activations) with scale = x.scale * weight.scale. A constant of one number beside a
quantized operand has the scale that makes it exact, larger ones a per-tensor scale of their own.
Ops that move or choose elements (all data movement, index ops but index_add, where, maximum,
minimum, clamp, amax, amin, max_pool, upsample_nearest) have one and the same quantization on all
operands and the result. The value of `pad` and the bounds of `clamp` stay real numbers.
"""

from __future__ import annotations

from functools import cache

from npuc.errors import Unsupported
from npuc.frontend.fold_constants import EVALUATED
from npuc.frontend.placed import placed
from npuc.frontend.spellings import SPELLINGS, Speller
from npuc.ir import Graph, Op, Value, sweep, unpack


def canonicalize(graph: Graph) -> Graph:
    """`graph` (as imported) with every op in its canonical form. One sweep.

    Raises Unsupported for ops that no target can have (dynamic quantization, ...).
    """
    builder = Speller()
    builder.read = _read_values(graph)
    return sweep(graph, _respell, builder)


@cache
def spelled_kinds(known: frozenset[str]) -> frozenset[str]:
    """Imported kinds that end in `known` canonical kinds: no other expansion is needed for them."""
    spelled = {kind for kind, spelling in SPELLINGS.items() if spelling.into <= known}
    return frozenset(spelled | EVALUATED | {kind for kind in known if kind not in SPELLINGS})


def _read_values(graph: Graph) -> frozenset[Value]:
    """All values that an op or an output reads, those in regions included."""
    read = {v for op in graph.walk() for v in op.operands} | set(graph.outputs)
    for op in graph.walk():
        for region in op.regions:
            read |= set(region.outputs)
    return frozenset(read)


def _respell(c: Speller, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
    spelling = SPELLINGS.get(op.kind)
    if spelling is None:
        return None
    args, kwargs = unpack(op, operands)
    c.op, c.out = op, tuple([r.type for r in op.results])
    try:
        made = spelling.respell(c, *args, **kwargs)
    except Unsupported as error:
        raise placed(error, op.loc.op or op.kind, op.loc) from None
    if made is None:
        return None
    results = made if isinstance(made, tuple) else (made,)
    # Statistics that norms also return have no canonical op: whoever reads them is refused later.
    missing = range(len(results), len(op.results))
    return None if any(c.is_used(index) for index in missing) else results
