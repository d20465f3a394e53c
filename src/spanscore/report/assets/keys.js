// Everything can be done without a mouse.

const KEYS = [
  ["j", "next in the list"], ["k", "the one before"], ["/", "search"], ["f", "only what fails, or all again"], ["n", "next score: show what it rests on"], ["p", "the score before"],
  ["e", "open or close all steps"], ["1 2 3", "turns, sessions, tests"], ["o", "overview"], ["t", "light or dark"], ["Esc", "back: evidence, search, list"], ["?", "these keys"],
];

function helpDialog() {
  const dialog = h("dialog", { class: "help", "aria-label": "Keys", onclick: (event) => { if (event.target === dialog) dialog.close(); } },
    h("h2", null, "Keys"),
    h("dl", null, KEYS.map(([key, text]) => [h("dt", null, key.split(" ").map((one) => h("kbd", null, one))), h("dd", null, text)])),
    button("Close", () => dialog.close(), { class: "more" }));
  return dialog;
}

function listenToKeys(app) {
  const actions = {
    j: () => app.list.move(1), k: () => app.list.move(-1), ArrowDown: () => app.list.move(1), ArrowUp: () => app.list.move(-1),
    "/": () => { app.showList(); app.list.search.focus(); app.list.search.select(); },
    f: () => app.list.toggleState("fail"),
    n: () => app.page?.nextScore?.(1), p: () => app.page?.nextScore?.(-1), e: () => app.page?.toggleAll?.(),
    o: () => app.open({}), t: () => app.toggleTheme(), "?": () => app.help.showModal(),
    1: () => app.list.show("turns"), 2: () => app.list.show("sessions"), 3: () => app.list.show("cases"),
    Escape: () => app.back(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || app.help.open) return;
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (isTyping && event.key === "Escape") { event.target.blur(); event.preventDefault(); return; }
    if (isTyping && event.target === app.list.search && event.key === "Enter") { event.target.blur(); app.list.pick(0); return; }
    if (isTyping) return;
    const isArrow = event.key.startsWith("Arrow");
    if (isArrow && !event.target.closest?.(".scroller")) return; // arrows scroll the page
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (action) { action(); event.preventDefault(); }
  });
}
