"""Explain a standstill: competing stories, weighed in bits; the cheapest wins.

    traces -> meetings -> waits -> program -> explanations -> weighing -> suspects

`correlate` produces the calls and the wait-for graph. Here, each end of the waits gets
the stories that may explain it. The cheapest story is the verdict, and the diagnosers
word it.
"""
