"""Who waits for ranks that all said that they are through makes a call of its own."""

from standstills import STEP, frames

from ncclforensics.model import tables
from ncclforensics.model.frames import Frames
from ncclforensics.model.last_words import DONE
from ncclforensics.theory.weigh import weighed

HISTORY = STEP * 16


def ended(shown, through):
    """Return what is told of frames in which some ranks said that they are through."""
    said = [
        {
            "message": DONE,
            "rank": rank,
            "text": "ran out of data, bye",
            "role": "neutral",
        }
        | {"source": f"rank{rank}.log", "line": 9}
        for rank in through
    ]
    lines = tables.rows("events", said)
    ends = weighed(Frames({**shown.tables, "events": lines})).ends
    return [(end.story.slug, end.story.ranks, end.confidence) for end in ends]


def told(waits, through, unseen=()):
    """Return the same where rank 0 waits, and nothing proves that the job stopped."""
    shown = frames([waits, *[HISTORY] * 3], stands=False, unseen=unseen)
    return ended(shown, through)


def test_a_call_for_which_all_others_are_through_is_conditional():
    conditional = [("rank-conditional-collective", (0,), "possible")]
    assert told(f"{HISTORY}|X", {1, 2, 3}) == conditional
    assert told(f"{HISTORY}|X", {1, 2, 3}, unseen=(1, 2, 3)) == conditional


def test_while_one_of_them_has_not_said_so_it_may_still_come():
    """The look-alike."""
    assert told(f"{HISTORY}|X", {1, 2}, unseen=(1, 2, 3))[0][2] is None


def test_of_the_one_that_is_through_others_wait_although_nothing_else_shows_it():
    """The reverse: one had fewer batches, and left neither a dump nor an exit."""
    waits = dict.fromkeys((0, 1, 3), f"{HISTORY}abcdp|W")
    shown = frames(waits | {2: ""}, unseen=(2,))
    assert ended(shown, {2}) == [("uneven-inputs", (2,), "likely")]
    assert ended(shown, set())[0][0] != "uneven-inputs"
