"""The renderers: one module a format. They compute nothing."""
