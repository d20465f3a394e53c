"""What a tool does, by its name, however the name is built."""

import pytest

from spanscore.model.tool_names import effect, may_change

READS = [
    *(
        "weather_lookup",
        "orders_search",
        "order_search",
        "orderSearch",
        "order-status",
        "email_search",
        "file_read",
    ),
    *(
        "get_order",
        "getOrder",
        "GetOrder",
        "github_get_order",
        "mcp__orders__get_order",
        "mcp__orders__search",
    ),
    *(
        "order.get",
        "orders/search",
        "OrderService.getOrder",
        "filesystem:read_file",
        "reportFinder",
        "booking_info",
    ),
    *("list_open_orders", "search", "weather", "log_reader", "schedule_view", "refund_lookup"),
]
CHANGES = [
    *(
        "cancel_order",
        "cancelOrder",
        "order_cancel",
        "order.cancel",
        "mcp__orders__cancel",
        "orders/delete",
        "book",
    ),
    *(
        "get_or_create_user",
        "search_and_book",
        "find_then_delete",
        "create_list",
        "save_search",
        "set_status",
    ),
    *("check_out", "checkIn", "search_index_update", "send_email", "report_status", "fs.write"),
]
UNKNOWN = ["invoice_tool", "handle", "desk", "予約する", "", "___"]


@pytest.mark.parametrize("name", READS)
def test_a_name_with_a_verb_for_reading_before_or_after_the_thing_is_a_look_up(name):
    assert (effect(name), may_change(name)) == ("reads", False)


@pytest.mark.parametrize("name", CHANGES)
def test_a_name_with_a_verb_that_changes_something_is_no_look_up(name):
    assert (effect(name), may_change(name)) == ("changes", True)


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_name_without_a_verb_tells_nothing_and_may_change_something(name):
    assert (effect(name), may_change(name)) == (None, True)
