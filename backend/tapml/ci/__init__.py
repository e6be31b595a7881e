"""`tapml test`: suites on devices as one run, with shards, retries and a baseline (tapml.test/1)."""
