// Who looks: the token, typed once for as long as the tab is open, and what it permits.

import { button, h, replace } from "../report/elements.js";
import { ask, keepToken, token } from "./client.js";

/**
 * Asks the server who looks; where it wants a token, asks the reader for one, as often as it takes.
 * @param {Element} root - where the reader is asked
 * @returns {Promise<object>} the Viewer
 */
export async function enter(root) {
  for (;;) {
    try {
      const viewer = await ask("ViewService/GetViewer");
      return { ...viewer, scopes: viewer.scopes ?? [], hasJudge: Boolean(viewer.hasJudge) };
    } catch (error) {
      if (error.needsToken) await askForToken(root, token() ? "The server does not know this token." : "");
      else if (error.code === "permission_denied") await askForToken(root, error.message);
      else await askAgain(root, error);
    }
  }
}

/**
 * Whether the reader may do what needs a scope; a text says why not.
 * @param {object} viewer
 * @returns {string} empty where it is permitted
 */
export function forbidden(viewer, scope = "write") {
  return viewer.scopes.includes(scope) ? "" : `Your token permits to ${viewer.scopes.join(" and ")}: this needs the scope ${scope}.`;
}

function askForToken(root, problem) {
  return new Promise((resolve) => {
    const field = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true, "aria-describedby": "token-problem token-help" });
    const form = h("form", { class: "enter", onsubmit: (event) => { event.preventDefault(); keepToken(field.value.trim()); resolve(); } },
      h("h1", null, "spanscore"),
      h("label", { for: "token" }, "Token"),
      field,
      h("p", { class: "problem", id: "token-problem", role: "alert" }, problem),
      h("button", { type: "submit", class: "act" }, "Open"),
      h("p", { class: "muted small", id: "token-help" }, "A line of the file that the configuration names under ", h("code", null, "api.auth"), ". It is kept until this tab is closed."));
    replace(root, h("main", { class: "gate" }, form));
    field.focus();
  });
}

function askAgain(root, error) {
  return new Promise((resolve) => {
    const again = button("Try again", () => resolve(), { class: "act" });
    replace(root, h("main", { class: "gate" }, h("div", { class: "enter" }, h("h1", null, "spanscore"), h("p", { role: "alert" }, error.message, " Is it running?"), again)));
    again.focus();
    setTimeout(resolve, 5000);
  });
}
