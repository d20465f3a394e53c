"""A single span and what is read of it, for the tests of what one dialect makes of one span."""

from spanscore import dialects
from spanscore.model.span import Resource, Scope, Span


def span(
    attributes, *, scope="", name="span", parent="", span_id="1", start_ns=1, events=(), status=0
):
    place = "t", span_id, parent, name, 1, start_ns, start_ns + 1
    return Span(*place, status, "", attributes, Resource(), Scope(scope), events)


def read(attributes, **more):
    (step,) = dialects.read([span(attributes, **more)]).steps
    return step
