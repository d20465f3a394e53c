// The keys of the page.

/** Each with what it does. */
export const KEYS = [
  ["j", "next in the list"], ["k", "the one before"], ["/", "search"], ["n", "next score: show what it rests on"], ["p", "the score before"], ["e", "open or close all steps"],
  ["1 2 3 …", "the views from left to right"], ["1 2 y n", "in Annotate: pass, fail"], ["s u c", "in Annotate: skip, undo, comment"], ["a", "in Runs and Monitors: a new one"], ["r", "look for what is new"], ["t", "light or dark"], ["Esc", "back: evidence, what is open, conditions"], ["?", "these keys"],
];

/** What `listenToKeys` takes. */
export function keysOf(app) {
  const move = (by) => () => (app.current.list ? app.current.list.move(by) : false);
  const inList = (by) => (event) => (event.target.closest?.(".scroller") ? app.current.list.move(by()) : false); // elsewhere these scroll the page
  const page = () => app.current.list.pageSize();
  const actions = {
    j: move(1), k: move(-1), ArrowDown: inList(() => 1), ArrowUp: inList(() => -1), PageDown: inList(page), PageUp: inList(() => -page()), Home: inList(() => -Infinity), End: inList(() => Infinity),
    "/": () => app.current.search?.(), n: () => app.current.nextScore?.(1), p: () => app.current.nextScore?.(-1), e: () => app.current.toggleAll?.(), a: () => app.current.create?.() ?? false, r: () => app.refresh(),
    t: () => app.toggleTheme(), "?": () => app.help.showModal(), Escape: () => app.current.back?.(),
  };
  app.views.forEach((view, place) => { actions[place + 1] = () => app.go(view, {}); });
  const own = (key) => (Object.hasOwn(app.current?.keys ?? {}, key) ? app.current.keys[key] : null); // those of the view come first
  const first = new Set([...Object.keys(actions), "y", "s", "u", "c"]);
  for (const key of first) {
    const usual = actions[key];
    actions[key] = (event) => (own(key) ?? usual ?? (() => false))(event);
  }
  return [actions, (event) => typed(event, app)];
}

function typed(event, app) {
  if (event.key !== "Enter" || event.target.type !== "search") return false;
  event.target.blur();
  app.current.list?.scroller.focus();
  return true;
}
