"""Names of the instructions of program control that pseudocode does not describe, without what executes them."""

from __future__ import annotations

#: Instructions that wait, hint or tell the memory system something: nothing that a program can see here.
_WAITS = """
s_waitcnt s_waitcnt_depctr s_wait_idle s_wait_event s_waitcnt_vscnt s_waitcnt_vmcnt s_waitcnt_expcnt s_waitcnt_lgkmcnt
s_wait_loadcnt s_wait_storecnt s_wait_samplecnt s_wait_bvhcnt s_wait_expcnt s_wait_dscnt s_wait_kmcnt
s_wait_loadcnt_dscnt s_wait_storecnt_dscnt s_wait_alu s_delay_alu s_nop s_sleep s_sleep_var
"""
_HINTS = """
s_setprio s_clause s_icache_inv s_inst_prefetch s_set_inst_prefetch_distance s_ttracedata s_ttracedata_imm
s_incperflevel s_decperflevel s_wakeup s_version s_singleuse_vdst s_set_valu_coexec_mode
"""
NOTHING = frozenset(f"{_WAITS} {_HINTS}".split())

#: Those that :data:`mockgpu.machine.control.SPECIAL` builds steps for.
SPECIAL_NAMES = frozenset(
    [
        "s_alloc_vgpr",
        "s_barrier",
        "s_barrier_init",
        "s_barrier_join",
        "s_barrier_leave",
        "s_barrier_signal",
        "s_barrier_signal_isfirst",
        "s_barrier_wait",
        "s_code_end",
        "s_denorm_mode",
        "s_endpgm",
        "s_endpgm_ordered_ps_done",
        "s_endpgm_saved",
        "s_get_barrier_state",
        "s_rfe_b64",
        "s_rfe_restore_b64",
        "s_round_mode",
        "s_sendmsg",
        "s_sendmsg_rtn_b32",
        "s_sendmsg_rtn_b64",
        "s_sendmsghalt",
        "s_sethalt",
        "s_setkill",
        "s_trap",
    ]
)
