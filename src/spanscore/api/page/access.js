// Who looks: the token, typed once for as long as the tab is open, and what it permits.

import { button, h, replace } from "../report/elements.js";
import { ask, given, keep, tenantHeader } from "./client.js";

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
      if (error.needsToken) await askWho(root, given("token") || given("tenant") ? sentence(error.message) : "");
      else if (error.code === "permission_denied") await askWho(root, sentence(error.message));
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

/** A message of the server, which begins small and has no full stop, as a sentence. */
export function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function askWho(root, problem) {
  return new Promise((resolve) => {
    const field = h("input", { type: "password", id: "token", autocomplete: "current-password", "aria-describedby": "token-problem token-help" });
    const tenant = h("input", { type: "text", id: "tenant", autocomplete: "organization", spellcheck: "false", value: given("tenant") });
    const save = () => {
      if (field.value.trim()) keep("token", field.value.trim());
      keep("tenant", tenant.value.trim());
      resolve();
    };
    const form = h("form", { class: "enter", onsubmit: (event) => { event.preventDefault(); save(); } },
      h("h1", null, "spanscore"),
      h("label", { for: "token" }, "Token"), field,
      tenantHeader() ? [h("label", { for: "tenant" }, "Tenant, where the token is of none"), tenant] : null,
      h("p", { class: "problem", id: "token-problem", role: "alert" }, problem),
      h("button", { type: "submit", class: "act" }, "Open"),
      h("p", { class: "muted small", id: "token-help" }, "A token stands in the file that the configuration names under ", h("code", null, "api.auth"), ". It is kept until this tab is closed."));
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
