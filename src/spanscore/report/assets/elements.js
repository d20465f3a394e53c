// Elements are made here and nowhere else: text only ever becomes text, never markup, an address or a style.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element[name] = value; // a handler, which a newer one takes the place of
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "class") element.setAttribute("class", Array.isArray(value) ? value.filter(Boolean).join(" ") : value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child);
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

export function button(label, onclick, props) {
  return h("button", { type: "button", onclick, ...props }, label);
}

// A table that may be wider than its place: it scrolls by keys too.
export function scrolling(table, props) {
  return h("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Table", ...props }, table);
}

// Many parts, of which the first ones are made at once and the others when they are asked for.
export function inPages(items, size, make, list) {
  let shown = 0;
  const more = button("", () => next(), { class: "more" });
  function next() {
    const upTo = Math.min(shown + size, items.length);
    add(list, items.slice(shown, upTo).map((item, place) => make(item, shown + place)));
    shown = upTo;
    more.hidden = shown >= items.length;
    more.textContent = `Show ${Math.min(size, items.length - shown)} more of ${items.length}`;
  }
  next();
  return [list, more];
}

// A part that opens on a click; what is inside is made when it is opened for the first time.
export function opening(summary, make, props) {
  const element = h("details", props, h("summary", null, summary));
  const fill = () => {
    if (element.open && element.childElementCount === 1) add(element, [make()]);
  };
  element.addEventListener("toggle", fill);
  if (element.open) fill();
  return element;
}
