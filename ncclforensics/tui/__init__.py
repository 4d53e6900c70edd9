"""The timeline: a Textual application on one analysis.

`model` is free of Textual: it turns frames into lines of cells. The widgets draw what
of it is on screen, and the application moves a cursor through it.
"""
