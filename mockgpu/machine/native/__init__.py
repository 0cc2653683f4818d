"""The native engine: instructions compiled to host code through LLVM, bit for bit what the oracle computes."""
