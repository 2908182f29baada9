"""The builder: equal ops are one op, constants are one constant, dead ops are dropped."""

import numpy as np
import pytest

from npuc.ir import (
    Builder,
    DType,
    Graph,
    Quant,
    SymbolicShape,
    SymDim,
    TensorType,
    Value,
    apply_moves,
    before_reshape,
    remove_dead,
    sweep,
)

I8 = TensorType(DType.INT8, (1, 4), Quant(0.5, 3))


def add(b: Builder, x: Value, y: Value, **attrs) -> Value:
    return b.emit("test.add", (x, y), attrs, (x.type,))[0]


def test_equal_ops_are_one():
    b = Builder()
    x = b.input(I8, "x")
    assert add(b, x, x, a=1) is add(b, x, x, a=1)
    assert add(b, x, x, a=1) is not add(b, x, x, a=2)


@pytest.mark.parametrize("one, other", [(1, 1.0), (1, True), (0.0, -0.0), ((1,), (1.0,))])
def test_attributes_that_compare_equal_in_python_keep_ops_apart(one, other):
    b = Builder()
    x = b.input(I8, "x")
    assert add(b, x, x, a=one) is not add(b, x, x, a=other)


def test_side_effects_are_never_merged():
    b = Builder()
    x = b.input(I8, "x")
    first = b.emit("tosa.VARIABLE_WRITE", (x,), {"name": "s"}, ())
    b.emit("tosa.VARIABLE_WRITE", (x,), {"name": "s"}, ())
    assert first == ()
    assert len(b.finish([x]).ops) == 2


def test_constants_are_one_by_content_or_identity():
    b = Builder()
    small = b.const(np.arange(4, dtype=np.int8))
    assert b.const(np.arange(4, dtype=np.int8)) is small
    assert b.const(np.arange(4, dtype=np.int16)) is not small
    large = np.zeros((100, 100), np.float32)
    assert b.const(large) is b.const(large)
    assert b.const(large) is not b.const(large.T)
    assert b.const(large) is not b.const(large.copy())


def test_a_constant_is_a_view():
    weights = np.zeros((64, 64), np.float32)
    assert np.shares_memory(Builder().const(weights).array, weights)


def test_verify_runs_on_new_ops_only():
    seen = []
    b = Builder(lambda kind, operands, attrs, types: seen.append(kind))
    x = b.input(I8, "x")
    add(b, x, x)
    add(b, x, x)
    assert seen == ["test.add"]


def test_finish_drops_dead_ops_and_their_origins():
    b = Builder()
    x = b.input(I8, "x")
    y, dead = add(b, x, x, a=1), add(b, x, x, a=2)
    g = b.finish([y], origins={"y": (y, None), "dead": (dead, None), "x": (x, None)})
    assert [op.attrs["a"] for op in g.ops] == [1]
    assert set(g.origins) == {"x", "y"}


def _with_region() -> Graph:
    inner = Builder()
    p = inner.input(I8, "p")
    outer = Builder()
    x = outer.input(I8, "x")
    captured = add(outer, x, x, a=1)
    region = inner.finish([add(inner, p, captured)], "then")
    (y,) = outer.emit("tosa.COND_IF", (x, x), {}, (I8,), [region, region])
    return outer.finish([y])


def test_values_captured_by_a_region_live():
    assert [op.kind for op in _with_region().ops] == ["test.add", "tosa.COND_IF"]


def test_sweep_rewrites_regions_and_maps_what_they_capture():
    def double(b, op, operands):
        return (add(b, *operands, a=9),) if op.kind == "test.add" else None

    g = sweep(_with_region(), double, Builder())
    (inner,) = g.ops[-1].regions[0].ops
    assert inner.attrs["a"] == 9
    assert inner.operands[1] is g.ops[0].results[0]


def test_sweep_keeps_origins_of_what_keeps_its_shape():
    b = Builder()
    x = b.input(I8, "x")
    y = add(b, x, x)
    z = add(b, y, y)
    turned = (("TRANSPOSE", (1, 0)),)
    g = b.finish([z], origins={"y": (y, turned), "z": (z, None)})

    def reshape_y(shape):
        def rewrite(b, op, operands):
            if op.results[0] is not y:
                return None
            return b.emit("test.flat", operands[:1], {}, (TensorType(DType.INT8, shape),))

        return rewrite

    assert set(sweep(g, reshape_y((2, 2)), Builder()).origins) == {"z"}
    flat = sweep(g, reshape_y((4,)), Builder()).origins
    assert set(flat) == {"y", "z"} and flat["y"][1] == (("RESHAPE", (1, 4)), *turned)
    assert sweep(g, lambda *a: None, Builder()).origins["y"][1] == turned


