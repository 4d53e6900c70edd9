"""The timeline's model, without Textual: ranks, columns, cells, lines, details."""
