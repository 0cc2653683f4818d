"""Instruction sets as data: architectures, encodings, decode, encode, disassembly, code objects."""
