"""Assembles a kernel and runs it through tinygrad's runtime:  MOCKGPU=1 DEV=AMD python examples/raw_kernel.py

The code is for gfx1100; other architectures wait for loads with other instructions.
"""

from tinygrad import Device, Tensor, dtypes
from tinygrad.device import TinyELF
from tinygrad.helpers import Target

from mockgpu.isa.asm import assemble
from mockgpu.isa.asm_object import code_object

SOURCE = """
.text
.p2align 8
add_one:                              ; s[0:1]: address of the arguments; v0: work item in the workgroup
  s_load_b64 s[0:1], s[0:1], 0x0
  v_lshlrev_b32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_b32 v1, v0, s[0:1]
  s_waitcnt vmcnt(0)
  v_add_nc_u32 v1, 1, v1
  global_store_b32 v0, v1, s[0:1]
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel add_one
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 8
  .amdhsa_next_free_vgpr 2
  .amdhsa_next_free_sgpr 2
.end_amdhsa_kernel
"""

gpu = Device["AMD"]
numbers = Tensor(list(range(32)), dtype=dtypes.int32, device="AMD").realize()
signature = (("numbers", 0, dtypes.int32, (32,)),)
elf = TinyELF(code_object(assemble(SOURCE, gpu.arch)), "add_one", Target("AMD"), signature)
gpu.runtime(elf)(numbers.uop.buffer._buf, global_size=(1, 1, 1), local_size=(32, 1, 1), wait=True)
print(numbers.tolist())
