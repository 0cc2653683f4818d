"""Randomized differential testing: programs from the decode tables, run by two sides and compared to the bit."""
