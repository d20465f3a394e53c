// Where the data come from: compressed JSON in elements of this page. Another page can bring a source of the same three
// functions; everything else here takes what they give and does not ask where it was.

const BLOCKS_KEPT = 24;

export function embeddedSource() {
  const kept = new Map();

  const read = async (id) => JSON.parse(await unpacked(id));

  async function unpacked(id) {
    const element = document.getElementById(id);
    if (element === null) throw new Error(`this file is incomplete: the block ${id} is missing`);
    const packed = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  function blockOf(number) {
    const found = kept.get(number) ?? read(`chunk-${number}`);
    kept.delete(number);
    kept.set(number, found); // the newest is last
    if (kept.size > BLOCKS_KEPT) kept.delete(kept.keys().next().value);
    return found;
  }

  return {
    index: () => read("index"),
    detail: async (place) => (place ? (await blockOf(place[0]))[place[1]] : null),
    blockText: (number) => unpacked(`chunk-${number}`), // the JSON of a block, which is not kept
  };
}
