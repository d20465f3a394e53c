// The bar of labels: keys and buttons, a comment, and whether the last label is saved.

import { button, h } from "../report/elements.js";
import { newRequestId } from "./form.js";

const LABELS = [{ label: "pass", keys: ["1", "y"], word: "Pass" }, { label: "fail", keys: ["2", "n"], word: "Fail" }];

/**
 * @param {object} options
 * @param {string} options.why - why nothing can be labelled; empty: it can
 * @param {(label: string, comment: string, requestId: string) => Promise<string>} options.onlabel - saves a label; gives what is said of it
 * @param {() => Promise<void>} options.onskip
 * @param {() => Promise<string>} options.onundo - gives the label that was taken back, empty where there was none
 */
export function makeLabels(options) {
  let subject = null; // what is to be labelled
  let tried = null; // a label with its comment that is not saved yet; tried again, it is the same request
  let isBusy = false;

  const said = h("span", { class: "said", role: "status" });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const comment = h("textarea", { rows: 1, "aria-label": "Comment", placeholder: "Comment (c)", maxlength: 32_768, readonly: Boolean(options.why) });
  const labels = LABELS.map(({ label, keys, word }) => button([h("kbd", null, keys[0]), word], () => give(label), { class: ["label-button", label], "data-label": label, "aria-disabled": options.why ? "true" : null, "aria-keyshortcuts": keys.join(" ") }));
  const element = h("div", { class: "label-bar", role: "region", "aria-label": "Label", hidden: true },
    h("div", { class: "label-row" }, labels, button([h("kbd", null, "s"), "Skip"], () => skip(), { class: "label-button" }), button([h("kbd", null, "u"), "Undo"], () => undo(), { class: "label-button", "aria-disabled": options.why ? "true" : null }), comment),
    options.why ? h("p", { class: "muted small" }, options.why) : null, said, problem);

  // One at a time: what is pressed while a label is being saved is not for the next one.
  async function once(what, work) {
    if (isBusy || subject === null) return;
    isBusy = true;
    problem.hidden = true;
    said.textContent = ""; // what was said of the last one is not said of this one
    try {
      said.textContent = await work();
    } catch (error) {
      problem.textContent = `${what}: ${error.message}`;
      problem.hidden = false;
    }
    isBusy = false;
  }

  function give(label) {
    if (options.why) return;
    const words = comment.value.trim();
    if (tried?.subject !== subject || tried.label !== label || tried.words !== words) tried = { subject, label, words, requestId: newRequestId() };
    for (const one of labels) one.setAttribute("aria-pressed", String(one.dataset.label === label));
    const again = LABELS.find((one) => one.label === label).keys[0];
    once(`“${label}” is not saved; press ${again} to try again`, async () => {
      const found = await options.onlabel(label, words, tried.requestId);
      tried = null;
      comment.value = "";
      return `${label} is saved. ${found}`;
    });
  }

  const skip = () => once("It is not skipped", async () => { await options.onskip(); return "Skipped."; });

  function undo() {
    if (options.why) return;
    once("It is not taken back", async () => { const label = await options.onundo(); return label ? `${label} is taken back.` : "There is nothing to take back."; });
  }

  const keys = { s: skip, u: undo, c: () => comment.focus() };
  for (const { label, keys: own } of LABELS) for (const key of own) keys[key] = () => give(label);

  return {
    element, keys,
    /** Labels are for this from now on. */
    show(next) {
      subject = next;
      element.hidden = false;
      for (const one of labels) one.removeAttribute("aria-pressed");
    },
    hide() {
      subject = tried = null;
      element.hidden = true;
    },
  };
}
