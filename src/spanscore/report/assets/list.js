// The list beside the page: all turns, sessions or tests, of which only those in sight are elements.

const ROW_HEIGHT = 62;
const ROWS_AROUND = 6;
const ID_LENGTH = 6; // so many digits of an id are no word that happens to be in it
const KINDS = { turns: "Turns", sessions: "Sessions", cases: "Tests" };

function makeList(app) {
  const { index } = app;
  const chosen = { kind: "turns", query: "", states: new Set(), metric: "", agent: "", change: "" };
  let rows = []; // places in index[kind]
  let selected = -1; // place in `rows`
  const words = new Map();

  const spacer = h("div", { class: "rows" });
  const scroller = h("div", { class: "scroller", role: "listbox", tabindex: "0", "aria-label": "Results", onscroll: () => draw() }, spacer);
  const search = h("input", { type: "search", placeholder: "Search inputs, outputs, tools, ids", "aria-label": "Search", oninput: () => { chosen.query = search.value; apply(); } });
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

  function isChosen(row, place, parts) {
    if (chosen.states.size && !chosen.states.has(stateOf(row))) return false;
    if (chosen.metric !== "" && ![...(row.fails ?? []), ...(row.errors ?? []), ...(row.others ?? [])].includes(Number(chosen.metric))) return false;
    if (chosen.agent && (row.agent ?? row.service) !== chosen.agent) return false;
    if (chosen.change && !isChange(row)) return false;
    if (parts.length === 0) return true;
    const text = wordsOf(row, place);
    return parts.every((part) => text.includes(part) || (part.length >= ID_LENGTH && (row.id?.startsWith(part) || row.trace?.startsWith(part))));
  }

  function isChange(row) {
    if (row.was === undefined) return chosen.change === "new";
    const before = index.baseline.turns[row.was].state;
    const kind = before === row.state ? "same" : row.state === "fail" ? "worse" : before === "fail" ? "better" : "other";
    return chosen.change === "changed" ? kind !== "same" : chosen.change === kind;
  }

  function apply() {
    const parts = chosen.query.toLowerCase().split(/\s+/).filter(Boolean);
    rows = [];
    all().forEach((row, place) => { if (isChosen(row, place, parts)) rows.push(place); });
    selected = rows.indexOf(app.placeOf(chosen.kind));
    found.textContent = rows.length === all().length ? `${count(rows.length, singular())}, what fails first` : `${NUMBER.format(rows.length)} of ${count(all().length, singular())}`;
    scroller.scrollTop = 0;
    drawFilters();
    draw(true);
  }

  const singular = () => ({ turns: "turn", sessions: "session", cases: "test" })[chosen.kind];

  function draw() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - ROWS_AROUND);
    const last = Math.min(rows.length, Math.ceil((scroller.scrollTop + (scroller.clientHeight || 800)) / ROW_HEIGHT) + ROWS_AROUND);
    spacer.style.height = `${rows.length * ROW_HEIGHT}px`;
    const shown = [];
    for (let place = first; place < last; place += 1) shown.push(item(place));
    replace(spacer, shown, rows.length ? null : h("p", { class: "nothing" }, "Nothing matches. ", button("Clear the filters", clear, { class: "link" })));
    scroller.setAttribute("aria-activedescendant", selected >= 0 ? `row-${selected}` : "");
  }

  function item(place) {
    const row = all()[rows[place]];
    const isSelected = place === selected;
    return h("div", {
      id: `row-${place}`, class: ["row", isSelected ? "selected" : ""], role: "option", "aria-selected": String(isSelected), "aria-posinset": place + 1, "aria-setsize": rows.length,
      style: { top: `${place * ROW_HEIGHT}px` }, onclick: () => pick(place),
    }, chosen.kind === "turns" ? turnItem(row) : chosen.kind === "sessions" ? sessionItem(row) : caseItem(row));
  }

  function failNames(row) {
    const names = (numbers) => (numbers ?? []).map((number) => index.metrics[number].metric).join(", ");
    if (row.fails?.length) return h("span", { class: "fail-text names" }, names(row.fails));
    return row.errors?.length ? h("span", { class: "error-word names" }, `not measured: ${names(row.errors)}`) : h("span", { class: "names" }, row.scored ? count(row.scored, "score") : "no scores");
  }

  function sources(row) {
    const names = new Set((row.others ?? []).map((number) => index.metrics[number].source));
    return [...names].slice(0, 2).map((name) => h("span", { class: "tag" }, name));
  }

  function turnItem(row) {
    const before = row.was === undefined ? null : index.baseline.turns[row.was].state;
    return [state(row.state),
      h("span", { class: "row-title", dir: "auto" }, row.input ?? (row.agent ? `A turn of ${row.agent}` : "No input was recorded")),
      h("span", { class: "row-more" }, before && before !== row.state ? h("span", { class: ["was", before] }, `was ${STATES[before].sign}`) : null, failNames(row), sources(row),
        h("span", { class: "row-facts" }, [row.calls ? count(row.calls, "call") : "", duration(row.took)].filter(Boolean).join(" · ")))];
  }

  function sessionItem(row) {
    return [state(row.state), h("span", { class: "row-title" }, row.name), h("span", { class: "row-more" }, failNames(row),
      h("span", { class: "row-facts" }, `${count(row.turns.length, "turn")}${row.failing_turns ? `, ${row.failing_turns} failing` : ""}`))];
  }

  function caseItem(row) {
    return [testState(row.status), h("span", { class: "row-title" }, row.name), h("span", { class: "row-more" },
      h("span", { class: "names trial-signs" }, row.trials.slice(0, 24).map(testState)),
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
