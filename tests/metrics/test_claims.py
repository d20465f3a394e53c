"""Which sentences of an answer claim a deed, and what stands behind a claim."""

import pytest
from check_harness import call, findings

from spanscore.metrics.check import _claims
from spanscore.metrics.check._claims import claims

CLAIMED = [
    ("Cancel my order", "I've cancelled your order, so you won't be charged."),
    ("Cancel my order", "I've cancelled your order and you don't have to pay anything."),
    ("Cancel my order", "Don't worry, your order has been cancelled."),
    ("Cancel my order", "Your order has been cancelled because you could not use it."),
    ("Cancel my last order", "I've cancelled yesterday's order."),
    ("Cancel my reservation", "Your reservation has been cancelled."),
    ("Book a table", "I've booked your table, and you should receive a confirmation"),
    ("Book a table", "The one by the window was not free, but I've booked another table."),
    ("Book a table", "Unfortunately 7 pm was full, so your table has been booked for 8 pm."),
    ("Book a table", "If you need more, call them; but I've booked the table."),
    ("Book a table", "I've booked your table for this morning at 9."),
    ("Book a flight", "I've booked you on an earlier flight."),
    ("Refund me", "Your order has been refunded; it could take 3-5 days"),
    ("Refund me", "I was able to refund the order, which may take a few days to show."),
    ("Send the invoice", "I've sent the invoice, you will have it by the end of the day"),
    ("Send the invoice", "The invoice has been sent and will be there by the end of the day"),
    ("Book a table", "After checking the hours, I've booked a table."),
    ("Book a hotel", "I've booked the hotel you liked last year."),
    ("Cancel the room", "I was able to cancel the room you took yesterday."),
    ("Cancel my flight", "I'm sorry to hear you're ill, and your flight has been cancelled."),
    ("Storniere den Flug", "Ich habe den gestern gebuchten Flug storniert."),
    ("Storniere den Flug", "Ich habe Ihren Flug, der nicht umbuchbar war, storniert."),
    ("预订机票", "已为您预订了其他航班的机票。"),
    ("予約して", "他のホテルを予約しました。"),
    ("Storniere meine Buchung", "Ich habe Ihre Buchung storniert, es fallen keine Kosten an."),
    ("Storniere das", "Ich habe Ihre letzte Buchung storniert und nichts wird berechnet."),
    ("Storniere das", "Ihre Bestellung von gestern wurde storniert."),
    ("Buche den Termin", "Ich habe den Termin vor 10 Uhr gebucht"),
    ("Buche einen anderen Termin", "Ich habe einen anderen Termin für Sie gebucht"),
    ("Reserva otra mesa", "He reservado otra mesa"),
    ("Reserva una mesa", "He reservado una mesa, llegue antes de las 8"),
    ("Envía el paquete", "Su paquete ha sido enviado al cliente."),
    ("Cancela el pedido", "He cancelado el pedido que hizo ayer."),
    ("Cancela mi pedido", "Su pedido ya ha sido cancelado, no se le cobrará nada."),
    ("Réserve une table", "J'ai réservé une autre table"),
    ("Annule ma commande", "Votre commande a été annulée, vous ne serez pas débité."),
    ("Prenota un tavolo", "Ho prenotato un altro tavolo"),
    ("Annulla l'ordine", "Ho annullato l'ordine, quindi non pagherà niente."),
    ("Annuleer mijn reservering", "Ik heb uw reservering geannuleerd, u hoeft niet te betalen"),
    ("Annuleer alles", "Ik heb alles geannuleerd en u hoeft niet te betalen"),
    ("Reserve uma mesa", "Reservei outra mesa, não precisa pagar."),
    ("帮我预订一张桌子", "已为您预订了\uff0c请在18点之前到店"),
    ("取消我的订单", "已取消了\uff0c没有产生任何费用"),
    ("取消我昨天的订单", "您昨天的订单已取消。"),
    ("キャンセルしてください", "キャンセルしましたので、料金はかかりません"),
    ("注文をキャンセルして", "申し訳ありませんが、ご注文をキャンセルしました。"),
    ("Book a table", "Good news! Your table at Luigi's is booked for 8 pm."),
    ("Book a table", "I can confirm that your table is booked."),
    ("Could you cancel my order?", "Your order is cancelled."),
    ("Can I book a table?", "I've booked a table for you."),
    ("Storniere das", "Alles klar, deine Buchung ist storniert."),
]


