// Everything can be done without a mouse.

import { button, h } from "./elements.js";

/**
 * The list of a page's keys.
 * @param {string[][]} keys - each with what it does; several keys of one line are separated by spaces
 */
export function helpDialog(keys) {
  const dialog = h("dialog", { class: "help", "aria-label": "Keys", onclick: (event) => { if (event.target === dialog) dialog.close(); } },
    h("h2", null, "Keys"),
    h("dl", null, keys.map(([key, text]) => [h("dt", null, key.split(" ").map((one) => h("kbd", null, one))), h("dd", null, text)])),
    button("Close", () => dialog.close(), { class: "more" }));
  return dialog;
}

/**
 * Has keys do what `actions` has for them, unless they are typed into a field or a dialog is open. An action that returns
 * false leaves the key to the browser.
 * @param {Record<string, (event: KeyboardEvent) => unknown>} actions
 * @param {(event: KeyboardEvent) => boolean} [typed] - deals with a key that is typed into a field
 */
export function listenToKeys(actions, typed = () => false) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (typed(event)) event.preventDefault();
      else if (event.key === "Escape") { event.target.blur(); event.preventDefault(); }
      return;
    }
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (action && action(event) !== false) event.preventDefault();
  });
}
