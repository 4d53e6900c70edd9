"""The pictures of the HTML page, one module per picture, drawn with elements."""