def test_remove_dead_keeps_inputs():
    b = Builder()
    x, unused = b.input(I8, "x"), b.input(I8, "unused")
    g = remove_dead(b.finish([add(b, x, x)]))
    assert [v.name for v in g.inputs] == [x.name, unused.name]


def test_building_is_linear():
    """Four times as many ops take about four times as long, not sixteen."""
    import gc
    import time

    def seconds(n):
        b = Builder()
        v = x = b.input(I8, "x")
        start = time.process_time()
        for i in range(n):
            v = add(b, v, x, a=i)
        b.finish([v])
        return time.process_time() - start

    gc.disable()
    try:
        small = min(seconds(4_000) for _ in range(3))
        assert min(seconds(16_000) for _ in range(3)) < 9 * small
    finally:
        gc.enable()


def test_symbolic_shapes_have_a_symbolic_size():
    n = SymDim("n", 1, 8)
    t = TensorType(DType.FP32, (n, 4))
    assert not t.is_static and t.size == 4 * n
    with pytest.raises(SymbolicShape, match=r"n .1..8. is known only at run time"):
        _ = t.nbytes


def test_origins_survive_through_what_carries_their_elements():
    """A dead value is found again in the operand of the RESHAPE or TRANSPOSE that made it, or in
    the value that a pass says carries it."""
    b = Builder()
    x = b.input(TensorType(DType.INT8, (2, 3)), "x")
    y = add(b, x, x)
    flat = b.emit("tosa.RESHAPE", (y,), {}, (TensorType(DType.INT8, (6,)),))[0]
    turned = b.emit("tosa.TRANSPOSE", (y,), {"perms": (1, 0)}, (TensorType(DType.INT8, (3, 2)),))[0]
    moved = add(b, turned, turned, a=1)
    b.carried[moved] = (y, (1, 0))
    both = b.emit("tosa.TRANSPOSE", (flat,), {"perms": (0,)}, (flat.type,))[0]
    rows = b.emit("tosa.RESHAPE", (turned,), {}, (TensorType(DType.INT8, (1, 6)),))[0]
    again = b.emit("tosa.TRANSPOSE", (rows,), {"perms": (1, 0)}, (TensorType(DType.INT8, (6, 1)),))
    named = {
        "flat": flat, "both": both, "turned": turned, "moved": moved, "rows": rows,
        "again": again[0],
    }  # fmt: skip
    g = b.finish([y], origins={name: (value, None) for name, value in named.items()})
    turn = (("TRANSPOSE", (1, 0)),)
    assert g.origins == {
        "flat": (y, None), "both": (y, None), "turned": (y, turn), "moved": (y, turn),
        "rows": (y, turn), "again": (y, (*turn, ("RESHAPE", (1, 6)), *turn)),
    }  # fmt: skip


def test_moves_of_a_value_that_a_later_pass_moves_again():
    """[1, 6] is [2, 3] flattened, and later the transpose of [3, 2]: not one of [6, 1]."""
    b = Builder()
    x = b.input(TensorType(DType.INT8, (3, 2)), "x")
    turned = b.emit("tosa.TRANSPOSE", (x,), {"perms": (1, 0)}, (TensorType(DType.INT8, (2, 3)),))[0]
    flat = b.emit("tosa.RESHAPE", (turned,), {}, (TensorType(DType.INT8, (1, 6)),))[0]
    g = b.finish([turned], origins={"flat": (flat, None)})
    assert g.origins["flat"] == (g.outputs[0], None)
    later = Builder()
    x = later.input(TensorType(DType.INT8, (3, 2)), "x")
    value = later.emit("tosa.TRANSPOSE", (x,), {"perms": (1, 0)}, (turned.type,))[0]
    moves = later.finish([x], origins={"flat": (value, None)}).origins["flat"][1]
    array = np.arange(6).reshape(3, 2)
    np.testing.assert_array_equal(apply_moves(array, moves).reshape(-1), array.T.reshape(-1))


def test_moves_through_sizes_known_at_run_time():
    n, m = SymDim("n", 1, 8), SymDim("m", 1, 8)
    turn = (("TRANSPOSE", (1, 0, 2)),)
    moves = before_reshape((3, n, m), (n, 3, m), turn)
    assert moves == (("RESHAPE", (~1, 3, ~2)), *turn)
    array = np.arange(60).reshape(3, 4, 5)
    wanted = array.reshape(4, 3, 5).transpose(1, 0, 2)
    np.testing.assert_array_equal(apply_moves(array, moves), wanted)
    flat = array.reshape(3, 20)
    moves = before_reshape((3, n * m), (n, 3, 5), turn)
    np.testing.assert_array_equal(apply_moves(flat, moves), wanted)
    assert apply_moves(flat, before_reshape((3, n * m), (n, 3, m), turn)) is None
