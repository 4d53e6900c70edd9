"""Questions that several failure classes ask of the frames, one module each.

Who ended for a reason of their own, who was stopped from outside, whom many lines
blame, where a circle of calls parts. A clue names frames and ranks; only a class
accuses.
"""
