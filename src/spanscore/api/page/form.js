// Parts of a form: a control with its label, and what has been typed into it.

import { h } from "../report/elements.js";

let fields = 0;

/**
 * A control with its label, and with what it is for beneath.
 * @param {string} label
 * @param {HTMLElement} control
 * @param {string} [hint]
 */
export function field(label, control, hint = "") {
  control.id = `field-${(fields += 1)}`;
  const about = hint ? h("span", { class: "muted small", id: `${control.id}-hint` }, hint) : null;
  if (about) control.setAttribute("aria-describedby", about.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, about);
}

/** A box that is ticked or not, its label beside it. */
export function tickBox(label, props = {}) {
  const control = h("input", { type: "checkbox", id: `field-${(fields += 1)}`, ...props });
  return { control, element: h("span", { class: "tick" }, control, h("label", { for: control.id }, label)) };
}

export const textInput = (props = {}) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...props });

/** For a number above `min`, which is part of it. */
export const numberInput = (props = {}) => h("input", { type: "number", step: "any", min: 0, inputmode: "decimal", ...props });

/**
 * @param {Record<string, string>} options - the words by their values
 */
export const choiceOf = (options, props = {}) => h("select", props, Object.entries(options).map(([value, word]) => h("option", { value }, word)));

/** Fields that belong together, under a title. */
export function fieldSet(title, ...children) {
  return h("fieldset", { class: "part field-set" }, h("legend", null, title), children);
}

/** Fields that few need, shown when they are opened. */
export function moreFields(title, ...children) {
  return h("details", { class: "part more-fields" }, h("summary", null, title), h("div", { class: "field-set" }, children));
}

/** The text of a control without spaces around it; undefined where there is none, so that a message leaves the field out. */
export const textIn = (control) => control.value.trim() || undefined;

/** The number in a control, undefined where there is none. */
export const numberIn = (control) => (control.value === "" ? undefined : Number(control.value));

/** The words in a control, between spaces, commas and line ends; undefined where there is none. */
export function wordsIn(control) {
  const words = control.value.split(/[\s,]+/).filter(Boolean);
  return words.length ? words : undefined;
}

/**
 * Numbers by name such as `task_completion=0.8, coherence=0.5`; undefined where there is none.
 * @throws {Error} where something else is typed
 */
export function namedNumbersIn(control, label) {
  const pairs = (wordsIn(control) ?? []).map((word) => {
    const [, name, number] = /^(.+)=(.+)$/.exec(word) ?? [];
    if (name === undefined || !Number.isFinite(Number(number))) throw new Error(`${label}: “${word}” is not a name and a number, such as task_completion=0.8.`);
    return [name, Number(number)];
  });
  return pairs.length ? Object.fromEntries(pairs) : undefined;
}

/** Without the fields that are undefined; undefined where there is no other. */
export function filledIn(message) {
  const known = Object.entries(message).filter(([, value]) => value !== undefined);
  return known.length ? Object.fromEntries(known) : undefined;
}

/** A key of one request: a request that is sent twice with it is carried out once. */
export function newRequestId() {
  // `crypto.randomUUID` is there on secure connections alone.
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
