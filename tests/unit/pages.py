"""A look at an HTML page as a browser would take it, for the tests of reports."""

from __future__ import annotations

from html.parser import HTMLParser

# Elements without an end tag.
_VOID = {"meta", "img", "br", "hr", "input", "link"}


class Outline(HTMLParser):
    """tags: elements in their order; texts: what stands between them; references: addresses outside of the page.

    Raises AssertionError for an element that is not closed where it should be, and for two of the same id.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.references: list[str] = []
        self.ids: set[str] = set()
        self._open: list[str] = []

    @classmethod
    def of(cls, text: str) -> Outline:
        outline = cls()
        outline.feed(text)
        outline.close()
        assert outline._open == [], f"never closed: {outline._open}"
        return outline

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    def _seen(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"<{tag} {name}>"
            if name in ("src", "href", "xlink:href", "data", "action", "srcset") and not (value or "").startswith("#"):
                self.references.append(value or "")
            if name == "id":
                assert value and value not in self.ids, f"id {value!r} twice"
                self.ids.add(value)
