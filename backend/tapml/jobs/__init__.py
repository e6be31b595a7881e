"""Jobs: validate, offload and locate, stated and run in one way, whoever asks."""

from tapml.jobs.job import JobSpecification, run_job

__all__ = ["JobSpecification", "run_job"]
