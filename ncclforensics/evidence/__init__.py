"""Questions that several failure classes ask of the frames, one module each.

For example: which process failed for a reason of its own, which was stopped from
outside, which host many lines blame, where a cycle of calls splits. A clue names frames
and ranks; only a failure class reports a culprit.
"""