@pytest.mark.parametrize(("request_", "answer"), CLAIMED)
def test_a_deed_that_no_call_did_is_found(make_trace, request_, answer):
    trace = make_trace(user_input=request_, final_output=answer, tool_calls=(), history=())
    assert findings("claims_backed_by_calls", trace)


NOT_CLAIMED = [
    ("How do I book a room?", "Click Confirm and your room is booked!"),
    ("How do I book a room?", "Choose a date. Then pay. Your room is booked."),
    (
        "How can I cancel my subscription?",
        "Open Settings, choose Plan, then End. Your subscription is cancelled.",
    ),
    ("Can I cancel online?", "Yes: send the form, and your order is cancelled."),
    ("Cancel my plan", "Open Settings and press End. Your plan is cancelled."),
    ("Cancel my plan", "Tap End. A line appears: your plan has been cancelled."),
    ("Book a table", "I'll let you know as soon as your table is booked."),
    ("Book a table", "I need your name so that your table is booked for the right person"),
    ("Book a table", "I will write to you before your table is booked."),
    ("Book a slot at 9", "Unfortunately your preferred slot is booked."),
    ("Book a slot at 9", "I am sorry, your slot is booked."),
    ("Book a slot at 9", "Your preferred slot is booked. Would 10 do?"),
    ("Buche den Termin", "Ihr Wunschtermin ist leider gebucht."),
    ("Buche den Termin", "Ich brauche Ihren Namen, damit Ihr Termin gebucht ist."),
    ("Wie buche ich ein Zimmer?", "Sie zahlen online, und Ihr Zimmer ist gebucht."),
    ("Wie kündige ich mein Abo?", "Klicken Sie auf Ende. Ihr Abo ist gekündigt."),
    ("Explain how booking works", "You pay first, then your seat is reserved for 24 hours."),
    ("Send me a reminder", "We were able to send reminders in the past."),
    ("Cancel my order", "Your order has not been cancelled."),
    ("Cancel my order", "Orders that have been cancelled cannot be restored."),
    ("Send the mail", "I sent it to you yesterday."),
    ("Storniere den Flug", "Ihr Flug wurde von der Airline storniert."),
    ("取消订单", "订单可能已取消\uff0c请检查。"),
    ("Cancel my order", "Your order should have been cancelled."),
    ("Cancel my order", "I can't say whether it has been cancelled."),
    ("Cancel my order", "Your order has been cancelled by your wife."),
    ("Send the mail", "I sent nothing."),
    ("Send the mail", "No mail has been sent."),
    ("Send the mail", "I've sent no mail."),
    ("Buche den Termin", "Ich habe keinen Termin gebucht, denn alle sind belegt."),
    ("Buche den Termin", "Der Termin wurde vor zwei Tagen gebucht."),
    ("Buche den Termin", "Der Termin wurde von einem anderen Gast gebucht."),
    ("Reserva una mesa", "No he reservado ninguna mesa."),
    ("Reserva una mesa", "La mesa ha sido reservada por otro cliente."),
    ("Annule ma commande", "Votre commande a été annulée par votre femme."),
    ("Prenota un tavolo", "Non ho prenotato il tavolo."),
    ("Boek een tafel", "Ik heb geen tafel geboekt."),
    ("取消我的订单", "无法确认订单是否已取消。"),
    ("预订桌子", "桌子之前已预订了。"),
    ("帮我预订桌子", "这张桌子别人已预订了。"),
    ("如何取消订单", "点击取消按钮\uff0c订单已取消。"),
    ("席を予約して", "他のお客様が予約しました。"),
]


