"""Workers of Cluster Serving in Python."""

__version__ = "0.1.0"
