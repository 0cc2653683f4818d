"""``python -m mockgpu``: the command line."""

from mockgpu.cli import main

main()
