"""Encoding is the inverse of decoding."""

import json
import random
from pathlib import Path

import pytest
from support.random_code import layouts, leaves, random_instruction

from mockgpu.isa.arch import arch_names, get_arch
from mockgpu.isa.decode import decode, decode_all
from mockgpu.isa.encode import EncodeError, build, encode
from mockgpu.isa.opcode import opcodes

RDNA3 = get_arch("gfx1100")


@pytest.mark.parametrize("name", arch_names())
def test_round_trip_of_every_opcode_and_layout(name):
    arch, rng = get_arch(name), random.Random(name)
    for leaf in leaves(arch):
        for layout in layouts(leaf, arch):
            for modifiers in (False, True):
                data = random_instruction(rng, arch, leaf, layout, modifiers)
                inst = decode(arch, data)
                assert inst.size == len(data), inst
                assert encode(inst) == data, inst
                assert leaf.opcode is None or inst.opcode is leaf.opcode


def test_build_from_fields():
    opcode = opcodes("rdna3")["VOP2Op", "V_ADD_F32_E32"]
    assert build(RDNA3, opcode, vdst=1, src0=2, vsrc1=3).text == "v_add_f32_e32 v1, s2, v3"
    literal = build(RDNA3, opcode, "VOP2_LIT", vdst=1, src0=255, vsrc1=3, literal=0x41200000)
    assert literal.text == "v_add_f32_e32 v1, 0x41200000, v3"


@pytest.mark.parametrize(
    ("encoding", "fields", "reason"),
    [
        (None, {"vdst": 256}, "does not fit"),
        (None, {"nothing": 1}, "no field nothing"),
        ("VOP9", {}, "no encoding VOP9"),
    ],
)
def test_build_refuses(encoding, fields, reason):
    with pytest.raises(EncodeError, match=reason):
        build(RDNA3, opcodes("rdna3")["VOP2Op", "V_ADD_F32_E32"], encoding, **fields)


VECTORS = sorted((Path(__file__).parents[3] / "shared" / "vectors").glob("*.jsonl"))
TARGETS = {"rdna3": "gfx1100", "rdna4": "gfx1201", "cdna": "gfx950"}


def test_recorded_programs_round_trip():
    if not VECTORS:
        pytest.skip("no ../shared/vectors beside the checkout")
    rows = [json.loads(line) for path in VECTORS for line in path.read_text().splitlines()]
    for row in rows:
        name = row.get("gfx") or TARGETS[row["arch"]]
        if name not in arch_names():
            continue
        code = bytes.fromhex(row["code"])
        assert b"".join(encode(inst) for _, inst in decode_all(get_arch(name), code)) == code, row["id"]
