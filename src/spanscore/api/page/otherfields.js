// The fields of a request that a form has no control of its own for, by the API's own description of them.

import { h } from "../report/elements.js";
import { apiDocument } from "./client.js";
import { choiceOf, field, moreFields, numberIn, numberInput, textIn, textInput } from "./form.js";

/**
 * Controls for all other fields of a message, under a title that opens; nothing where there are none.
 * @param {string} message - such as "Run"
 * @param {string[]} shown - the paths of the fields that the form has controls for, with all that is in them
 */
export function makeOtherFields(message, shown) {
  const element = h("div");
  let controls = []; // [path, control, read]
  return {
    element,
    /** Asks for the description, and shows the controls. */
    async offer() {
      const { schemas } = (await apiDocument()).components;
      controls = [...fieldsOf(schemas, `spanscore.v1.${message}`, [], shown)];
      if (controls.length) element.append(moreFields("All other fields", ...controls.map(([, control]) => control)));
    },
    /** Puts what was typed into a message, which is changed. */
    into(found) {
      for (const [path, , read] of controls) {
        const value = read();
        if (value === undefined) continue;
        const inner = path.slice(0, -1).reduce((parent, name) => (parent[name] ??= {}), found);
        inner[path.at(-1)] = value;
      }
      return found;
    },
  };
}

function* fieldsOf(schemas, name, before, shown) {
  for (const [key, described] of Object.entries(schemas[name]?.properties ?? {})) {
    const path = [...before, key];
    if (described.readOnly || shown.includes(path.join("."))) continue;
    const schema = described.anyOf?.find((one) => one.type !== "null") ?? described;
    const reference = (schema.$ref ?? schema.allOf?.[0]?.$ref)?.replace("#/components/schemas/", "");
    const words = schemas[reference]?.enum ?? schema.enum;
    if (reference && !words) yield* fieldsOf(schemas, reference, path, shown);
    else if (controlOf(schema, words)) yield [path, ...labelled(path, described.description, ...controlOf(schema, words))];
  }
}

function labelled(path, description, control, read) {
  const words = path.at(-1).replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return [field(words[0].toUpperCase() + words.slice(1), control, description?.replaceAll("`", "")), () => read(control)];
}

/** A control for a value and what reads it; null where there is none for values of this type. */
function controlOf(schema, words) {
  const kinds = [schema.type].flat();
  if (words) return [choiceOf(Object.fromEntries([["", "As it is by default"], ...words.filter((word) => typeof word === "string" && word && !word.endsWith("_UNSPECIFIED")).map((word) => [word, word])])), textIn];
  if (kinds.includes("boolean")) return [choiceOf({ "": "As it is by default", true: "Yes", false: "No" }), (control) => (control.value === "" ? undefined : control.value === "true")];
  if (kinds.includes("integer")) return [numberInput({ step: 1, max: schema.maximum }), textIn];
  if (kinds.includes("number")) return [numberInput({ max: schema.maximum }), numberIn];
  return kinds.includes("string") ? [textInput({ maxlength: schema.maxLength }), textIn] : null;
}
