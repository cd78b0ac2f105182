"""The port against a real API server. Nothing outside this package imports ``kubernetes``."""
