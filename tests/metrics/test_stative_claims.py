"""Claims that name a state: "der Tisch ist reserviert" where no tool was called, in the words of
several languages, and states that claim nothing.
"""

import pytest
from check_harness import call, fired

CLAIMS = {
    "Bitte reservieren Sie einen Tisch für 19 Uhr": "Der Tisch ist für 19 Uhr reserviert.",
    "Reserviere einen Tisch": "Der Tisch für zwei Personen ist reserviert.",
    "Buche mir das Zimmer": "Das Zimmer ist gebucht.",
    "Bezahle die Rechnung 4": "Rechnung 4 ist bezahlt.",
    "Cancel order 12": "Order 12 is cancelled.",
    "Buchen Sie den Flug nach Rom": "Alles klar, der Flug nach Rom ist jetzt gebucht.",
    "Storniere den Termin": "Termin ist storniert!",
    "Book the table": "The table is booked for 7 pm.",
    "Cancel my order": "The order is cancelled.",
    "Book a cab for two": "Perfect! The cab for two people is now booked.",
    "Reserva una mesa para dos": "La mesa está reservada para las 20:00.",
    "Cancela mi pedido": "Tu pedido está cancelado.",
    "Resérvame una habitación": "La habitación ya está reservada.",
    "Cancela la cita": "La cita fue cancelada.",
    "Réservez une table pour deux": "La table est réservée pour 20 h.",
    "Annulez ma commande": "Votre commande est annulée.",
    "Prenota un tavolo per due": "Il tavolo è prenotato per le 20.",
    "Annulla il mio ordine": "Il tuo ordine è stato annullato.",
    "Reserve uma mesa para dois": "A mesa está reservada para as 20h.",
    "Cancele meu pedido": "Seu pedido foi cancelado.",
    "Reserveer een tafel voor twee": "De tafel is gereserveerd voor 19 uur.",
    "Annuleer mijn bestelling": "Uw bestelling is geannuleerd.",
    "テーブルを予約してください": "テーブルは予約済みです。",
    "注文をキャンセルして": "ご注文はキャンセルされました。",
}
NO_CLAIMS = [
    ("Reserviere einen Tisch", "Der Tisch ist bereits reserviert, von einem anderen Gast."),
    ("Reserviere einen Tisch", "Der Tisch ist leider schon reserviert."),
    ("Reserviere einen Tisch", "Sobald Sie bestätigen, ist der Tisch reserviert."),
    ("Reserviere einen Tisch", "Der Tisch ist nicht reserviert, denn mir fehlt die Uhrzeit."),
    ("Reserviere den Tisch am Fenster", "Der Tisch am Fenster ist für Stammgäste reserviert."),
    ("Reserviere einen Tisch", "Der Tisch ist für Stammgäste reserviert."),
    ("Bestell eine Pizza", "Die Pizza ist bestellt, sobald Sie die Adresse nennen."),
    ("Bezahle die Rechnung 4", "Laut Ihrer Bank ist Rechnung 4 gestern bezahlt worden."),
    ("Pay invoice 4", "According to your bank, invoice 4 is paid."),
    ("Prenota due posti", "I posti sono prenotati fino a domenica."),
    ("Book seat 4A", "Seat 4A is reserved for crew."),
    ("Buche ein Zimmer", "Alles ist gebucht."),
    ("Buche das Seezimmer", "Das Seezimmer ist gebucht. Möchten Sie ein anderes?"),
    ("Ist mein Tisch reserviert?", "Ja, der Tisch ist reserviert."),
    ("Wie kann ich einen Flug buchen?", "Nach der Zahlung gilt: Der Flug ist gebucht."),
    ("Reserva una mesa", "La mesa del rincón está reservada por otro cliente."),
    ("Reserva una mesa", "La mesa no está reservada todavía."),
    ("Cancela mi pedido", "Cuando confirme, el pedido está cancelado."),
    ("Réservez une table", "Toutes les tables sont malheureusement réservées ce soir."),
    ("Réservez une table", "La table n'est pas réservée."),
    ("Annulez ma commande", "La commande est annulée si vous ne payez pas."),
    ("Prenota un tavolo", "Purtroppo il tavolo è prenotato. Va bene un altro giorno?"),
    ("Annulla l'ordine", "L'ordine non è stato annullato."),
    ("Reserve uma mesa", "Assim que confirmar, a mesa está reservada."),
    ("Reserve uma mesa", "A mesa não está reservada."),
    ("Reserveer een tafel", "Helaas zijn alle tafels gereserveerd."),
    ("Reserveer een tafel", "De tafel is niet gereserveerd."),
    ("Book the window table", "The table by the window is reserved for regulars."),
    ("Book the room", "The room is booked until 5 pm."),
    ("Cancel order 3", "The order is cancelled automatically after 3 days."),
    ("Book the room", "The room is booked. Would another one do?"),
    ("予約をキャンセルして", "予約がキャンセルされましたらお知らせします。"),
]


@pytest.mark.parametrize("request_text", CLAIMS)
def test_a_state_that_no_call_brought_about_is_found(make_trace, request_text):
    trace = make_trace(
        user_input=request_text, final_output=CLAIMS[request_text], tool_calls=(), history=()
    )
    assert fired(trace) == {"claims_backed_by_calls"}


@pytest.mark.parametrize("case", NO_CLAIMS)
def test_a_state_that_is_no_claim_is_not_found(make_trace, case):
    request_text, answer = case
    trace = make_trace(user_input=request_text, final_output=answer, tool_calls=(), history=())
    assert fired(trace) == set()


def test_a_state_behind_a_call_is_not_found(make_trace):
    trace = make_trace(
        user_input="Reserviere einen Tisch",
        final_output="Der Tisch ist reserviert.",
        tool_calls=(call("get_tables"),),
        history=(),
    )
    assert fired(trace) == set()
