"""What more than one failure class asks of the frames: each question in one module.

Who ended for a reason of their own, who was stopped from outside, whom many lines
blame, where a circle of calls parts. A clue names frames and ranks; only a class
accuses.
"""
