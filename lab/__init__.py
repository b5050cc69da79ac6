"""Evidence for the product: embedded models, stand-ins, parity, benchmarks, curves, results."""
