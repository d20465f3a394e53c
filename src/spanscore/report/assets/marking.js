// Text of a trace: as it is, with what a score quotes marked, JSON in colours.

import { button, h } from "./elements.js";

const JSON_TOKEN = /"(?:[^"\\]|\\.)*"(?=\s*:)|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\b(?:true|false|null)\b/g;
const COLOURED_LENGTH = 50_000;
const FOLDED_LENGTH = 1_200;
const FOLDED_LINES = 14;

// `text` with each occurrence of one of `quotes` in a mark.
function marked(text, quotes) {
  if (!quotes || quotes.length === 0) return [text];
  const pattern = new RegExp(quotes.map((quote) => quote.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "g");
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(pattern)) {
    parts.push(text.slice(end, found.index), h("mark", null, found[0]));
    end = found.index + found[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

function coloured(text, quotes) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(JSON_TOKEN)) {
    const first = found[0][0];
    const isKey = first === '"' && /^\s*:/.test(text.slice(found.index + found[0].length, found.index + found[0].length + 8));
    const kind = isKey ? "key" : first === '"' ? "text" : "literal";
    parts.push(...marked(text.slice(end, found.index), quotes), h("span", { class: `json-${kind}` }, marked(found[0], quotes)));
    end = found.index + found[0].length;
  }
  parts.push(...marked(text.slice(end), quotes));
  return parts;
}

// A block of text, folded where it is long, unless what is quoted lies below the fold.
export function textBlock(text, options = {}) {
  const isJson = /^\s*[[{]/.test(text) && text.length < COLOURED_LENGTH;
  const content = h("div", { class: ["text", isJson || options.mono ? "mono" : "prose", options.class], dir: "auto" },
    isJson ? coloured(text, options.quotes) : marked(text, options.quotes));
  const isLong = text.length > FOLDED_LENGTH || text.split("\n", FOLDED_LINES + 1).length > FOLDED_LINES;
  if (!isLong || options.whole) return content;
  const isMarked = content.querySelector("mark") !== null;
  content.classList.toggle("folded", !isMarked);
  const more = button(isMarked ? "Show less" : "Show all", () => {
    const folded = content.classList.toggle("folded");
    more.textContent = folded ? "Show all" : "Show less";
  }, { class: "more" });
  return h("div", { class: "foldable" }, content, more);
}
