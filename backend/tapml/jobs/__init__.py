"""Jobs: validate, offload and locate, stated and run in one way, whoever asks."""

from tapml.jobs.job import Job, JobSpecification

__all__ = ["Job", "JobSpecification"]
