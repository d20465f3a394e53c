"""Claims that name a state: "der Tisch ist reserviert" where no tool was called, in the words of
several languages, and states that claim nothing.
"""

import pytest
from check_harness import call, fired

from spanscore.metrics.check._claims import claims
from spanscore.metrics.check._requests import asks_to_see, only_asks_to_see, ordered_things
from spanscore.model.step import Message

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


ASKED = [
    ("Could you cancel order 12 for me?", "Order 12 is cancelled."),
    ("I need a table, please reserve one", "Your table is reserved."),
    ("Pay invoice 4 today", "Invoice 4 is paid."),
    ("Buy two tickets for Friday", "The tickets are now ordered."),
    ("Schedule the review for Monday", "The review is scheduled for Monday."),
    ("Don't reserve the hall. Book the studio.", "The studio is booked."),
    ("Kannst du bitte die Rechnung 7 überweisen?", "Die Rechnung ist überwiesen."),
    ("Kannst du zwei Pizzen bestellen?", "Die Pizzen sind bestellt."),
    ("Kündigen Sie bitte mein Abo", "Ihr Abo ist gekündigt."),
    ("Buch mir ein Hotel in Köln", "Laut Plan: Das Hotel ist gebucht."),
    ("Storniere die Reise", "Gemäß Ihrem Wunsch: Die Reise ist storniert."),
    ("Kun je mijn bestelling annuleren?", "Je bestelling is geannuleerd."),
    ("Betaal factuur 9", "De factuur is nu betaald."),
    ("Bestel een pizza", "De pizza is besteld."),
    ("¿Puedes pagar la factura?", "La factura está pagada."),
    ("Pídeme un taxi", "El taxi ya está pedido."),
    ("Cancélame la cita", "Según lo solicitado, la cita está cancelada."),
    ("Pouvez-vous annuler mon abonnement ?", "Votre abonnement est annulé."),
    ("Payez la facture 3", "La facture est payée."),
    ("Commandez une pizza", "Selon votre demande, la pizza est commandée."),
    ("Puoi prenotarmi un tavolo?", "Il tavolo è prenotato."),
    ("Paga la bolletta", "La bolletta è pagata."),
    ("Disdici l'appuntamento", "L'appuntamento è disdetto."),
    ("Ordina una pizza", "La pizza è stata ordinata."),
    ("Você pode cancelar o meu pedido?", "O seu pedido foi cancelado."),
    ("Pague a conta de luz", "A conta está paga."),
    ("Compre dois bilhetes", "Os bilhetes foram comprados."),
    ("ホテルの予約をお願いします", "ホテルは予約済みです。"),
    ("この本を注文してください", "本は注文済みです。"),
    ("予約を取り消してください。", "予約はキャンセルされました。"),
]
NOT_ASKED = [
    ("Invoice 4 is paid. Cancel the reminder?", "Invoice 4 is paid, so no reminder will come."),
    ("Order 4 has been paid. Cancel the reminder?", "Order 4 has been paid."),
    ("Order 5 is paid. Please pay order 6.", "Order 5 is paid."),
    ("Cancel my booking", "The room is booked."),
    ("Cancel my order", "The order is paid."),
    ("Move my order to Friday", "The order is paid."),
    ("Don't cancel anything yet.", "The order is cancelled."),
    ("Pay my invoice", "The order is paid, according to the system."),
    ("Pay invoice 4", "The system says: invoice 4 is paid."),
    ("Should I book a table?", "No need: the table is booked."),
    ("Bezahle die Rechnung", "Die Rechnung ist bezahlt, laut Ihrer Bank."),
    ("Bestelle ein Schachbuch. Wie steht es?", "Um den Läufer ist es schlecht bestellt."),
    ("Bestelle ein Schachbuch", "Deine Stellung ist leider schlecht bestellt."),
    ("Ich habe eine Bestellung. Storniere sie.", "Die Bestellung ist bezahlt."),
    ("Die Rechnung ist bezahlt. Storniere die Mahnung!", "Die Rechnung ist bezahlt."),
    ("Muss ich den Tisch reservieren?", "Der Tisch ist reserviert."),
    ("Is mijn bestelling betaald?", "Ja, je bestelling is betaald."),
    ("Heb je de tafel geboekt? Ik wil zeker weten dat je boeken kunt.", "De tafel is geboekt."),
    ("Mijn bestelling is betaald?", "Je bestelling is betaald."),
    ("Betaal de factuur", "De factuur is betaald, volgens uw bank."),
    ("Cancela mi pedido", "Tu pedido está cancelado, según el sistema."),
    ("¿Mi pedido está pagado?", "Tu pedido está pagado."),
    ("Cancela mi reserva", "La mesa está reservada."),
    ("Ma commande est payée ?", "Votre commande est payée."),
    ("Annulez ma commande", "Votre commande est annulée, selon le système."),
    ("Annulez la réservation", "La table est réservée."),
    ("Il mio ordine è stato pagato?", "Il tuo ordine è pagato."),
    ("Hai prenotato il tavolo?", "Il tavolo è prenotato."),
    ("È pagata la bolletta?", "La bolletta è pagata."),
    ("Descrivi la Pagoda dell'ordine", "Il biglietto è pagato."),
    ("Annulla l'ordine", "L'ordine è annullato, secondo il sistema."),
    ("A minha encomenda foi paga?", "A sua encomenda foi paga."),
    ("O pedido está pago?", "Sim, o pedido está pago."),
    ("Foi cancelada a reserva?", "A reserva foi cancelada."),
    ("Fale da Pagode de Hanói", "A conta está paga."),
    ("Cancele meu pedido", "Seu pedido foi cancelado, segundo o sistema."),
    ("予約は済んでいますか?", "テーブルは予約済みです。"),
    ("テーブルは予約済みですか?", "はい、テーブルは予約済みです。"),
    ("注文はキャンセルされていますか", "注文はキャンセルされました。"),
    ("予約をキャンセルしてください", "テーブルは予約済みです。"),
    ("注文をキャンセルして", "システムによると、注文はキャンセルされました。"),
]


