"""The cache of handlers on disk: what is found again, and what may go wrong around it."""

import ctypes
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

import mockgpu
from mockgpu.machine.native import cache_folder, cache_identity, host
from mockgpu.machine.native.cache import Batch, HandlerCache
from mockgpu.machine.native.cache_pack import REFUSED, Contents, Pack, PackError, digest, merged
from mockgpu.machine.native.compile import compile_ir

HOME = str(Path(mockgpu.__file__).parents[1])


class Compiler:
    """Makes a function per key, a number as text, that returns the number; there is none for multiples of 10."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, keys: list[str]) -> Batch:
        self.batches.append(keys)
        good = [key for key in keys if int(key) % 10]
        text = "\n".join(f"define i64 @f{key}() {{\n  ret i64 {key}\n}}" for key in good)
        data = compile_ir(text, host.target(), opt=0) if good else b""
        return Batch(data, {key: f"f{key}" for key in good}, {key: f"no {key}" for key in keys if key not in good})


def numbers(values: Iterable[int]) -> list[str]:
    return [str(n) for n in values]


def check(cache: HandlerCache, values: Iterable[int], compiler: Compiler) -> None:
    """Every handler is there and returns its number."""
    wanted = numbers(values)
    found = cache.get(wanted, compiler)
    assert set(found.addresses) | set(found.refused) == set(wanted)
    assert found.refused == {key: f"no {key}" for key in wanted if int(key) % 10 == 0}
    for key, address in found.addresses.items():
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(address)() == int(key)


def packs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.pack"))


def failing(keys: list[str]) -> Batch:
    raise AssertionError(f"{keys} should have been found")


# -- what is found again ----------------------------------------------------------------------------------------------


def test_each_key_is_compiled_once(tmp_path: Path) -> None:
    compiler = Compiler()
    cache = HandlerCache(folder=str(tmp_path))
    check(cache, range(1, 8), compiler)
    check(cache, range(5, 12), compiler)
    assert compiler.batches == [numbers(range(1, 8)), numbers(range(8, 12))]
    check(cache, range(1, 12), compiler)
    check(HandlerCache(folder=str(tmp_path)), range(1, 12), compiler)
    assert len(compiler.batches) == 2


def test_a_process_sees_what_another_adds_later(tmp_path: Path) -> None:
    compiler = Compiler()
    early, late = HandlerCache(folder=str(tmp_path)), HandlerCache(folder=str(tmp_path))
    check(early, [1], compiler)
    check(late, [2], compiler)
    assert not early.find(["1", "2"])


def test_addresses_do_not_change(tmp_path: Path) -> None:
    cache = HandlerCache(folder=str(tmp_path))
    first = cache.get(["1"], Compiler()).addresses["1"]
    cache.get(["1", "2", "3"], Compiler())
    assert cache.get(["1"], failing).addresses["1"] == first


def test_a_compiler_must_answer_for_every_key(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="neither a handler nor a refusal for \\['7'\\]"):
        HandlerCache(folder=str(tmp_path)).get(["7"], lambda keys: Batch(b"", {}, {}))
    assert not packs(tmp_path)


def test_an_error_of_the_compiler_reaches_the_caller_and_keeps_nothing(tmp_path: Path) -> None:
    def broken(keys: list[str]) -> Batch:
        raise ValueError("broken")

    cache = HandlerCache(folder=str(tmp_path))
    with pytest.raises(ValueError, match="broken"):
        cache.get(["1"], broken)
    check(cache, [1], Compiler())


def test_many_packs_become_few_and_lose_nothing(tmp_path: Path) -> None:
    compiler = Compiler()
    for n in range(30):
        check(HandlerCache(folder=str(tmp_path)), range(n, 3 * n + 2), compiler)
    assert len(packs(tmp_path)) <= cache_folder.MAX_PACKS
    check(HandlerCache(folder=str(tmp_path)), range(89), Compiler())
    assert not HandlerCache(folder=str(tmp_path)).find(numbers(range(89)))


def test_a_warm_process_loads_no_llvm(tmp_path: Path) -> None:
    check(HandlerCache(folder=str(tmp_path)), range(1, 10), Compiler())
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from mockgpu.machine.native.cache import HandlerCache\n"
        "missing = HandlerCache(folder=sys.argv[2]).find([str(n) for n in range(1, 11)])\n"
        "print(missing, [m for m in sys.modules if m.startswith(('llvmlite', 'tinygrad.', 'numpy'))])\n"
    )
    result = subprocess.run([sys.executable, "-c", code, HOME, str(tmp_path)], capture_output=True, text=True)
    assert result.stdout == "['10'] []\n", result.stderr


def test_threads_may_ask_at_once(tmp_path: Path) -> None:
    cache, compiler, errors = HandlerCache(folder=str(tmp_path)), Compiler(), []

    def ask(start: int) -> None:
        try:
            for n in range(start, start + 20, 2):
                check(cache, range(n, n + 5), compiler)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(n,)) for n in (1, 3, 11, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# -- what the name depends on -----------------------------------------------------------------------------------------


def test_another_version_or_cpu_or_level_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(HandlerCache(folder=str(tmp_path)), [1, 2], Compiler())
    with monkeypatch.context() as changed:
        changed.setattr(cache_identity, "__version__", "99.0")
        assert HandlerCache(folder=str(tmp_path)).find(["1"]) == ["1"]
    with monkeypatch.context() as changed:
        changed.setattr(cache_identity, "identity", lambda level: "another CPU")
        assert HandlerCache(folder=str(tmp_path)).find(["1"]) == ["1"]
    for level in host.host_levels()[1:]:
        assert HandlerCache(level, folder=str(tmp_path)).find(["1"]) == ["1"]
    assert not HandlerCache(folder=str(tmp_path)).find(["1"])


def test_the_name_changes_with_sources_tables_and_llvmlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_version.py", "binding/libllvmlite.so", "code.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("old")
    monkeypatch.setattr(cache_identity, "_folder", lambda name: str(tmp_path))
    stamps = ["table 1"]
    monkeypatch.setattr(cache_identity, "generated_stamps", lambda family: iter(stamps))
    names = [cache_identity.namespace("native")]
    for path in (tmp_path / "_version.py", tmp_path / "binding" / "libllvmlite.so", tmp_path / "code.py"):
        path.write_text("newer")
        names.append(cache_identity.namespace("native"))
    stamps[0] = "table 2"
    names.append(cache_identity.namespace("native"))
    assert len(set(names)) == len(names) == 5
    assert cache_identity.namespace("native") == names[-1]


def test_the_real_name_is_the_same_each_time() -> None:
    assert cache_identity.namespace("native") == cache_identity.namespace("native")


# -- what may go wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_made_again(tmp_path: Path, seed: int) -> None:
    random.seed(seed)
    check(HandlerCache(folder=str(tmp_path)), range(1, 12), Compiler())
    (path,) = packs(tmp_path)
    data = bytearray(path.read_bytes())
    if seed % 3 == 0:
        del data[random.randrange(len(data)) :]
    elif seed % 3 == 1:
        for _ in range(random.choice([1, 1, 50])):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    else:
        start = random.randrange(len(data))
        data[start : start + 200] = random.randbytes(200)
    path.write_bytes(data)
    check(HandlerCache(folder=str(tmp_path)), range(1, 12), Compiler())
    assert not HandlerCache(folder=str(tmp_path)).find(numbers(range(1, 12)))


@pytest.mark.parametrize("content", [b"", b"mockgpu1", b"\0" * 4096, b"mockgpu1" + b"\xff" * 40, b"GIF89a" * 100])
def test_files_of_others_are_ignored(tmp_path: Path, content: bytes) -> None:
    cache = HandlerCache(folder=str(tmp_path))
    check(cache, [1], Compiler())
    folder = packs(tmp_path)[0].parent
    (folder / "a.pack").write_bytes(content)
    (folder / "notes.txt").write_text("not ours")
    check(HandlerCache(folder=str(tmp_path)), [1], Compiler())
    assert (folder / "notes.txt").exists() and not (folder / "a.pack").exists()


def test_packs_that_vanish_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(HandlerCache(folder=str(tmp_path)), [1, 2], Compiler())
    real, gone = os.open, []

    def vanishing(path, *rest):
        if str(path).endswith(".pack") and not gone:
            gone.append(path)
            os.unlink(path)
        return real(path, *rest)

    monkeypatch.setattr(os, "open", vanishing)
    check(HandlerCache(folder=str(tmp_path)), [1, 2], Compiler())
    assert gone and len(packs(tmp_path)) == 1


def test_a_folder_that_cannot_be_written_costs_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache_folder.note.cache_clear()
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, "mockgpu.native"):
        for _ in range(2):
            cache = HandlerCache(folder=str(blocked))
            check(cache, range(1, 5), Compiler())
            check(cache, range(1, 9), Compiler())
    assert len([r for r in caplog.records if "not kept for later runs" in r.message]) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_read(tmp_path: Path) -> None:
    check(HandlerCache(folder=str(tmp_path)), [1], Compiler())
    folder = packs(tmp_path)[0].parent
    folder.chmod(0o500)
    try:
        check(HandlerCache(folder=str(tmp_path)), [1, 2], Compiler())
        assert len(packs(tmp_path)) == 1
    finally:
        folder.chmod(0o700)


def test_a_full_disk_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache_folder.note.cache_clear()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with caplog.at_level(logging.WARNING, "mockgpu.native"):
        check(HandlerCache(folder=str(tmp_path)), range(1, 5), Compiler())
        check(HandlerCache(folder=str(tmp_path)), range(1, 5), Compiler())
    assert [r.message.split(": ")[-1] for r in caplog.records] == ["No space left on device"]
    assert not list(tmp_path.glob("*/*"))


# -- bounds -----------------------------------------------------------------------------------------------------------


def fill(root: Path, namespace: str, size: int, age: int) -> Path:
    """A namespace with a pack of some size, last used ``age`` seconds ago."""
    contents = Contents()
    contents.add_image(random.randbytes(size), [(digest(namespace), 0, 1)])
    cache_folder.PackFolder(str(root), namespace).store(contents)
    (path,) = (root / namespace).glob("*.pack")
    for changed in (path, root / namespace):
        os.utime(changed, (time.time() - age, time.time() - age))
    return path


def test_what_was_used_longest_ago_is_removed_first(tmp_path: Path) -> None:
    old, middle, new = (fill(tmp_path, f"n{age}", 10_000, age) for age in (300, 200, 100))
    check(HandlerCache(folder=str(tmp_path), limit=25_000), [1], Compiler())
    assert [p.exists() for p in (old, middle, new)] == [False, True, True]
    check(HandlerCache(folder=str(tmp_path), limit=100), [2], Compiler())
    assert not any(p.exists() for p in (old, middle, new))


def test_namespaces_are_few(tmp_path: Path) -> None:
    for n in range(20):
        fill(tmp_path, f"n{n}", 10, 1000 - n)
    check(HandlerCache(folder=str(tmp_path)), [1], Compiler())
    assert len(list(tmp_path.iterdir())) == cache_folder.MAX_NAMESPACES
    assert (tmp_path / "n19").exists() and not (tmp_path / "n12").exists()


def test_parts_of_killed_processes_are_removed_in_time(tmp_path: Path) -> None:
    folder = fill(tmp_path, "n", 10, 0).parent
    stale, fresh = folder / "a.part", folder / "b.part"
    for path in (stale, fresh):
        path.write_text("half")
    os.utime(stale, (0, 0))
    check(HandlerCache(folder=str(tmp_path)), [1], Compiler())
    assert (stale.exists(), fresh.exists()) == (False, True)


# -- packs ------------------------------------------------------------------------------------------------------------


def test_a_pack_finds_what_was_put_in(tmp_path: Path) -> None:
    contents = Contents()
    keys = [digest(str(n)) for n in range(500)]
    for n in range(0, 500, 50):
        contents.add_image(bytes([n // 50]) * (n + 1), [(key, k, k + 1) for k, key in enumerate(keys[n : n + 50])])
    contents.refuse(digest("not"), "because ü")
    (tmp_path / "p").write_bytes(contents.to_bytes())
    pack = Pack(str(tmp_path / "p"))
    assert len(pack) == 501
    for n, key in enumerate(keys):
        entry = pack.find(key)
        assert entry is not None and (entry.image, entry.start, entry.size) == (n // 50, n % 50, n % 50 + 1)
    refused = pack.find(digest("not"))
    assert refused is not None and refused.image == REFUSED and pack.reason(refused) == "because ü"
    assert pack.find(digest("absent")) is None
    assert pack.image(9) == b"\x09" * 451
    with pytest.raises(PackError):
        pack.image(10)


def test_merging_keeps_each_key_once(tmp_path: Path) -> None:
    for name, keys in (("a", "12"), ("b", "23"), ("c", "12")):
        contents = Contents()
        contents.add_image(name.encode(), [(digest(key), 0, 1) for key in keys])
        (tmp_path / name).write_bytes(contents.to_bytes())
    result = merged(Pack(str(tmp_path / name)) for name in "abc")
    assert result.images == [b"a", b"b"] and len(result.entries) == 3


# -- processes --------------------------------------------------------------------------------------------------------

WRITER = r"""
import ctypes, random, sys
sys.path.insert(0, sys.argv[1])
from mockgpu.machine.native import cache_folder, host
from mockgpu.machine.native.cache import Batch, HandlerCache
from mockgpu.machine.native.compile import compile_ir
cache_folder.MAX_PACKS, cache_folder.LIMIT_BYTES = 2, 1 << 20
random.seed(int(sys.argv[3]))
rounds, limit = int(sys.argv[4]), int(sys.argv[5])
def make(keys):
    text = "\n".join(f"define i64 @f{k}() {{\n  ret i64 {k}\n}}" for k in keys)
    return Batch(compile_ir(text, host.target(), 0), {k: f"f{k}" for k in keys})
