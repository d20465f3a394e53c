// Brings what is shown up to date in place: what has not changed stays the same element, with its focus and its scroll.

import { h } from "../report/elements.js";

const HANDLERS = ["onclick", "oninput", "onchange", "onkeydown", "onsubmit", "onscroll"];

/**
 * Makes the children of `element` what `children` are. Elements are the same where their tag and their `data-key` are;
 * what an element with `data-own` contains is its own, and is left alone.
 * @param {Element} element
 * @param {...any} children - as `h` takes them
 */
export function patch(element, ...children) {
  patchChildren(element, h(element.tagName === "TBODY" ? "tbody" : "div", null, children));
}

function patchChildren(element, wanted) {
  const keyed = new Map([...element.children].filter((child) => child.dataset.key).map((child) => [child.dataset.key, child]));
  let place = element.firstChild;
  for (const next of [...wanted.childNodes]) {
    const same = sameIn(next, place, keyed);
    if (same === null) {
      element.insertBefore(next, place);
      continue;
    }
    if (same !== place) element.insertBefore(same, place);
    else place = place.nextSibling;
    patchNode(same, next);
  }
  while (place !== null) {
    const following = place.nextSibling;
    place.remove();
    place = following;
  }
}

function sameIn(next, place, keyed) {
  const key = next.dataset?.key;
  if (key) return keyed.get(key) ?? null;
  return place !== null && place.nodeName === next.nodeName && !place.dataset?.key ? place : null;
}

function patchNode(node, next) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== next.nodeValue) node.nodeValue = next.nodeValue;
    return;
  }
  if (node.dataset.own !== undefined) return;
  for (const name of HANDLERS) if (node[name] !== next[name]) node[name] = next[name];
  for (const { name } of [...node.attributes]) if (!next.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  for (const { name, value } of [...next.attributes]) if (name !== "open" && node.getAttribute(name) !== value) setAttribute(node, name, value);
  patchChildren(node, next);
}

function setAttribute(node, name, value) {
  if (name === "style") node.style.cssText = value; // the page's policy permits no style as an attribute
  else node.setAttribute(name, value);
}
