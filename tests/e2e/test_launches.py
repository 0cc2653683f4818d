"""Shapes of launches: large grids, many small kernels, local memory, several outputs, scratch, custom kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tinygrad import Context, Device, Tensor
from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.engine.realize import run_linear, time_call
from tinygrad.uop.ops import KernelInfo, Ops, UOp

from .numerics import Array, array, same, some, tensor


def optimised(t: Tensor, opts: Sequence[Opt]) -> Array:
    """The value of ``t``, computed by one kernel to which exactly ``opts`` are applied."""
    linear = t.schedule_linear()
    sinks = [u for u in linear.toposort() if u.op is Ops.SINK]
    assert len(sinks) == 1
    run_linear(linear.substitute({s: s.replace(arg=replace(s.arg, opts_to_apply=tuple(opts))) for s in sinks}))
    return array(t)


@pytest.mark.parametrize("shape", [(70000,), (300, 300), (2, 3, 4, 5, 6, 7), (5000, 1), (1, 5000)], ids=str)
def test_grids_of_many_workgroups(shape: tuple[int, ...]) -> None:
    x = some("int32", shape)
    same(array(tensor(x) ^ 0x1234567), x ^ 0x1234567)


def test_grid_in_three_dimensions() -> None:
    """Every element says where it is, so a wrong workgroup id or work-item id shows."""
    x = Tensor.arange(9)[:, None, None] * 10000 + Tensor.arange(33)[None, :, None] * 100 + Tensor.arange(18)
    z, y, i = np.mgrid[0:9, 0:33, 0:18].astype(np.int32)
    same(array(x.contiguous()), z * 10000 + y * 100 + i)


@pytest.mark.parametrize("n", [1, 7, 31, 33, 63, 65, 127, 129])
def test_partly_filled_waves(n: int) -> None:
    x = some("int32", (n, 3))
    same(array(tensor(x).flip(1).contiguous() + 1), x[:, ::-1] + 1)


def test_hundreds_of_launches_in_order() -> None:
    x = tensor(np.zeros(3, np.int32))
    for _ in range(400):
        x.assign(x * 3 + 1).realize()
    want = np.zeros(3, np.int32)
    for _ in range(400):
        want = want * np.int32(3) + np.int32(1)
    same(array(x), want)


def test_launches_in_flight_before_any_is_awaited() -> None:
    tensors = [(Tensor.full((17,), i, dtype="int32").contiguous() * 2).realize() for i in range(50)]
    for i, t in enumerate(tensors):
        same(array(t), np.full(17, 2 * i, np.int32))


OPTS = {
    "none": [],
    "local": [Opt(OptOps.LOCAL, 0, 8)],
    "upcast": [Opt(OptOps.UPCAST, 0, 4)],
    "group": [Opt(OptOps.GROUP, 0, 8)],
    "group at the top": [Opt(OptOps.GROUPTOP, 0, 16)],
    "group all and local": [Opt(OptOps.LOCAL, 0, 4), Opt(OptOps.GROUP, 0, 32)],
    "unroll": [Opt(OptOps.UNROLL, 0, 4)],
    "local, upcast and unroll": [Opt(OptOps.LOCAL, 0, 4), Opt(OptOps.UPCAST, 0, 2), Opt(OptOps.UNROLL, 0, 8)],
}


@pytest.mark.usefixtures("on_amd")
@pytest.mark.parametrize("name", OPTS)
def test_reduction_under_optimisations(name: str) -> None:
    """The same sum with work spread over lanes, local memory and registers in different ways."""
    x = some("int32", (16, 128))
    same(optimised(tensor(x).sum(1), OPTS[name]), x.sum(1, dtype=np.int32))


@pytest.mark.usefixtures("on_amd")
def test_matrix_product_through_local_memory() -> None:
    a, b = (some("int8", (32, 64), "a") >> 4).astype(np.float32), (some("int8", (64, 32), "b") >> 4).astype(np.float32)
    got = optimised(tensor(a) @ tensor(b), [Opt(OptOps.LOCAL, 1, 16), Opt(OptOps.GROUPTOP, 0, 8)])
    same(got, a @ b, signed_zeros=False)


def test_without_optimisations() -> None:
    x = some("int32", (12, 40))
    with Context(NOOPT=1):
        same(array((tensor(x) + 1).sum(0)), (x + 1).sum(0, dtype=np.int32))


def test_kernel_with_two_outputs() -> None:
    def kernel(total: UOp, difference: UOp, a: UOp, b: UOp) -> UOp:
        i = UOp.range(total.shape[0], 0)
        both = UOp.group(total[i].store(a[i] + b[i]), difference[i].store(a[i] - b[i]))
        return both.end(i).sink(arg=KernelInfo(name="sum_and_difference", opts_to_apply=()))

    a, b = some("int32", 40, "a"), some("int32", 40, "b")
    outputs = [Tensor.empty(40, dtype="int32"), Tensor.empty(40, dtype="int32")]
    total, difference = Tensor.custom_kernel(*outputs, tensor(a), tensor(b), fxn=kernel)[:2]
    Tensor.realize(total, difference)
    same(array(total), a + b)
    same(array(difference), a - b)


def test_private_arrays_live_in_scratch_memory() -> None:
    """A table indexed by data cannot stay in registers, so the compiler puts it into scratch."""
    x = some("int32", (64, 24))
    values, order = tensor(x).sort(1)
    same(array(values), np.sort(x, 1))
    same(array(order), np.argsort(x, 1, kind="stable").astype(np.int32))


def test_timing_of_a_kernel_is_positive_and_grows() -> None:
    """The device clock advances with work: a larger kernel takes longer by tinygrad's own time stamps."""

    def seconds(n: int) -> float:
        x = Tensor.empty(n, dtype="int32").realize()
        call = next(u for u in (x + 1).schedule_linear().toposort() if u.op is Ops.CALL)
        return next(time_call(call))

    assert 0 < seconds(64) < seconds(1 << 16)


def test_device_reports_its_architecture() -> None:
    assert Device[Device.DEFAULT].arch.startswith(("gfx", "x86_64"))
