"""Wrong references, injected: whether the oracle refuses them."""
