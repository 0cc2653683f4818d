"""Pseudocode lowered to LLVM IR: the second road to every result, beside the oracle.

Values are bit patterns in LLVM integers, uniform (``iN``) or one per lane (``<lanes x iN>``); see
:mod:`~mockgpu.pcode.llvm.values`. Nothing here knows of waves or registers: that is behind a context.
"""