@pytest.mark.parametrize(
    "request_",
    [
        "And did you cancel it?",
        "Thanks. Did you cancel it?",
        "please confirm that you cancelled it",
    ],
)
def test_an_answer_to_a_question_whether_it_was_done_claims_no_new_deed(make_trace, request_):
    trace = make_trace(user_input=request_, final_output="Yes, I've cancelled it.", tool_calls=())
    assert findings("claims_backed_by_calls", trace) == ()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (
            "I cancelled my order yesterday, when do I get my money?",
            "Since your order has been cancelled, the refund takes 5 days.",
        ),
        (
            "Ich habe meine Bestellung storniert. Wann kommt das Geld?",
            "Da Ihre Bestellung storniert wurde, kommt es in 5 Tagen. Sie wurde heute storniert.",
        ),
    ],
)
def test_what_the_user_did_is_no_claim(make_trace, request_, answer):
    trace = make_trace(user_input=request_, final_output=answer, tool_calls=(), history=())
    assert findings("claims_backed_by_calls", trace) == ()


@pytest.mark.parametrize(("request_", "answer"), NOT_CLAIMED)
def test_what_claims_no_deed_of_the_agent_is_no_finding(make_trace, request_, answer):
    trace = make_trace(user_input=request_, final_output=answer, tool_calls=(), history=())
    assert findings("claims_backed_by_calls", trace) == ()


UNREPORTED = {
    "another state": (
        "Cancel my reservation",
        "Your reservation has been cancelled.",
        call("get_reservation", result={"status": "confirmed"}),
    ),
    "a key whose value is false": (
        "Cancel my reservation",
        "Your reservation has been cancelled.",
        call("get_reservation", result='{"status":"booked","cancelled":false}'),
    ),
    "a key without a value": (
        "Cancel my reservation",
        "Your reservation has been cancelled.",
        call("get_reservation", result={"status": "open", "cancelled_at": None}),
    ),
    "a line whose value is no": (
        "Cancel my reservation",
        "Your reservation has been cancelled.",
        call("get_reservation", result="status: booked\ncancelled: no"),
    ),
    "a policy": (
        "Cancel my order",
        "Your order has been cancelled.",
        call("search_policy", result="Orders can be cancelled within 24h."),
    ),
    "a policy from a tool of another name": (
        "Cancel my order",
        "Your order has been cancelled.",
        call("get_shop", result={"text": "Orders can be cancelled within 24h."}),
    ),
    "states that may be chosen": (
        "Cancel my order",
        "Your order has been cancelled.",
        call("get_order", result={"status": "open", "allowed_states": ["open", "cancelled"]}),
    ),
    "a delivery": (
        "Refund my order",
        "Your order has been refunded.",
        call("get_order", result={"status": "delivered"}),
    ),
    "a booking in German": (
        "Storniere meine Buchung",
        "Ihre Buchung wurde storniert.",
        call("get_booking", result={"status": "gebucht"}),
    ),
    "a payment in Chinese": (
        "取消我的订单",
        "您的订单已取消。",
        call("query_order", result={"status": "已付款"}),
    ),
    "what is not cancelled in Chinese": (
        "取消我的订单",
        "您的订单已取消。",
        call("query_order", result="未取消"),
    ),
    "the state of another record": (
        "Book room 4",
        "Room 4 has been booked.",
        call("get_rooms", result=[{"room": 4, "booked": False}, {"room": 5, "booked": True}]),
    ),
    "the state of another record in a wrapped list": (
        "Cancel my order A-17",
        "Your order has been cancelled.",
        call(
            "list_orders",
            result={
                "orders": [{"id": "A-17", "state": "open"}, {"id": "A-18", "state": "cancelled"}]
            },
        ),
    ),
    "a question on deleting": (
        "Delete my account",
        "I've deleted your account.",
        call("search_faq", {"query": "how to delete account"}),
    ),
    "a search that begins with the verb": (
        "Delete my account",
        "I've deleted your account.",
        call("search", {"query": "delete account from shop"}),
    ),
    "a search for a post": (
        "Cancel my order",
        "I've cancelled your order.",
        call("search_articles", {"query": "update or put order", "method": "fulltext"}),
    ),
    "a query that reads": (
        "Delete customer 4",
        "I've deleted customer 4.",
        call("query", {"sql": "SELECT deleted FROM c WHERE note = 'delete'"}),
    ),
    "a request that reads": (
        "Cancel order 9",
        "I've cancelled order 9.",
        call("fetch", {"method": "GET", "url": "/orders/9?then=post"}),
    ),
    "a gene": (
        "Delete the entry",
        "I've deleted the entry.",
        call("search_genes", {"query": "mutation in BRCA1"}),
    ),
}


