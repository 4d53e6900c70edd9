"""Text logs: lines, their envelopes and headers, and the messages of the grammars."""
