// The address after #: which view is shown, by which conditions, and what is open in it. It can be shared and bookmarked.

const FIRST = "failing";

/**
 * @typedef {object} Place
 * @property {string} view - "failing", "traces", …
 * @property {Record<string, string>} given - conditions, and what is open
 */

/**
 * @param {string} hash - such as `#/traces?service=shop&turn=0af7…`
 * @param {string[]} views - those that there are
 * @returns {Place}
 */
export function placeIn(hash, views) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const given = Object.fromEntries([...new URLSearchParams(query)].filter(([, text]) => text !== ""));
  return { view: views.includes(path) ? path : FIRST, given };
}

/**
 * @param {Place} place
 * @returns {string} its hash
 */
export function hashOf(place) {
  const query = new URLSearchParams(Object.entries(place.given).filter(([, text]) => text !== undefined && text !== null && text !== ""));
  query.sort();
  return `#/${place.view}${query.size ? `?${query}` : ""}`;
}
