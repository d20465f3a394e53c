import pytest

from spanscore import testing


@pytest.fixture
def order():
    """A turn that looked up an order."""
    call = testing.tool_call("find_order", {"id": 7}, {"status": "sent"})
    return testing.agent_trace(
        user_input="Where is order 7?", final_output="It was sent.", tool_calls=[call]
    )