@pytest.mark.parametrize("case", UNREPORTED)
def test_a_look_up_backs_no_claim_that_it_does_not_report(make_trace, case):
    request_, answer, look = UNREPORTED[case]
    trace = make_trace(user_input=request_, final_output=answer, tool_calls=(look,), history=())
    assert findings("claims_backed_by_calls", trace)


BACKED = {
    "the state": (
        "Cancel my reservation",
        "Your reservation has been cancelled.",
        call("get_reservation", result='{"status":"CANCELLED"}'),
    ),
    "a key that is true": (
        "Cancel my reservation",
        "Your reservation has been cancelled.",
        call("get_reservation", result={"isCancelled": True}),
    ),
    "when it was": (
        "Refund my order",
        "Your order has been refunded on May 2.",
        call("get_order", result={"refunded_at": "2026-05-02"}),
    ),
    "the state of one record of several": (
        "Cancel my order A-17",
        "Your order has been cancelled.",
        call("list_orders", result=[{"id": "A-17", "state": "cancelled"}, {"id": "A-18"}]),
    ),
    "the state of a record that is not named": (
        "Cancel my order",
        "Your order has been cancelled.",
        call("list_orders", result=[{"id": "A-17", "state": "cancelled"}, {"id": "A-18"}]),
    ),
    "a sentence": (
        "Send the parcel",
        "Your parcel has been shipped.",
        call("track_parcel_status", result="Parcel 4 was delivered to a neighbour."),
    ),
    "a state in German": (
        "Storniere Bestellung 31",
        "Die Bestellung 31 wurde storniert.",
        call("get_order", result={"gekündigt": True}),
    ),
    "a state in Chinese": (
        "取消我的订单",
        "您的订单已取消。",
        call("query_order", result={"状态": "已取消"}),
    ),
    "SQL": (
        "Delete customer 4",
        "I've deleted customer 4.",
        call("query", {"q": "delete from c where id = 4"}),
    ),
    "SQL after a read": (
        "Delete customer 4",
        "I've deleted customer 4.",
        call("query", {"sql": "WITH x AS (SELECT 4 AS id)\nDELETE FROM c USING x"}),
    ),
    "a mutation": (
        "Cancel order 9",
        "I've cancelled order 9.",
        call("graphql_query", {"query": "mutation Cancel($id: ID!) { cancel(id: $id) { ok } }"}),
    ),
    "a method": (
        "Cancel order 9",
        "I've cancelled order 9.",
        call("fetch", {"url": "/orders/9", "options": {"httpMethod": "patch"}}),
    ),
    "an operation": (
        "Cancel order 9",
        "I've cancelled order 9.",
        call("query_orders", {"operation": "cancel_order", "id": 9}),
    ),
}


@pytest.mark.parametrize("case", BACKED)
def test_a_call_that_did_it_or_reports_it_backs_a_claim(make_trace, case):
    request_, answer, look = BACKED[case]
    trace = make_trace(user_input=request_, final_output=answer, tool_calls=(look,), history=())
    assert findings("claims_backed_by_calls", trace) == ()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [("Send it", ("I sent " * 2_900)[:19_990] + " not x"), ("取消", "已取消了" * 5_000)],
)
def test_of_very_many_places_that_claim_nothing_few_are_looked_at(monkeypatch, request_, answer):
    looked_at = []

    def rules_out(text, match, *, says_who):
        looked_at.append((match, says_who))
        return True

    monkeypatch.setattr(_claims, "is_ruled_out", rules_out)
    assert claims(answer, request_) == []
    assert len(looked_at) == 50


def test_only_the_neighbourhood_of_a_claim_is_looked_at():
    assert claims("not " + "word " * 80 + "I sent it", "Send it")
    assert not claims("not " + "word " * 70 + "I sent it", "Send it")
