"""The task suites. Each is found through the entry-point group ``bench.suites``; they import ``harness`` only."""
