"""What each op means for quantization: data, written by the meaning of the op.

An op that is not listed computes something new: its float operands are quantized as they come
and its result has a range of its own. So every op is quantized unless this file says otherwise.
Names are ATen op names without overload; all overloads of an op mean the same.
"""

from __future__ import annotations

from enum import Enum

from npuc.lowering.custom_ops import is_quantized_custom


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


class Role(Enum):
    """How the parameters of an op's result relate to those of its operands."""

    OWN = "a range of its own"
    SHARE = "the parameters of its operands"
    POOL = "the parameters of its operand, or a range of its own where that is much smaller"
    CLAMP = "a monotone clamp: part of the op in front, else the parameters of its operand"
    COMPARE = "operands share parameters, the result is boolean"
    FLOAT = "stays float"


# Only the position of elements changes; a clamp behind them can act in front of them.
LAYOUT = names(
    """
    view reshape _unsafe_view view_as flatten unflatten squeeze unsqueeze permute transpose t mT
    mH numpy_T movedim moveaxis swapaxes swapdims contiguous clone detach alias lift_fresh
    lift_fresh_copy
    """
)

# They read one tensor and keep its type, whatever that is.
ONE_OPERAND_MOVES = names(
    """
    slice select narrow split split_with_sizes chunk unbind tensor_split expand repeat flip
    getitem
    """
)

# The result consists of elements of the operands, or of means of them.
_SHARE = LAYOUT | names(
    """
    expand expand_as broadcast_to broadcast_tensors repeat tile repeat_interleave slice select
    narrow split split_with_sizes chunk unbind tensor_split unsafe_split unsafe_chunk
    unsafe_split_with_sizes diagonal cat concat concatenate stack hstack vstack dstack
    column_stack block_diag flip fliplr flipud roll rot90 pad constant_pad_nd reflection_pad1d
    reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    pixel_shuffle pixel_unshuffle channel_shuffle unfold im2col as_strided gather index
    _unsafe_index index_select take take_along_dim embedding select_scatter slice_scatter
    diagonal_scatter index_put _unsafe_index_put index_copy index_fill scatter masked_fill
    masked_scatter where tril triu copy fill max min amax amin maximum minimum fmax fmin median
    nanmedian kthvalue sort topk mode max_pool1d max_pool2d max_pool3d max_pool2d_with_indices
    max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
    upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d
    _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
    upsample_trilinear3d _upsample_bilinear2d_aa to _to_copy type_as float dropout
    feature_dropout alpha_dropout nan_to_num
    """
)

_POOL = names(
    """
    avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    _adaptive_avg_pool2d _adaptive_avg_pool3d
    """
)

_CLAMP = names("relu relu6 hardtanh clamp clamp_min clamp_max clip")

_COMPARE = names("eq ne lt le gt ge equal isclose")

# Complex values and random numbers.
_FLOAT_PREFIXES = ("fft_", "_fft", "stft", "istft", "rand", "bernoulli", "normal", "complex")

# Lower and upper end of what the function can give, whatever its operand is.
FIXED_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("sigmoid", "softmax", "_softmax", "_safe_softmax"), (0.0, 1.0)),
    "tanh": (-1.0, 1.0),
}

# Position of the constant weight, its axis of output channels, and the position of the bias.
WEIGHTED: dict[str, tuple[int, int, int]] = {
    **{f"conv{n}d": (1, 0, 2) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": (1, 1, 2) for n in (1, 2, 3)},
    "linear": (1, 0, 2),
}

# Their constant operands are parameters of a formula and stay float.
FLOAT_PARAMETERS = names(
    """
    layer_norm native_layer_norm group_norm native_group_norm instance_norm rms_norm
    _fused_rms_norm native_batch_norm prelu _prelu_kernel
    """
)

# Multiplications: by a positive constant they only change the scale.
SCALING = frozenset(("mul", "div", "true_divide"))

# Products of two computed matrices.
PRODUCTS = frozenset(("matmul", "mm", "bmm", "linear"))

SOFTMAX = frozenset(("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax"))

# One op for the quantizer: an integer rule computes it whole. Whatever is expanded instead gets
# inner ranges that calibration must find. These are expanded, because they truly have inner ranges.
EXPANDED = names(
    """
    scaled_dot_product_attention lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell
    rnn_relu_cell einsum addbmm addmv addr glu cosine_similarity pairwise_distance cdist
    linalg_vector_norm norm linalg_norm logsumexp addcmul addcdiv lerp bilinear
    local_response_norm cross_entropy_loss std std_mean var_mean outer dot inner tensordot kron
    batch_norm _native_batch_norm_legit_no_training native_batch_norm _native_batch_norm_legit
    """
)


def op_name(kind: str) -> str:
    """ "add" of "aten.add.Tensor"; ops of other namespaces keep their full kind."""
    namespace, _, rest = kind.partition(".")
    return rest.partition(".")[0] if namespace == "aten" else kind


def role_of(kind: str) -> Role:
    """The role of an op of this kind."""
    name = op_name(kind)
    if is_quantized_custom(kind):
        return Role.OWN
    if name in _SHARE:
        return Role.SHARE
    if name in _POOL:
        return Role.POOL
    if name in _CLAMP:
        return Role.CLAMP
    if name in _COMPARE:
        return Role.COMPARE
    if "." in name or name.startswith(_FLOAT_PREFIXES):
        return Role.FLOAT
    return Role.OWN


def is_expanded(kind: str) -> bool:
    """Whether the op is replaced by its parts before it is quantized."""
    return op_name(kind) in EXPANDED
