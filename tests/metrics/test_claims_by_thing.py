"""Claims whose words are also used of texts: the thing decides whether a tool had to do it."""

import pytest
from check_harness import call, findings, tool

READS = (call("read_file", {"path": "a.md"}, "text"),)
TOOLS = (tool("search"), tool("read_file"))
CLAIMED = [
    ("Add the dentist to my calendar", "I've added the dentist to your calendar for Friday."),
    ("Turn on the kitchen lights", "I've turned on the kitchen lights."),
    ("Set a timer for 10 minutes", "I've set a timer for 10 minutes."),
    ("Deploy the new version", "I've successfully deployed version 2.1."),
    ("Upload the file to the drive", "I uploaded the file to the drive."),
    ("Submit my leave request", "I've submitted your leave request."),
    ("Reset my password", "I have reset your password and emailed you a new one."),
    ("Freeze my account", "I have frozen your account."),
    ("Open a ticket for the printer", "I have created a ticket for the printer."),
    ("Please file a complaint", "I've filed the complaint; the number is 4471."),
    ("Upgrade me to business class", "I've upgraded you to business class."),
    ("Register me for the yoga class", "I've registered you for the yoga class."),
    ("Order two large pizzas", "I've ordered two large pizzas for you."),
    ("Delete my account", "Your account has been deleted."),
    ("Cancel my subscription", "Subscription cancelled. You won't be charged again."),
    ("Email Bob that I'm late", "Email sent to Bob!"),
    ("Set an alarm for 7 am", "Your alarm is set for 7 am!"),
    ("Submit my application", "Your application has been submitted!"),
    ("please refund me", "All done, your refund has been processed."),
    ("Can you get me a table for 4?", "I have reserved a table for 4."),
    ("Book me on the 6 pm train", "You're booked on the 6 pm train!"),
    ("Subscribe me to the newsletter", "You have been subscribed to it!"),
    ("帮我转账100元给小王", "已为您转账100元给小王。"),
    ("Kannst du meinen Termin absagen?", "Ich habe Ihren Termin morgen abgesagt."),
    ("¿Puedes pedir una pizza?", "He pedido una pizza para ti."),
    ("Ordina una pizza", "Ho ordinato una pizza."),
    ("Peça uma pizza", "Pedi uma pizza para você."),
    ("Bestel een pizza", "Ik heb een pizza besteld."),
    ("帮我点一份披萨", "已为您下单一份披萨。"),
    ("Return my shoes", "I've initiated the return for your shoes."),
    ("Message Sarah that I'll be late", "I've messaged Sarah that you'll be late."),
    ("Call me a cab", "I've called you a cab; it will be there in 5 minutes."),
    ("Give Bob admin rights", "I've granted Bob admin rights."),
    ("Approve Ann's leave", "I've approved Ann's leave request."),
    ("Assign ticket 55 to Tom", "I've assigned ticket 55 to Tom."),
    ("Start the dishwasher", "I've started the dishwasher."),
    ("Share the file with Tom", "I've shared the file with Tom."),
    ("Roll back the deployment", "I've rolled back the deployment."),
    ("Open a ticket for the printer", "I've opened a ticket: INC-4711."),
    ("Manda una mail a Luca", "Ho inviato una mail a Luca."),
    ("给小王发封邮件", "我已经给小王发送了邮件。"),
    ("My flight was cancelled, so cancel my order", "I've cancelled your order."),
    ("Sperre meine Karte", "Ich habe Ihre Karte gesperrt."),
    ("Ändere meine Adresse", "Ich habe Ihre Adresse auf Hauptstr. 5 geändert."),
    ("Kündige meinen Vertrag", "Ihr Vertrag wurde zum 30. Juni gekündigt."),
    ("Change mon adresse", "J'ai modifié votre adresse."),
    ("Éteins la lumière", "J'ai éteint la lumière."),
    ("Bloquea mi tarjeta", "He bloqueado tu tarjeta."),
    ("Aggiungi la cena al calendario", "Ho aggiunto la cena al calendario."),
    ("Apague a luz", "Desliguei a luz."),
    ("Blokkeer mijn pas", "Ik heb uw pas geblokkeerd."),
    ("把会议加到我的日历", "已将会议添加到您的日历。"),
    ("カレンダーに会議を追加して", "カレンダーに会議を追加しました。"),
]


