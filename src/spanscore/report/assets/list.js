// The list beside the page: all turns, sessions or tests, of which only those in sight are elements.

import { button, h, replace } from "./elements.js";
import { searchDetails } from "./searching.js";
import { NUMBER, STATES, TEST_STATES, count, duration, state, testState } from "./words.js";

const ROW_HEIGHT = 62;
const ROWS_AROUND = 6;
export const ID_LENGTH = 6; // so many digits of an id are no word that happens to be in it
const SEARCH_AFTER_MS = 150;
const REDRAWN_EVERY_MS = 200;
const KINDS = { turns: "Turns", sessions: "Sessions", cases: "Tests" };

export function makeList(app) {
  const { index } = app;
  const chosen = { kind: "turns", query: "", states: new Set(), metric: "", agent: "", change: "" };
  let rows = []; // places in index[kind]
  let selected = -1; // place in `rows`
  const words = new Map();
  let excerpts = new Map(); // what was found in the details of a row, by its place in index[kind]
  let searches = 0;

  const spacer = h("div", { class: "rows" });
  const scroller = h("div", { class: "scroller", role: "listbox", tabindex: "0", "aria-label": "Results", onscroll: () => draw() }, spacer);
  const search = h("input", { type: "search", placeholder: "Search inputs, outputs, steps, tools, ids", "aria-label": "Search", oninput: () => { chosen.query = search.value; apply(); } });
  const tabs = h("div", { class: "tabs", role: "tablist" });
  const states = h("div", { class: "states", role: "group", "aria-label": "Verdict" });
  const selects = h("div", { class: "selects" });
  const found = h("p", { class: "found", role: "status" });
  const element = h("nav", { class: "list", "aria-label": "Results" }, h("div", { class: "filters" }, tabs, search, states, selects), found, scroller);

  const all = () => index[chosen.kind];
  const stateOf = (row) => row.state ?? TEST_STATES[row.status]?.state ?? "none";

  function wordsOf(row, place) {
    const key = `${chosen.kind} ${place}`;
    if (!words.has(key)) {
      const texts = [row.input, row.output, row.agent, row.service, row.name, row.key, ...(row.tools ?? []), ...(row.fails ?? []).map((number) => index.metrics[number].metric)];
      words.set(key, texts.filter(Boolean).join("\n").toLowerCase());
    }
    return words.get(key);
  }

  function isChosen(row) {
    if (chosen.states.size && !chosen.states.has(stateOf(row))) return false;
    if (chosen.metric !== "" && ![...(row.fails ?? []), ...(row.errors ?? []), ...(row.others ?? [])].includes(Number(chosen.metric))) return false;
    if (chosen.agent && (row.agent ?? row.service) !== chosen.agent) return false;
    return !chosen.change || isChange(row);
  }

  const isIn = (row, place, part) => wordsOf(row, place).includes(part) || (part.length >= ID_LENGTH && Boolean(row.id?.startsWith(part) || row.trace?.startsWith(part)));

  function isChange(row) {
    if (row.was === undefined) return chosen.change === "new";
    const before = index.baseline.turns[row.was].state;
    const kind = before === row.state ? "same" : row.state === "fail" ? "worse" : before === "fail" ? "better" : "other";
    return chosen.change === "changed" ? kind !== "same" : chosen.change === kind;
  }

  function apply() {
    const parts = chosen.query.toLowerCase().split(/\s+/).filter(Boolean);
    const elsewhere = [];
    rows = [];
    excerpts = new Map();
    all().forEach((row, place) => {
      if (!isChosen(row)) return;
      if (parts.every((part) => isIn(row, place, part))) rows.push(place);
      else if (row.at) elsewhere.push([place, row]);
    });
    selected = rows.indexOf(app.placeOf(chosen.kind));
    scroller.scrollTop = 0;
    drawFilters();
    searches += 1;
    sayFound(elsewhere.length > 0);
    draw();
    if (elsewhere.length) setTimeout(searchFurther, SEARCH_AFTER_MS, searches, elsewhere, parts);
  }

  // What is in the steps of a turn is not in its row: these are looked into after a pause in typing.
  async function searchFurther(number, elsewhere, parts) {
    const isWanted = () => number === searches;
    if (!isWanted()) return;
    const places = [];
    let drawn = performance.now();
    const add = (isSearching) => {
      const current = rows[selected];
      rows = rows.concat(places.splice(0)).sort((a, b) => a - b);
      selected = current === undefined ? rows.indexOf(app.placeOf(chosen.kind)) : rows.indexOf(current);
      sayFound(isSearching);
      draw();
      drawn = performance.now();
    };
    await searchDetails(app.source, elsewhere, parts, isIn, isWanted, (place, excerpt) => {
      places.push(place);
      excerpts.set(place, excerpt);
      if (performance.now() - drawn > REDRAWN_EVERY_MS) add(true);
    });
    if (isWanted()) add(false);
  }

  function sayFound(isSearching) {
    const counted = rows.length === all().length ? `${count(rows.length, singular())}, what fails first` : `${NUMBER.format(rows.length)} of ${count(all().length, singular())}`;
    found.textContent = isSearching ? `${counted}, looking into the steps…` : counted;
    found.ariaBusy = String(isSearching);
  }

  const singular = () => ({ turns: "turn", sessions: "session", cases: "test" })[chosen.kind];

  function draw() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - ROWS_AROUND);
    const last = Math.min(rows.length, Math.ceil((scroller.scrollTop + (scroller.clientHeight || 800)) / ROW_HEIGHT) + ROWS_AROUND);
    spacer.style.height = `${rows.length * ROW_HEIGHT}px`;
    const shown = [];
    for (let place = first; place < last; place += 1) shown.push(item(place));
    replace(spacer, shown, rows.length || found.ariaBusy === "true" ? null : h("p", { class: "nothing" }, "Nothing matches. ", button("Clear the filters", clear, { class: "link" })));
    scroller.setAttribute("aria-activedescendant", selected >= 0 ? `row-${selected}` : "");
  }

  function item(place) {
    const row = all()[rows[place]];
    const isSelected = place === selected;
    return h("div", {
      id: `row-${place}`, class: ["row", isSelected ? "selected" : ""], role: "option", "aria-selected": String(isSelected), "aria-posinset": place + 1, "aria-setsize": rows.length,
      style: { top: `${place * ROW_HEIGHT}px` }, onclick: () => pick(place),
    }, chosen.kind === "turns" ? turnItem(row, rows[place]) : chosen.kind === "sessions" ? sessionItem(row, rows[place]) : caseItem(row, rows[place]));
  }

  function failNames(row, place) {
    if (excerpts.has(place)) {
      const [before, word, after] = excerpts.get(place);
      return h("span", { class: "names", dir: "auto" }, before, h("b", null, word), after);
    }
    const names = (numbers) => (numbers ?? []).map((number) => index.metrics[number].metric).join(", ");
    if (row.fails?.length) return h("span", { class: "fail-text names" }, names(row.fails));
    return row.errors?.length ? h("span", { class: "error-word names" }, `not measured: ${names(row.errors)}`) : h("span", { class: "names" }, row.scored ? count(row.scored, "score") : "no scores");
  }

  function sources(row) {
    const names = new Set((row.others ?? []).map((number) => index.metrics[number].source));
    return [...names].slice(0, 2).map((name) => h("span", { class: "tag" }, name));
  }

  function turnItem(row, place) {
    const before = row.was === undefined ? null : index.baseline.turns[row.was].state;
    return [state(row.state),
      h("span", { class: "row-title", dir: "auto" }, row.input ?? (row.agent ? `A turn of ${row.agent}` : "No input was recorded")),
      h("span", { class: "row-more" }, before && before !== row.state ? h("span", { class: ["was", before] }, `was ${STATES[before].sign}`) : null, failNames(row, place), sources(row),
        h("span", { class: "row-facts" }, [row.calls ? count(row.calls, "call") : "", duration(row.took)].filter(Boolean).join(" · ")))];
  }

  function sessionItem(row, place) {
    return [state(row.state), h("span", { class: "row-title" }, row.name), h("span", { class: "row-more" }, failNames(row, place),
      h("span", { class: "row-facts" }, `${count(row.turns.length, "turn")}${row.failing_turns ? `, ${row.failing_turns} failing` : ""}`))];
  }

  function caseItem(row, place) {
    return [testState(row.status), h("span", { class: "row-title" }, row.name), h("span", { class: "row-more" },
      excerpts.has(place) ? failNames(row, place) : h("span", { class: "names trial-signs" }, row.trials.slice(0, 24).map(testState)),
      h("span", { class: "row-facts" }, row.trials.length ? `${row.trials.filter((status) => status === "pass").length} of ${count(row.trials.length, "trial")}` : row.status))];
  }

  function pick(place, options = {}) {
    if (place < 0 || place >= rows.length) return;
    selected = place;
    const top = place * ROW_HEIGHT;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + ROW_HEIGHT > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + ROW_HEIGHT - scroller.clientHeight;
    draw();
    app.openRow(chosen.kind, rows[place], options);
  }

  function clear() {
    Object.assign(chosen, { query: "", metric: "", agent: "", change: "" });
    chosen.states.clear();
    search.value = "";
    apply();
  }

  function drawFilters() {
    replace(tabs, Object.entries(KINDS).filter(([kind]) => index[kind].length).map(([kind, title]) =>
      button([title, h("span", { class: "tab-count" }, NUMBER.format(index[kind].length))], () => show(kind), { role: "tab", "aria-selected": String(kind === chosen.kind), class: kind === chosen.kind ? "chosen" : "" })));
    const counts = {};
    for (const row of all()) counts[stateOf(row)] = (counts[stateOf(row)] ?? 0) + 1;
    replace(states, Object.entries(STATES).filter(([name]) => counts[name]).map(([name, { sign, word }]) =>
      button([h("span", { class: ["state", name] }, sign), NUMBER.format(counts[name])], () => { if (!chosen.states.delete(name)) chosen.states.add(name); apply(); },
        { "aria-pressed": String(chosen.states.has(name)), title: word, "aria-label": `${word}: ${counts[name]}` })));
    drawSelects();
  }

  function drawSelects() {
    const options = [];
    const metrics = index.metrics.map((row, number) => [String(number), row.source ? `${row.metric} (${row.source})` : row.metric, row]).filter(([, , row]) => row.failing || row.errors || row.source);
    if (chosen.kind !== "cases" && metrics.length) options.push(select("metric", "Failing in any metric", metrics));
    const agents = agentNames();
    if (chosen.kind === "turns" && agents.length > 1) options.push(select("agent", "Any agent", agents.map((name) => [name, name])));
    if (chosen.kind === "turns" && index.baseline) options.push(select("change", "Any change", [["changed", "changed"], ["worse", "fails now"], ["better", "failed before"], ["same", "the same"], ["new", "not in the baseline"]]));
    replace(selects, options);
  }

  let agents = null;
  function agentNames() {
    agents ??= [...new Set(index.turns.map((row) => row.agent ?? row.service).filter(Boolean))].sort().slice(0, 200);
    return agents;
  }

  function select(name, any, options) {
    return h("select", { "aria-label": any, class: chosen[name] === "" ? "" : "chosen", onchange: (event) => { chosen[name] = event.target.value; apply(); } },
      h("option", { value: "" }, any), options.map(([key, text]) => h("option", { value: key, selected: chosen[name] === key }, text)));
  }

  function show(kind, filters = {}) {
    if (!index[kind].length) return;
    chosen.kind = kind;
    Object.assign(chosen, { query: "", agent: "", metric: filters.metric === undefined ? "" : String(filters.metric), change: filters.change ?? "" });
    search.value = "";
    chosen.states = new Set(filters.states ?? []);
    apply();
  }

  return {
    element, search, show, apply, clear, pick,
    move: (by) => pick(Math.min(Math.max(selected < 0 ? (by > 0 ? 0 : rows.length - 1) : selected + by, 0), rows.length - 1), { keepFocus: true }),
    toggleState: (name) => { if (!chosen.states.delete(name)) chosen.states.add(name); apply(); },
    // The list follows a page that was opened by other ways.
    follow(kind, place) {
      if (kind && chosen.kind !== kind) { chosen.kind = kind; chosen.metric = ""; chosen.agent = ""; chosen.change = ""; chosen.states.clear(); apply(); }
      selected = rows.indexOf(place);
      if (selected >= 0) {
        const top = selected * ROW_HEIGHT;
        if (top < scroller.scrollTop || top + ROW_HEIGHT > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = Math.max(0, top - scroller.clientHeight / 3);
      }
      draw();
    },
    draw,
  };
}
