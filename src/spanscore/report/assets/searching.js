// Looks for words in the details of rows, steps and all, block by block, so that the page answers meanwhile.

import { ID_LENGTH } from "./list.js";

const ID = /^(?:[0-9a-f]{16}|[0-9a-f]{32})$/;
const NO_TEXT = new Set(["by", "completeness", "kind", "label", "metric", "status", "type"]); // words of the report's own
const EXCERPT_BEFORE = 8;
const EXCERPT_LENGTH = 90;

// Calls `found(place, excerpt)` for each of `rows` ([place, row]) whose details have all `parts` that the row has not;
// `isIn(row, place, part)` says what the row has. Ends early when `isWanted()` is false.
export async function searchDetails(source, rows, parts, isIn, isWanted, found) {
  const blocks = grouped(rows);
  const plain = parts.every((part) => !/["\\]/.test(part)); // as it is in JSON too
  for (const [number, own] of blocks) {
    const text = await source.blockText(number).catch(() => "[]");
    if (!isWanted()) return;
    const lower = text.toLowerCase();
    if (plain && !parts.some((part) => lower.includes(part))) continue;
    const details = JSON.parse(text);
    for (const [place, row] of own) {
      const missing = parts.filter((part) => !isIn(row, place, part));
      const excerpt = excerptWith(allTextOf(details[row.at[1]], parts), missing);
      if (excerpt !== null) found(place, excerpt);
    }
  }
}

function grouped(rows) {
  const blocks = new Map();
  for (const item of rows) {
    const number = item[1].at[0];
    if (!blocks.has(number)) blocks.set(number, []);
    blocks.get(number).push(item);
  }
  return blocks;
}

// Every text of a trace or score in an object, a line each; ids only where one begins with what is looked for.
function allTextOf(detail, parts) {
  const texts = [];
  const left = [detail];
  while (left.length) {
    const item = left.pop();
    if (typeof item === "string") { if (!ID.test(item) || parts.some((part) => part.length >= ID_LENGTH && item.startsWith(part))) texts.push(item); }
    else if (Array.isArray(item)) left.push(...[...item].reverse());
    else if (item !== null && typeof item === "object") left.push(...Object.entries(item).filter(([key]) => !NO_TEXT.has(key)).map(([, inner]) => inner).reverse());
  }
  return texts.join("\n");
}

// What is before the first of the words, the word, and what follows; null where one of them is not in the text.
function excerptWith(text, words) {
  const lower = text.toLowerCase();
  if (!words.every((word) => lower.includes(word))) return null;
  const at = lower.indexOf(words[0]);
  const start = Math.max(0, at - EXCERPT_BEFORE);
  const end = at + words[0].length;
  return [`${start > 0 ? "…" : ""}${text.slice(start, at)}`, text.slice(at, end), text.slice(end, start + EXCERPT_LENGTH)];
}
