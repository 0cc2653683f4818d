"""The machine: memory, waves, dispatch, engines and command processors."""
