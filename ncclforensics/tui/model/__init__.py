"""What the timeline shows, without Textual: ranks, columns, cells, lines, details."""
