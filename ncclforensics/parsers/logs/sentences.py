"""Messages that somebody quotes inside a sentence, in a ticket, a chat or a note.

    last week we saw `NET/IB : Got completion from peer …`, today's run finished

Such a line is no record of the job: what it quotes may be of another one, or be over.
So it counts only where no record tells a cause, and what rests on it is possible at
most. A sentence begins with words where a program puts a time, a level, its name or
a rank; and a quotation is open where the message begins, or the words are a person's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from ncclforensics.parsers.logs import headers
from ncclforensics.parsers.logs.ascii_regex import ascii_only

if TYPE_CHECKING:
    from ncclforensics.parsers.logs.grammar import Message

QUOTED = "condensed.quoted"  # the event of such a line, beside or instead of its own
NOTE = (
    "messages are quoted in sentences here: they count only where no record of a "
    "program tells a cause"
)
# letters of all languages, without the classes that take long to prepare
_LETTER = r"[A-Za-z\x{80}-\x{10FFFF}]"
_WORD = rf"{_LETTER}(?:{_LETTER}|['-])*"
_MARKS = r"""^[\s>*\x{2022}#("-]*(?:\d{1,2}[.)] )?"""
_BEGINS = rf"{_MARKS}(?:[A-Z][a-z]+: )?{_WORD}[,;]? (?:{_WORD}|\d+)(?:[\s,;:.!?)]|$)"
# also behind a name that is no word: `Since NCCL_IB_TIMEOUT=22: no more "NET/IB …"`
_OPENS = r"""[`"'(\x{201c}]"""
_ENTERS = rf"{_MARKS}{_WORD},? \S{{1,40}} (?:{_WORD},? )+{_WORD}:? ?{_OPENS}"
_ITEM = r"^\s*[-*\x{2022}] [Rr]anks? \d+(?:-\d+)?: "
# what a sentence says not to be there
_DENIED = (
    r"(?i)(?:\b(?:no|not|never|none|nobody|without|instead of)"
    r"|n['\x{2019}]t)\b[^.;!?:]{0,24}$"
)
# what programs write in front of a colon
_LABEL = (
    r"^\W*(?:(?i:error|warning|warn|info|debug|fatal|critical|message|reason|exception"
    r"|failed|caused by)|\w*(?:Error|Exception|Warning))(?:: | \[)"
)
_PERSON = (
    r"(?:^|[\s(])(?:I|[Ww]e|[Mm]y|[Oo]ur|[Tt]oday|[Yy]esterday"
    r"|[Ll]ast (?:week|month|night|time|year))(?:['\x{2019}][a-z]+)?[\s,]"
)
# words alone up to the message
_ONLY_WORDS = rf"{_MARKS}(?:{_WORD}[,;]? +){{3,}}{_WORD},? *$"
_SINGLE = r"(?:^|[\s(])'[^']*$"
_CURLY = r"[\x{201c}\x{201e}\x{2018}\x{ab}][^\x{201d}\x{2019}\x{bb}]*$"
_HEADER = ascii_only(
    rf"(?:{headers.ANY}|(?:\S+:\d+ (?:\(\S*\) )?)?NCCL (?:WARN|INFO) ?"
    r"|\[rank\d{1,9}\]:? ?)$"
)


def of(found: pl.DataFrame, message: Message, anywhere: bool) -> pl.DataFrame:
    """Return for each row whether its message is `quoted` in a sentence, or `denied`.

    `found` are rows of `grammar.match`, with `raw`, `text` and `header`. `anywhere` is
    whether a message may begin behind a prefix that nothing knows: then words alone in
    front of it are a sentence. What a sentence says not to be there is `denied`, also
    of what people retell, which is no record anyway.
    """
    raw, text = pl.col("raw"), pl.col("text")
    if message.loose:
        words = "|".join(map(re.escape, message.needles))
        ahead = text.str.extract(f"(?s)^(.*?)(?:{words})").fill_null("")
        denied = ahead.str.contains(_DENIED).alias("denied")
        return found.select(denied.alias("quoted"), denied)
    begins = raw.str.contains(_BEGINS) | raw.str.contains(_ENTERS)
    item = raw.str.contains(_ITEM)
    begins = (begins & ~raw.str.contains(_LABEL)) | item
    maybe = found.select(begins.fill_null(False).alias("quoted"), denied=pl.lit(False))
    if not maybe["quoted"].any():
        return maybe
    above = raw.str.split(text).list.first()
    # with the mark that a message anywhere begins behind
    at = text.str.extract_groups(
        rf"(?s)^(?P<_at>.*?)(?P<_is>(?:{message.regex}))"
    ).struct
    mark = at.field("_is").str.extract(f"^({_OPENS})")
    inside = (at.field("_at").fill_null(""), mark.fill_null(""))
    ahead = pl.concat_str(above, *inside).str.replace(_HEADER, "")
    said = found.select(ahead.alias("ahead"), "header", item.alias("item"))
    ahead = pl.col("ahead")
    is_open = (
        (ahead.str.count_matches("`", literal=True) % 2 == 1)
        | (ahead.str.count_matches('"', literal=True) % 2 == 1)
        | ahead.str.contains(_SINGLE)
        | ahead.str.contains(_CURLY)
    )
    speaks = ahead.str.contains(_PERSON) | pl.col("item")
    if anywhere:
        speaks |= ahead.str.contains(_ONLY_WORDS) & pl.col("header").is_null()
    told = said.select((is_open | speaks).alias("quoted"), ahead.str.contains(_DENIED))
    quoted = maybe["quoted"] & told["quoted"]
    return pl.DataFrame([quoted, (quoted & told["ahead"]).alias("denied")])