while rounds:
    cache = HandlerCache(folder=sys.argv[2], limit=limit)
    for _ in range(10):
        keys = [str(random.randrange(200)) for _ in range(20)]
        for key, address in cache.get(keys, make).addresses.items():
            assert ctypes.CFUNCTYPE(ctypes.c_int64)(address)() == int(key), key
    rounds -= 1
    print("round", flush=True)
"""


def writer(folder: Path, seed: int, rounds: int, limit: int = 1 << 20) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, HOME, str(folder), str(seed), str(rounds), str(limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def reader(folder: Path) -> HandlerCache:
    return HandlerCache(folder=str(folder))


@pytest.mark.parametrize("limit", [1 << 20, 6000])
def test_many_processes_at_once(tmp_path: Path, limit: int) -> None:
    """They compile, merge and (with the small limit) evict under each other's hands."""
    processes = [writer(tmp_path, seed, rounds=4, limit=limit) for seed in range(4)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert not list(tmp_path.glob("*/*.part"))
    assert sum(p.stat().st_size for p in packs(tmp_path)) < 400_000
    check(reader(tmp_path), [n for n in range(1, 200) if n % 10], Compiler())


def test_killed_at_any_point(tmp_path: Path) -> None:
    """Whatever a killed process leaves behind, the next one finds good handlers or makes them."""
    random.seed(1)
    process = writer(tmp_path, 0, rounds=1)
    process.communicate(timeout=60)
    for seed in range(8):
        process = writer(tmp_path, seed, rounds=-1)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()  # it works now
        time.sleep(random.random() / 20)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        process.stdout.close()
        process.stderr.close()
        check(reader(tmp_path), [n for n in range(1, 200) if n % 10], Compiler())
    for path in packs(tmp_path):
        Pack(str(path))  # every file that has its final name is whole
