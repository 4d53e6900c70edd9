"""The timeline: a Textual application that shows one analysis.

`model` does not depend on Textual: it turns frames into lines of cells. The widgets
draw its visible part, and the application moves a cursor through it.
"""
