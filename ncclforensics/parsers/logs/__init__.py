"""Parser for text logs: lines, envelopes, headers, and the messages of the grammars."""
