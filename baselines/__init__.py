"""The methods, each found through the entry-point group ``bench.methods``; they import ``harness`` only."""
