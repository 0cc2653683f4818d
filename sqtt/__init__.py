"""Thread-trace packets (SQTT)."""
