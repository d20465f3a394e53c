// A list that the server gives page by page, however long it is: only the rows in sight are elements.

import { button, h } from "../report/elements.js";
import { NUMBER, count } from "../report/words.js";
import { patch } from "./patching.js";

const ROW_HEIGHT = 78;
const ROWS_AROUND = 6;
const LOAD_AHEAD = 30; // rows before the end at which the next page is asked for
const OPEN_AFTER_MS = 60; // a key that is held down opens only the row at which it ends

/**
 * @template Row
 * @param {object} options
 * @param {string} options.label - what the list is of, for screen readers
 * @param {string} options.noun - one of its rows, such as "turn"
 * @param {(from: any, signal: AbortSignal) => Promise<{rows: Row[], next: any, total?: number}>} options.load - the page at `next` of the page before,
 * null: the first one; each row has an `id`. After the last page `next` is null. `total`: how many there are on all pages
 * @param {() => string} options.order - how they are ordered, in words after a comma
 * @param {(row: Row) => any[]} options.item - what a row shows
 * @param {(row: Row, options: {keepFocus?: boolean}) => void} options.onopen
 * @param {any} [options.tools] - what stands beside the number of rows
 * @param {() => any} options.empty - what is shown where there is none
 * @param {(error: Error) => void} options.onerror
 */
