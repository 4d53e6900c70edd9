"""The renderers, one module per format. They compute nothing."""