@pytest.mark.parametrize(("request_", "answer"), ASKED)
def test_a_state_is_a_claim_where_the_user_asks_for_its_deed(make_trace, request_, answer):
    trace = make_trace(user_input=request_, final_output=answer, tool_calls=(), history=())
    assert fired(trace) == {"claims_backed_by_calls"}


@pytest.mark.parametrize(("request_", "answer"), NOT_ASKED)
def test_a_state_is_no_claim_where_the_user_asks_for_nothing_or_another_deed(
    make_trace, request_, answer
):
    trace = make_trace(user_input=request_, final_output=answer, tool_calls=(), history=())
    assert fired(trace) == set()


@pytest.mark.parametrize(
    ("said", "is_found"),
    [
        ("Invoice 4 is paid.", False),
        ("Rechnung 4 wurde gestern bezahlt.", False),
        ("Invoices can be paid by card.", True),
        ("You are the bookkeeper of a shop.", True),
    ],
)
def test_a_state_that_the_system_prompt_states_is_no_claim(make_trace, said, is_found):
    trace = make_trace(
        user_input="Pay invoice 4",
        final_output="Invoice 4 is paid.",
        system_instructions=said,
        tool_calls=(),
        history=(),
    )
    assert bool(fired(trace)) == is_found


def test_what_an_earlier_message_states_is_no_claim(make_trace):
    trace = make_trace(
        user_input="Cancel my order 4",
        final_output="Your order has been cancelled.",
        tool_calls=(),
        history=(Message("user", "The shop wrote: order 4 was cancelled."),),
    )
    assert fired(trace) == set()


@pytest.mark.parametrize(
    "request_",
    [
        "Elencami le fatture",
        "Hai prenotato il tavolo?",
        "Onde está a minha encomenda?",
        "Foi paga a conta?",
        "Laat me de facturen zien",
        "Zijn de facturen betaald?",
        "テーブルは予約済みですか",
        "請求書の一覧を見せてください",
    ],
)
def test_a_question_on_how_things_are_asks_only_to_see(request_):
    assert asks_to_see(request_)


@pytest.mark.parametrize(
    "request_",
    [
        "È possibile prenotare un tavolo?",
        "Quando arriva Anna, prenota un tavolo",
        "Che ne dici di annullare tutto?",
        "Que tal cancelar a reserva?",
        "Wat dacht je van een annulering?",
        "Wie wäre es mit einer Stornierung?",
        "何か食べ物を注文して",
        "いつものコーヒーを注文して",
    ],
)
def test_a_wish_that_resembles_a_question_does_not_ask_to_see(request_):
    assert not asks_to_see(request_)


