"""Names the rank, the host and the collective that hung or killed a training job."""

__version__ = "0.1.0"
