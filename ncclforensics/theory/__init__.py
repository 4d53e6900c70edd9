"""One theory of a hang: stories that explain a standstill, weighed in bits.

    traces -> meetings -> waits -> program -> explanations -> weighing -> suspects

`correlate` ends in calls and who waits for whom; here each end of the waits gets the
stories that may explain it, and the cheapest is told. Diagnosers put it into words.
"""