TO_COME = [
    ("Cancel my order 42. Tell me when it is cancelled.", None),
    ("Cancel my order 42 and let me know once it has been cancelled", None),
    ("Make sure that order 42 is cancelled today: cancel it", None),
    ("Storniere meine Bestellung und sag mir, wenn sie storniert ist", None),
    ("Cancel order 42", "You handle open and cancelled orders."),
    ("Cancel order 42", "Confirm to the user that the order was cancelled."),
    ("Cancel order 42", "Cancelled orders disappear from the list."),
]


@pytest.mark.parametrize("case", TO_COME)
def test_a_state_that_is_to_come_or_names_a_kind_is_none_that_was_stated(make_trace, case):
    request_text, system = case
    is_german = request_text.startswith("Storniere")
    trace = make_trace(
        user_input=request_text,
        final_output="Ihre Bestellung ist storniert." if is_german else "Your order is cancelled.",
        system_instructions=system,
        tool_calls=(),
        history=(),
    )
    assert fired(trace) == {"claims_backed_by_calls"}


@pytest.mark.parametrize("thing", ["ホテル", "席", "部屋", "便"])
def test_any_will_do_is_a_request_and_no_question(make_trace, thing):
    trace = make_trace(
        user_input=f"どの{thing}でもいいので予約してください",
        final_output=f"{thing}を予約しました。",
        tool_calls=(),
        history=(),
    )
    assert fired(trace) == {"claims_backed_by_calls"}


LOOKED_UP_AND_CHANGED = [
    "Trova il mio abbonamento, disdicilo",
    "Encontre minha consulta, desmarque-a",
    "Zoek mijn afspraak, zeg hem af",
    "Find the old file, throw it away",
    "Trova la bolletta, saldala",
    "どれでもいいので解約して",
]


@pytest.mark.parametrize("request_text", LOOKED_UP_AND_CHANGED)
def test_what_follows_a_look_up_may_ask_for_a_change(request_text):
    assert not only_asks_to_see(request_text)


@pytest.mark.slow
def test_an_answer_of_blank_lines_is_read_in_the_time_of_its_length():
    request_text = "Book and cancel and order and pay and schedule, refund, send, delete, transfer"
    assert claims("\n" * 19_000, request_text) == []
    assert not asks_to_see("foi pag" + "a" * 19_900)


ORDERED_BEHIND_A_LOOK = {
    "Trova un volo e prenotalo": "Ho prenotato il volo.",
    "Dove vuoi: prenota": "Ho prenotato un tavolo.",
    "When you have found one, book it": "I've booked it.",
    "Find a flight and book it": "I've booked it.",
    "Where is my order? Cancel it.": "I've cancelled it.",
    "Zeig mir die Flüge und buche den ersten": "Ich habe den ersten Flug gebucht.",
    "Busca una mesa y resérvala": "He reservado la mesa.",
    "Trouve une table et réserve-la": "J'ai réservé la table.",
    "Encontre um voo e reserve-o": "Reservei o voo.",
    "Zoek een tafel en reserveer hem": "Ik heb de tafel gereserveerd.",
}


@pytest.mark.parametrize("request_text", ORDERED_BEHIND_A_LOOK)
def test_a_deed_ordered_behind_a_look_up_is_asked_for(make_trace, request_text):
    trace = make_trace(
        user_input=request_text,
        final_output=ORDERED_BEHIND_A_LOOK[request_text],
        tool_calls=(),
        history=(),
    )
    assert fired(trace) == {"claims_backed_by_calls"}


@pytest.mark.parametrize(
    "request_text",
    [
        "When is my table booked?",
        "When you cancel an order, what is refunded?",
        "Show me how I find a flight and book it",
        "Tell me how to open my order, cancel it, and ask for money",
        "Show me my book, order and refund",
        "Which flights can I find and book?",
        "Zeig mir, wie ich einen Flug finde und buche ihn dann",
        "Trova chi prenota e paga il conto",
        "Muestra quién reserva y cancela la mesa",
        "Où est ma commande ?",
    ],
)
def test_a_deed_that_is_only_spoken_of_behind_a_look_up_is_not_ordered(request_text):
    assert ordered_things(request_text) == []
