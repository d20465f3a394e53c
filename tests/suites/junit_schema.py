"""What the JUnit schemas in use ask of a document, as far as it is more than being XML.

The sources are Apache Ant's format as windyroad/JUnit-Schema states it (the strictest: it fixes the
order, and asks for hostname, id, package and timestamp) and Jenkins' jenkins-junit.xsd: what is
fine by this is fine by both.
"""

import re
import xml.etree.ElementTree as ET

_COUNT, _TIME = re.compile(r"\d+"), re.compile(r"\d+(\.\d+)?")
_TEXT, _NAME = re.compile(r".*", re.DOTALL), re.compile(r".+", re.DOTALL)
_RULES = {
    "testsuites": ({}, {}, ("testsuite*",)),
    "testsuite": (
        {
            "id": _COUNT,
            "package": _NAME,
            "name": _NAME,
            "timestamp": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"),
            "hostname": _NAME,
            "tests": _COUNT,
            "failures": _COUNT,
            "errors": _COUNT,
            "time": _TIME,
        },
        {"skipped": _COUNT},
        ("properties", "testcase*", "system-out", "system-err"),
    ),
    "properties": ({}, {}, ("property*",)),
    "property": ({"name": _NAME, "value": _TEXT}, {}, ()),
    "testcase": (
        {"name": _NAME, "classname": _NAME, "time": _TIME},
        {},
        ("skipped|error|failure",),
    ),
    "failure": ({"type": _NAME}, {"message": _TEXT}, ()),
    "error": ({"type": _NAME}, {"message": _TEXT}, ()),
    "skipped": ({}, {}, ()),
    "system-out": ({}, {}, ()),
    "system-err": ({}, {}, ()),
}
"""By element: the attributes that must be there, those that may, and the children in their order (*
any, | one of).
"""


def parsed(document):
    """The document's root element."""
    return ET.fromstring(document.encode())  # noqa: S314 - the document is our own


def problems(document):
    """What is wrong with a document, in a line each. Raises ParseError where it is no XML."""
    root = parsed(document)
    found = [] if root.tag == "testsuites" else [f"the root is {root.tag}"]
    return [*found, *(x for element in root.iter() for x in _of(element)), *_miscounted(root)]


def _of(element):
    required, optional, children = _RULES.get(element.tag, ({}, {}, None))
    if children is None:
        yield f"unknown element {element.tag}"
        return
    for name, pattern in required.items():
        if name not in element.attrib:
            yield f"{element.tag} lacks {name}"
        elif not pattern.fullmatch(element.attrib[name]):
            yield f"{element.tag}/@{name} is {element.attrib[name]!r}"
    yield from (
        f"{element.tag}/@{x} is unknown"
        for x in element.attrib
        if x not in {**required, **optional}
    )
    order = "".join(
        f"(({x.rstrip('*')}) ){'*' if x.endswith('*') else '?' if '|' in x else ''}"
        for x in children
    )
    if not re.fullmatch(order, "".join(f"{x.tag} " for x in element)):
        yield f"{element.tag} holds {[x.tag for x in element]}"


def _miscounted(root):
    for suite in root.iter("testsuite"):
        for name, tag in (
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            if int(suite.get(name, 0)) != len(list(suite.iter(tag))):
                yield f"testsuite/@{name} is not the number of {tag} elements"