export function makeRowList(options) {
  let rows = [];
  let next = null; // where the next page begins
  let total; // of the first page
  let state = "new"; // "loading", "ready", "ended", "failed"
  let problem = null;
  let selected = null; // a row's id
  let waiting = []; // rows that came while the reader was further down
  let asking = new AbortController();
  let opening = 0;

  const spacer = h("div", { class: "rows" });
  const scroller = h("div", { class: "scroller", role: "listbox", tabindex: "0", "aria-label": options.label, onscroll: () => { draw(); fill(); } }, spacer);
  const found = h("p", { class: "found", role: "status" });
  const fresh = button("", () => showWaiting(), { class: "fresh", hidden: true });
  const element = h("div", { class: "row-list" }, h("div", { class: "list-head" }, found, options.tools ?? null), fresh, scroller);

  function reset() {
    asking.abort();
    asking = new AbortController();
    rows = [];
    waiting = [];
    next = null;
    total = undefined;
    state = "new";
    scroller.scrollTop = 0;
    draw();
    return fill();
  }

  // Loads pages until there is something below what is in sight.
  async function fill() {
    if (state === "loading" || state === "ended" || state === "failed") return;
    const last = Math.ceil((scroller.scrollTop + (scroller.clientHeight || 800)) / ROW_HEIGHT);
    if (state !== "new" && last + LOAD_AHEAD < rows.length) return;
    const { signal } = asking;
    state = "loading";
    say();
    try {
      const page = await options.load(next, signal);
      const known = new Set(rows.map((row) => row.id));
      rows = rows.concat(page.rows.filter((row) => !known.has(row.id)));
      next = page.next;
      total = page.total ?? total;
      state = next ? "ready" : "ended";
      problem = null;
    } catch (error) {
      if (signal.aborted) return;
      state = "failed";
      problem = error;
      options.onerror(error);
    }
    draw();
    if (state === "ready") await fill(); // a page may have few rows, or none, though others follow
  }

  // Takes in what is new at the head; what the reader looks at stays where it is.
  async function refresh() {
    if (state === "failed") { state = rows.length ? "ready" : "new"; return fill(); }
    if (state === "new" || (state === "loading" && !rows.length)) return undefined;
    const { signal } = asking;
    const page = await options.load(null, signal);
    if (signal.aborted) return undefined;
    total = page.total;
    if (!page.next) { next = null; state = "ended"; return take(page.rows); }
    const places = new Map(rows.map((row, place) => [row.id, place]));
    const last = Math.max(-1, ...page.rows.map((row) => places.get(row.id) ?? -1));
    if (last < 0 && page.rows.length) { // more is new than a page has
      waiting = page.rows;
      if (scroller.scrollTop < ROW_HEIGHT) return showWaiting();
      return draw();
    }
    const own = new Set(page.rows.map((row) => row.id));
    return take(page.rows.concat(rows.slice(last + 1).filter((row) => !own.has(row.id))));
  }

  function take(newer) {
    const top = Math.floor(scroller.scrollTop / ROW_HEIGHT);
    const anchor = rows[top]?.id;
    rows = newer;
    const now = rows.findIndex((row) => row.id === anchor);
    if (scroller.scrollTop > 0 && now >= 0) scroller.scrollTop += (now - top) * ROW_HEIGHT;
    draw();
  }

  function showWaiting() {
    waiting = [];
    return reset();
  }

  function draw() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - ROWS_AROUND);
    const last = Math.min(rows.length, Math.ceil((scroller.scrollTop + (scroller.clientHeight || 800)) / ROW_HEIGHT) + ROWS_AROUND);
    spacer.style.height = `${rows.length * ROW_HEIGHT}px`;
    const shown = rows.slice(first, last).map((row, at) => item(row, first + at));
    const isEmpty = rows.length === 0 && (state === "ended" || state === "failed");
    patch(spacer, shown, isEmpty ? h("div", { class: "nothing", role: "presentation" }, state === "failed" ? problem.message : options.empty()) : null);
    const current = shown.find((one) => one.dataset.key === selected);
    if (current) scroller.setAttribute("aria-activedescendant", current.id);
    else scroller.removeAttribute("aria-activedescendant");
    fresh.hidden = waiting.length === 0;
    fresh.textContent = "Many new ones have come: show them";
    say();
  }

  function item(row, place) {
    const isSelected = row.id === selected;
    return h("div", {
      id: `row-${place}`, "data-key": row.id, class: ["row", isSelected ? "selected" : ""], role: "option", "aria-selected": String(isSelected), "aria-posinset": place + 1,
      "aria-setsize": state === "ended" ? rows.length : -1, style: { top: `${place * ROW_HEIGHT}px` }, onclick: () => open(place),
    }, options.item(row));
  }

  function say() {
    const known = state === "ended" ? rows.length : total;
    const number = known === undefined ? `${NUMBER.format(rows.length)}+ ${options.noun}s` : count(known, options.noun);
    const text = state === "failed" ? "Not loaded." : rows.length || state === "ended" ? `${number}${known > 1 || known === undefined ? options.order() : ""}` : "Looking…";
    if (found.textContent !== text) found.textContent = text;
    found.ariaBusy = String(state === "loading" && rows.length === 0);
  }

  function open(place, how = {}) {
    if (place < 0 || place >= rows.length) return;
    selected = rows[place].id;
    reveal(place);
    draw();
    fill();
    clearTimeout(opening);
    const row = rows[place];
    if (how.keepFocus) opening = setTimeout(() => options.onopen(row, how), OPEN_AFTER_MS);
    else options.onopen(row, how);
  }

  function reveal(place) {
    const top = place * ROW_HEIGHT;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + ROW_HEIGHT > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + ROW_HEIGHT - scroller.clientHeight;
  }

  return {
    element, scroller, reset, refresh, draw, fill,
    /** Opens the row `by` rows further on; the ends are the first one and the last that is loaded. */
    move(by) {
      const place = rows.findIndex((row) => row.id === selected);
      const from = place < 0 && by < 0 ? rows.length : place;
      open(Math.min(Math.max(from + by, 0), rows.length - 1), { keepFocus: true });
    },
    /** Marks the row of what is open, null: nothing is. */
    follow(id) {
      if (selected === id) return;
      selected = id;
      const place = rows.findIndex((row) => row.id === id);
      if (place >= 0) reveal(place);
      draw();
    },
    rows: () => rows,
    pageSize: () => Math.max(1, Math.floor(scroller.clientHeight / ROW_HEIGHT) - 1),
  };
}
