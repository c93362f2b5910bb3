"""The tools around Triack: command line, chaos, replay, bench and top."""
