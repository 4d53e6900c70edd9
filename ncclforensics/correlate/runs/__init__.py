"""Separates evidence of several jobs and attempts, and puts hosts on one clock."""
