"""The shell around the pure engine: driver, event loop, worker, platform, and the port to them."""
