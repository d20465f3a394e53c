// Buttons that change something on the server: only for those who may, one at a time, and with what came of it.

import { button, h, replace } from "../report/elements.js";
import { forbidden } from "./access.js";
import { ask } from "./client.js";

/**
 * @typedef {object} Action
 * @property {string} label - such as "Pause"
 * @property {string} method - such as "RunService/PauseRun"
 * @property {object} request
 * @property {string} [question] - what is asked before it is done; without it, it is done at once
 * @property {boolean} [isGrave] - it cannot be undone
 */

/**
 * A row of buttons. `show(actions)` says which there are; a button that stays keeps the focus.
 * @param {object} app
 * @param {(answer: any, action: Action) => unknown} ondone
 */
export function makeActions(app, ondone) {
  const why = forbidden(app.viewer);
  const row = h("div", { class: "action-row" });
  const said = h("p", { class: "problem", role: "alert", hidden: true });
  const element = h("div", { class: "actions" }, row, why ? h("p", { class: "muted small", id: "actions-why" }, why) : null, said);
  let shown = "";

  async function act(action, control) {
    if (why || control.getAttribute("aria-disabled") === "true") return;
    if (action.question && !(await confirmed(action))) { control.focus(); return; }
    control.setAttribute("aria-disabled", "true");
    said.hidden = true;
    try {
      await ondone(await ask(action.method, action.request), action);
    } catch (error) {
      said.textContent = `${action.label}: ${error.message}`;
      said.hidden = false;
    }
    control.removeAttribute("aria-disabled");
  }

  function show(actions) {
    const wanted = JSON.stringify(actions);
    if (wanted === shown) return;
    shown = wanted;
    const focused = row.contains(document.activeElement);
    replace(row, actions.map((action) => {
      const control = button(action.label, () => act(action, control), { class: ["act", action.isGrave ? "grave" : ""], "aria-disabled": why ? "true" : null, "aria-describedby": why ? "actions-why" : null });
      return control;
    }));
    if (focused) row.querySelector("button")?.focus();
  }
  return { element, show };
}

/** Asks the reader before something that cannot be undone. */
function confirmed(action) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { class: "help", "aria-label": action.label },
      h("p", null, action.question),
      h("div", { class: "action-row" },
        button(action.label, () => dialog.close("yes"), { class: ["act", action.isGrave ? "grave" : ""] }),
        button("Not now", () => dialog.close("no"), { class: "act quiet", autofocus: true })));
    dialog.onclose = () => { dialog.remove(); resolve(dialog.returnValue === "yes"); };
    document.body.append(dialog);
    dialog.showModal();
  });
}
