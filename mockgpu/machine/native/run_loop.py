"""The loop around handlers, as LLVM text: starts the waves of workgroups, chooses which runs, releases barriers.

One call runs workgroups until none is left or Python is needed. Its state is the thread's context
(:data:`~mockgpu.machine.native.layout.CONTEXT`) and the headers of the waves.
"""

from __future__ import annotations

from mockgpu.machine.native.layout import CONTEXT, HEADER, RECORD_BYTES, SGPR, VGPR, Reason, field
from mockgpu.machine.waves import BARRIER, RUNNING, SCALARS, TTMP

SYMBOL = "mockgpu_run"
KEY = "runtime|run_loop"

#: Byte offsets of the registers in which trap handlers of later targets find the workgroup's id.
PACKED_X, PACKED_YZ = SGPR + 4 * (TTMP + 9), SGPR + 4 * (TTMP + 7)


class _Text:
    """Lines of LLVM text with numbered values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    def value(self, expression: str) -> str:
        self.count += 1
        name = f"%t{self.count}"
        self.lines.append(f"  {name} = {expression}")
        return name

    def at(self, base: str, offset: int | str) -> str:
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def context(self, name: str) -> str:
        return self.value(f"load i64, ptr {self.at('%ctx', field(CONTEXT, name))}, align 8")

    def set_context(self, name: str, value: str | int) -> None:
        self(f"  store i64 {value}, ptr {self.at('%ctx', field(CONTEXT, name))}, align 8")

    def add_context(self, name: str, amount: int) -> str:
        changed = self.value(f"add i64 {self.context(name)}, {amount}")
        self.set_context(name, changed)
        return changed

    def set_header(self, wave: str, name: str, kind: str, value: str | int) -> None:
        self(f"  store {kind} {value}, ptr {self.at(wave, field(HEADER, name))}")


def text() -> str:
    """The module."""
    t = _Text()
    t(f"define i64 @{SYMBOL}(ptr %ctx) {{")
    t("entry:\n  br label %pick")
    _pick(t)
    _nobody(t)
    _run(t)
    _next_group(t)
    _start_wave(t)
    for reason in (Reason.DONE, Reason.DEADLOCK, Reason.TURNS, Reason.END_RETURN):
        t(f"{reason.name}:\n  ret i64 {int(reason)}")
    t("}")
    _fill_function(t)
    _copy_function(t)
    return "\n".join(t.lines)


def _wave(t: _Text, index: str) -> str:
    offset = t.value(f"mul i64 {index}, {t.context('wave_stride')}")
    waves = t.value(f"inttoptr i64 {t.context('waves')} to ptr")
    return t.at(waves, offset)


def _pick(t: _Text) -> None:
    """The next running wave from ``current`` on, round robin."""
    t("pick:")
    none = t.value(f"icmp eq i64 {t.context('live')}, 0")
    t(f"  br i1 {none}, label %next_group, label %search")
    t("search:")
    count, first = t.context("wave_count"), t.context("current")
    t("  br label %look")
    t("look:")
    t("  %tried = phi i64 [0, %search], [%tried1, %not_this]")
    t(f"  %index = phi i64 [{first}, %search], [%index2, %not_this]")
    over = t.value(f"icmp eq i64 %tried, {count}")
    t(f"  br i1 {over}, label %nobody, label %test")
    t("test:")
    past = t.value(f"icmp sge i64 %index, {count}")
    t(f"  %index1 = select i1 {past}, i64 0, i64 %index")
    wave = _wave(t, "%index1")
    state = t.value(f"load i8, ptr {t.at(wave, field(HEADER, 'state'))}")
    runs = t.value(f"icmp eq i8 {state}, {RUNNING}")
    t(f"  br i1 {runs}, label %run, label %not_this")
    t("not_this:\n  %tried1 = add i64 %tried, 1\n  %index2 = add i64 %index1, 1\n  br label %look")


def _nobody(t: _Text) -> None:
    """No wave runs: release those at the barrier, if there are any."""
    t("nobody:\n  br label %release")
    t("release:")
    t("  %k = phi i64 [0, %nobody], [%k1, %released]")
    t("  %freed = phi i1 [false, %nobody], [%freed1, %released]")
    over = t.value(f"icmp eq i64 %k, {t.context('wave_count')}")
    t(f"  br i1 {over}, label %decide, label %free")
    t("free:")
    wave = _wave(t, "%k")
    place = t.at(wave, field(HEADER, "state"))
    state = t.value(f"load i8, ptr {place}")
    waits = t.value(f"icmp eq i8 {state}, {BARRIER}")
    new = t.value(f"select i1 {waits}, i8 {RUNNING}, i8 {state}")
    t(f"  store i8 {new}, ptr {place}")
    t(f"  %freed1 = or i1 %freed, {waits}")
    t("  br label %released")
    t("released:\n  %k1 = add i64 %k, 1\n  br label %release")
    t("decide:")
    t("  br i1 %freed, label %again, label %DEADLOCK")
    t("again:")
    t.set_context("current", 0)
    t("  br label %pick")


def _run(t: _Text) -> None:
    t("run:")
    t.set_context("current", "%index1")
    offset = t.value(f"mul i64 %index1, {t.context('wave_stride')}")
    waves = t.value(f"inttoptr i64 {t.context('waves')} to ptr")
    t(f"  %wave = getelementptr i8, ptr {waves}, i64 {offset}")
    place = t.at("%wave", field(HEADER, "record"))
    record = t.value(f"inttoptr i64 {t.value(f'load i64, ptr {place}')} to ptr")
    handler = t.value(f"load ptr, ptr {record}")
    t(f"  %why = call i64 {handler}(ptr %wave, ptr {record}, ptr %ctx)")
    t(f"  switch i64 %why, label %back [ i64 {int(Reason.END)}, label %ended")
    t(f"    i64 {int(Reason.BARRIER)}, label %barrier  i64 {int(Reason.TURN)}, label %turn ]")
    t("back:\n  ret i64 %why")
    t("ended:")
    t.add_context("live", -1)
    t.add_context("ended", 1)
    t.add_context("current", 1)
    tells = t.value(f"icmp ne i64 {t.context('returns_at_end')}, 0")
    t(f"  br i1 {tells}, label %END_RETURN, label %pick")
    t("barrier:")
    behind = t.value(f"add i64 {t.context('exit_record')}, {RECORD_BYTES}")
    t.set_header("%wave", "record", "i64", behind)
    t.add_context("current", 1)
    t("  br label %pick")
    t("turn:")
    t.set_header("%wave", "record", "i64", t.context("exit_record"))
    t.set_context("budget", t.context("slice"))
    t.add_context("current", 1)
    left = t.add_context("turns", -1)
    over = t.value(f"icmp sle i64 {left}, 0")
    t(f"  br i1 {over}, label %TURNS, label %pick")


def _next_group(t: _Text) -> None:
    """Take the next workgroup off the shared counter and put its id and its LDS in order."""
    t("next_group:")
    shared = t.value(f"inttoptr i64 {t.context('next_group')} to ptr")
    t(f"  %group = atomicrmw add ptr {shared}, i64 1 seq_cst, align 8")
    over = t.value(f"icmp sge i64 %group, {t.context('group_count')}")
    t(f"  br i1 {over}, label %DONE, label %begin")
    t("begin:")
    t.set_context("group", "%group")
    t.set_context("current", 0)
    t.set_context("live", t.context("wave_count"))
    width, height = t.context("grid_x"), t.context("grid_y")
    row = t.value(f"udiv i64 %group, {width}")
    x = t.value(f"add i64 {t.value(f'urem i64 %group, {width}')}, {t.context('start_x')}")
    y = t.value(f"add i64 {t.value(f'urem i64 {row}, {height}')}, {t.context('start_y')}")
    z = t.value(f"add i64 {t.value(f'udiv i64 {row}, {height}')}, {t.context('start_z')}")
    for name, value in (("x", x), ("y", y), ("z", z)):
        t(f"  %id_{name} = trunc i64 {value} to i32")
    high = t.value("shl i32 %id_z, 16")
    t(f"  %id_yz = or i32 %id_y, {high}")
    lds = t.value(f"inttoptr i64 {t.context('lds')} to ptr")
    t(f"  call void @mockgpu_zero(ptr {lds}, i64 {t.context('lds_size')})")
    t("  br label %start")


def _start_wave(t: _Text) -> None:
    """Put every wave of the workgroup in its initial state."""
    t("start:\n  %n = phi i64 [0, %begin], [%n1, %started]")
    over = t.value(f"icmp eq i64 %n, {t.context('wave_count')}")
    t(f"  br i1 {over}, label %pick, label %fresh")
    t("fresh:")
    wave = _wave(t, "%n")
    t.set_header(wave, "pc", "i64", t.context("entry_pc"))
    t.set_header(wave, "record", "i64", t.context("entry_record"))
    mode = t.value(f"trunc i64 {t.context('mode')} to i32")
    t.set_header(wave, "mode", "i32", mode)
    for name in ("trapsts", "sched_mode", "trap_ctrl"):
        t.set_header(wave, name, "i32", 0)
    t.set_header(wave, "scc", "i8", 0)
    t.set_header(wave, "state", "i8", RUNNING)
    scalars = t.value(f"inttoptr i64 {t.context('scalars')} to ptr")
    source = t.at(scalars, t.value(f"mul i64 %n, {4 * SCALARS}"))
    t(f"  call void @mockgpu_copy(ptr {t.at(wave, SGPR)}, ptr {source}, i64 {4 * SCALARS})")
    for name in ("x", "y", "z"):
        _store_id(t, wave, t.context(f"id_{name}"), f"%id_{name}", name)
    packed = t.value(f"icmp ne i64 {t.context('packed_ids')}, 0")
    t(f"  br i1 {packed}, label %pack, label %vectors")
    t("pack:")
    t(f"  store i32 %id_x, ptr {t.at(wave, PACKED_X)}")
    t(f"  store i32 %id_yz, ptr {t.at(wave, PACKED_YZ)}")
    t("  br label %vectors")
    t("vectors:")
    vectors = t.at(wave, VGPR)
    t(f"  call void @mockgpu_zero(ptr {vectors}, i64 {t.context('vgpr_bytes')})")
    accs = t.at(wave, t.context("acc_offset"))
    t(f"  call void @mockgpu_zero(ptr {accs}, i64 {t.context('acc_bytes')})")
    items = t.value(f"inttoptr i64 {t.context('items')} to ptr")
    t(f"  %item_bytes = load i64, ptr {t.at('%ctx', field(CONTEXT, 'item_bytes'))}")
    own = t.at(items, t.value("mul i64 %n, %item_bytes"))
    t(f"  call void @mockgpu_copy(ptr {vectors}, ptr {own}, i64 %item_bytes)")
    t("  br label %started")
    t("started:\n  %n1 = add i64 %n, 1\n  br label %start")


def _store_id(t: _Text, wave: str, offset: str, value: str, name: str) -> None:
    """Store a workgroup id where the kernel wants it: a byte offset of 0 means nowhere."""
    wanted = t.value(f"icmp ne i64 {offset}, 0")
    t(f"  br i1 {wanted}, label %put_{name}, label %past_{name}")
    t(f"put_{name}:")
    t(f"  store i32 {value}, ptr {t.at(wave, offset)}")
    t(f"  br label %past_{name}")
    t(f"past_{name}:")


def _fill_function(t: _Text) -> None:
    """Zero a multiple of 16 bytes, 64 at a time as far as that goes."""
    t("define internal void @mockgpu_zero(ptr %to, i64 %size) noinline {")
    t("entry:\n  br label %head")
    t("head:\n  %at = phi i64 [0, %entry], [%at1, %body], [%at2, %short]")
    t("  %left = sub i64 %size, %at\n  %over = icmp sle i64 %left, 0\n  br i1 %over, label %out, label %more")
    t("more:\n  %wide = icmp sge i64 %left, 64\n  %p = getelementptr i8, ptr %to, i64 %at")
    t("  br i1 %wide, label %body, label %short")
    t("body:\n  store <16 x i32> zeroinitializer, ptr %p, align 16\n  %at1 = add i64 %at, 64\n  br label %head")
    t("short:\n  store <4 x i32> zeroinitializer, ptr %p, align 16\n  %at2 = add i64 %at, 16\n  br label %head")
    t("out:\n  ret void\n}")


def _copy_function(t: _Text) -> None:
    """Copy a multiple of 64 bytes."""
    t("define internal void @mockgpu_copy(ptr %to, ptr %from, i64 %size) noinline {")
    t("entry:\n  br label %head")
    t("head:\n  %at = phi i64 [0, %entry], [%at1, %body]")
    t("  %over = icmp sge i64 %at, %size\n  br i1 %over, label %out, label %body")
    t("body:\n  %p = getelementptr i8, ptr %to, i64 %at\n  %q = getelementptr i8, ptr %from, i64 %at")
    t("  %v = load <16 x i32>, ptr %q, align 4\n  store <16 x i32> %v, ptr %p, align 4")
    t("  %at1 = add i64 %at, 64\n  br label %head")
    t("out:\n  ret void\n}")
