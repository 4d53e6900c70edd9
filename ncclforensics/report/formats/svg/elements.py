"""The elements that pictures are drawn with.

A picture is built from elements, never from text, so nothing in a log can become
markup. Colours are classes of the page's style; whatever a colour means is also told by
a word, a letter or a shape. Each picture has a title and its content in words.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from markupsafe import Markup


def picture(width: float, height: float, title: str, words: str) -> ET.Element:
    """Return an empty picture in pixels; `words` say what it shows."""
    size = {"width": f"{width:g}", "height": f"{height:g}"}
    svg = ET.Element("svg", {**size, "viewBox": f"0 0 {width:g} {height:g}"})
    svg.set("role", "img")
    ET.SubElement(svg, "title").text = title
    ET.SubElement(svg, "desc").text = words
    return svg


def shape(parent: ET.Element, tag: str, kind: str, **places: float) -> None:
    """Add a shape of a class; its places are numbers."""
    numbers = {name: f"{value:.5g}" for name, value in places.items()}
    ET.SubElement(parent, tag, {"class": kind, **numbers})


def path(parent: ET.Element, kind: str, way: str) -> None:
    """Add a path of a class."""
    ET.SubElement(parent, "path", {"class": kind, "d": way})


def text(
    parent: ET.Element,
    x: float,
    y: float,
    words: str,
    kind: str = "",
    anchor: str = "start",
) -> ET.Element:
    """Add text of a class at a place; `anchor` is start, middle or end."""
    place = {"x": f"{x:.5g}", "y": f"{y:.5g}"}
    if anchor != "start":
        place["text-anchor"] = anchor
    element = ET.SubElement(parent, "text", place)
    if kind:
        element.set("class", kind)
    element.text = words
    return element


def markup(svg: ET.Element) -> Markup:
    """Return a picture as markup: the serializer escapes text and attributes."""
    return Markup(ET.tostring(svg, encoding="unicode"))
