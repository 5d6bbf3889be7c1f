"""The worker's side of the protocol, which docs/reference/worker-protocol.md describes."""
