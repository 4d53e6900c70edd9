"""Follows the growing evidence of a running job, and says when it has stopped."""
