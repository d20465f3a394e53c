// What is shown as a file: CSV for spreadsheets, JSON Lines for programs.

import { button, h } from "../report/elements.js";
import { count } from "../report/words.js";

const MAX_ROWS = 10_000;

/**
 * Buttons that save what is shown.
 * @param {string} name - of the file, without its end
 * @param {() => AsyncGenerator<Record<string, string | number | undefined>[]>} rows - in parts, whatever of them is shown by now
 * @param {{failed: (error: Error) => void}} app
 */
export function exportButtons(name, rows, app) {
  const said = h("span", { class: "muted small", role: "status" });
  const saving = (end, type, text) => async () => {
    said.textContent = "Reading…";
    try {
      const found = await read(rows());
      save(`spanscore-${name}.${end}`, type, text(found));
      said.textContent = found.length === MAX_ROWS ? `the first ${count(MAX_ROWS, "row")}` : "";
    } catch (error) {
      said.textContent = error.message;
      app.failed(error);
    }
  };
  return h("span", { class: "export" }, said,
    button("CSV", saving("csv", "text/csv", csvOf), { class: "link small", title: "Save what is listed for a spreadsheet" }),
    button("JSON Lines", saving("jsonl", "application/x-ndjson", linesOf), { class: "link small", title: "Save what is listed, one JSON object a line" }));
}

async function read(parts) {
  const found = [];
  for await (const part of parts) {
    found.push(...part);
    if (found.length >= MAX_ROWS) break;
  }
  return found.slice(0, MAX_ROWS);
}

function linesOf(rows) {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

function csvOf(rows) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row).filter((name) => row[name] !== undefined)))];
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((cells) => `${cells.map(cellOf).join(",")}\r\n`).join("");
}

// A spreadsheet takes text that begins so for a formula: it is untrusted, and a quote before it keeps it text.
function cellOf(value) {
  if (value === undefined || value === null) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
