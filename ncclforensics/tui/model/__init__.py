"""What the timeline shows, without Textual: scale, visible lines, details, search."""