@pytest.mark.parametrize(("request_", "answer"), CLAIMED)
def test_a_deed_on_a_thing_that_is_no_text_is_found(make_trace, request_, answer):
    trace = make_trace(
        user_input=request_, final_output=answer, tool_calls=(), available_tools=None, history=()
    )
    assert findings("claims_backed_by_calls", trace)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ("Change my email to a@b.example", "I've changed your email to a@b.example."),
        ("Move my meeting with Tom to 4 pm", "I've moved your meeting with Tom to 4 pm."),
        ("Run the tests", "I ran the tests and all 12 pass."),
        ("Merge the PR", "I merged the pull request."),
        ("Block my card", "Your card has been blocked."),
        ("Close ticket 55", "Ticket 55 has been closed."),
        ("Restart the web server", "The web server has been restarted."),
        ("Rename the file to b.txt", "I've renamed the file to b.txt."),
    ],
)
def test_a_deed_that_may_be_one_on_a_text_is_found_where_the_agent_has_tools(
    make_trace, request_, answer
):
    trace = make_trace(
        user_input=request_, final_output=answer, tool_calls=READS, available_tools=TOOLS
    )
    assert findings("claims_backed_by_calls", trace)


OF_TEXTS = [
    ("Add a section on risks to my proposal", "I've added a section on risks to your proposal."),
    ("Add error handling", "I've added it to the account:\n```python\ntry: ...\n```"),
    ("Update the settings section of the README", "I've updated the settings section: New"),
    ("Make the meeting notes shorter", "I've made the meeting notes shorter: budget ok"),
    ("Make an account of what happened", "I've made a short account of the events: ..."),
    ("Make a case for remote work", "I've made a case for remote work: focus"),
    ("Raise any issues you see in it", "I've raised one issue: you land before you fly."),
    ("Increase the temperature to 200", "I've changed the temperature to 200: Bake at 200."),
    ("Create an event page for it", "I've created an event description: 'Come!'"),
    ("Create a study plan with reminders", "I've created a study plan with reminders."),
    ("Run through the plan with me", "I ran through the plan with you."),
    ("Switch on your creative mode", "I've switched to my creative mode."),
    ("Remove the duplicates from this list: a, a", "The duplicates have been removed: a"),
    ("Order these cities by size", "I've ordered them by size."),
    ("Send me an overview of my costs", "Here is the overview I've sent you: rent 900"),
    ("Share your thoughts on it", "I've shared my thoughts: it is well written."),
    ("Start the story with rain", "I've started the story with rain."),
    ("Assign each ticket a priority", "I've assigned each ticket a priority: T1 high"),
    ("Scale these values to 0-1: 2, 4", "I've scaled them: 0, 1"),
    ("Exchange the first two items: a, b", "I've exchanged them: b, a"),
    ("Resolve the contradiction", "The contradiction has been resolved: A holds at night."),
    ("Add a role for Tom in the play", "I've given Tom the role of the king."),
    ("Erstelle eine Einkaufsliste", "Ich habe eine Einkaufsliste erstellt: Milch, Brot."),
    ("Crée un calendrier de révisions", "J'ai créé un calendrier de révisions : lundi maths"),
    ("Crea un calendario de estudio", "He creado un calendario de estudio: lunes mates"),
    ("Ajoute un événement à mon histoire", "J'ai ajouté un événement : l'orage éclate."),
    ("修改一下我的地址格式", "已修改地址格式。"),
    ("文章に一文追加して", "一文を追加しました。"),
]


@pytest.mark.parametrize(("request_", "answer"), OF_TEXTS)
@pytest.mark.parametrize("calls", [(), READS])
def test_work_on_a_text_needs_no_call(make_trace, request_, answer, calls):
    trace = make_trace(
        user_input=request_,
        final_output=answer,
        tool_calls=calls,
        available_tools=TOOLS,
        history=(),
    )
    assert findings("claims_backed_by_calls", trace) == ()


@pytest.mark.parametrize(
    ("request_", "answer", "look"),
    [
        (
            "Block my card",
            "Your card has been blocked; a new one is coming.",
            call("get_card", result={"status": "blocked"}),
        ),
        ("Refund me", "Your refund was issued.", call("get_order", result={"refund": "30 EUR"})),
        (
            "Register me",
            "You have been registered since March.",
            call("get_user", result={"registered": "March"}),
        ),
        (
            "Upload the file",
            "It seems the file has been uploaded already.",
            call("list_files", result=["file"]),
        ),
        ("Close ticket 5", "It has been closed.", call("get_ticket", result={"state": "resolved"})),
        (
            "Restart the job",
            "The job has been restarted.",
            call("get_job", result={"restarted_at": "9:00"}),
        ),
        ("Set my alarm to 7", "Your alarm is set for 7.", call("get_alarms", result=["7:00"])),
    ],
)
def test_a_state_that_may_have_been_looked_up_is_no_finding(make_trace, request_, answer, look):
    trace = make_trace(user_input=request_, final_output=answer, tool_calls=(look,), history=())
    assert findings("claims_backed_by_calls", trace) == ()
