// What holds the parts together: the address after #, the list, the page, the theme.

const THEME_KEY = "spanscore-report-theme";

async function start(source, root) {
  const index = await source.index();
  const app = { index, source, page: null, help: helpDialog() };
  const rowsById = new Map(index.turns.map((row, place) => [row.id, place]));
  const baselineById = new Map((index.baseline?.turns ?? []).map((row, place) => [row.id, place]));
  const current = { kind: "", place: -1 };
  const main = h("main", { class: "main", tabindex: "-1" });
  let opened = 0;

  app.turnNamed = (id) => index.turns[rowsById.get(id)] ?? null;
  app.placeOf = (kind) => (current.kind === kind ? current.place : -1);
  app.open = (place) => {
    const address = addressOf(place);
    if (location.hash === address || (address === "#" && location.hash === "")) route(); // on a narrow screen the list is before it
    else location.hash = address;
  };
  app.openRow = (kind, place, options) => {
    const row = index[kind][place];
    const address = addressOf(kind === "turns" ? { turn: row.id } : kind === "sessions" ? { session: place } : { test: place });
    if (options.keepFocus) { history.replaceState(null, "", address); route(); } else location.hash = address;
  };
  app.show = (kind, filters) => { app.list.show(kind, filters); app.showList(); };
  app.showList = () => document.body.classList.remove("reading");
  app.toggleTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark", true);
  app.back = () => {
    if (app.page?.clear?.()) return;
    if (document.body.classList.contains("reading") && matchMedia("(max-width: 900px)").matches) app.showList();
    else app.list.clear();
  };

  app.list = makeList(app);
  replace(root,
    h("header", { class: "top" },
      button("‹ List", () => app.showList(), { class: "to-list" }),
      button([h("span", { class: "logo", "aria-hidden": "true" }, h("i"), h("i"), h("i")), h("b", null, "spanscore")], () => app.open({}), { class: "brand", title: "Overview" }),
      h("span", { class: "run-name" }, index.name, index.baseline ? h("span", { class: "muted" }, ` against ${index.baseline.name}`) : null),
      button("Overview", () => app.open({}), { class: "top-button" }),
      button("Keys", () => app.help.showModal(), { class: "top-button keys", title: "Keys (?)" }),
      button("◐", () => app.toggleTheme(), { class: "top-button", title: "Light or dark (t)", "aria-label": "Light or dark" })),
    h("div", { class: "panes" }, app.list.element, main), app.help);

  async function route() {
    const number = (opened += 1);
    const place = placeIn(location.hash);
    const found = await pageAt(place).catch((error) => ({ element: broken(error) }));
    if (number !== opened) return; // another page was opened meanwhile
    app.page = found;
    replace(main, found.element);
    main.scrollTop = 0;
    document.body.classList.add("reading");
    app.list.follow(current.kind, current.place);
    if (place.step !== undefined) found.showStep?.(place.step);
  }

  async function pageAt(place) {
    if (place.turn !== undefined && rowsById.has(place.turn)) {
      const at = rowsById.get(place.turn);
      const row = index.turns[at];
      const detail = await source.detail(row.at);
      Object.assign(current, { kind: "turns", place: at });
      const before = row.was === undefined ? null : index.baseline.turns[row.was];
      const was = before ? { row: before, detail: await source.detail(before.at) } : null;
      return turnPage(detail ?? leftOut(row), row, app, { was });
    }
    if (place.baseline !== undefined && baselineById.has(place.baseline)) {
      const row = index.baseline.turns[baselineById.get(place.baseline)];
      return turnPage((await source.detail(row.at)) ?? leftOut(row), row, app, { isBaseline: true });
    }
    if (place.session !== undefined && index.sessions[place.session]) {
      const row = index.sessions[place.session];
      Object.assign(current, { kind: "sessions", place: place.session });
      return sessionPage(await source.detail(row.at), row, app);
    }
    if (place.test !== undefined && index.cases[place.test]) {
      const row = index.cases[place.test];
      Object.assign(current, { kind: "cases", place: place.test });
      return casePage(await source.detail(row.at), row, app);
    }
    Object.assign(current, { kind: "", place: -1 });
    return overviewPage(app);
  }

  setTheme(kept(THEME_KEY) ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"), false);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => { if (kept(THEME_KEY) === null) setTheme(event.matches ? "dark" : "light", false); });
  addEventListener("hashchange", route);
  addEventListener("resize", () => app.list.draw());
  listenToKeys(app);
  app.list.show(index.cases.length ? "cases" : "turns");
  if (!index.cases.length && !index.turns.length) app.list.show("sessions");
  await route();
}

function addressOf(place) {
  const parts = Object.entries(place).filter(([name, item]) => item !== undefined && ["turn", "step", "session", "test", "baseline"].includes(name));
  return `#${parts.map(([name, item]) => `${name}=${encodeURIComponent(item)}`).join("&")}`;
}

function placeIn(hash) {
  const place = {};
  for (const [name, text] of new URLSearchParams(hash.slice(1))) {
    if (["turn", "baseline"].includes(name)) place[name] = text;
    else if (["step", "session", "test"].includes(name) && /^\d{1,9}$/.test(text)) place[name] = Number(text);
  }
  return place;
}

function leftOut(row) {
  return { id: row.id, input: row.input, output: row.output, unknown: true, scores: [] };
}

function broken(error) {
  return h("p", { class: "boot" }, `This part of the report cannot be shown: ${error.message}`);
}

function setTheme(theme, isChosen) {
  document.documentElement.dataset.theme = theme;
  if (!isChosen) return;
  try { localStorage.setItem(THEME_KEY, theme); } catch { /* a browser may keep nothing for files */ }
}

function kept(key) {
  try { return localStorage.getItem(key); } catch { return null; }
}

const root = document.getElementById("app");
if (typeof DecompressionStream === "undefined") {
  replace(root, h("p", { class: "boot" }, "This browser cannot unpack the report. It takes Chrome or Edge 80, Firefox 113, Safari 16.4, or newer."));
} else {
  start(embeddedSource(), root).catch((error) => replace(root, broken(error)));
}
