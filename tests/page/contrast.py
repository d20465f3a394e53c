"""How well text stands out from what is behind it, as WCAG 2 computes it."""

LOW_CONTRAST = """() => {
  const channel = (x) => (x / 255 <= 0.03928 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** \
2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => below.map((x, i) => top[i] * top[3] + x * (1 - top[3]));
  const backdrop = (element) => {
    const layers = [];
    for (let x = element; x; x = x.parentElement) \
layers.unshift(rgba(getComputedStyle(x).backgroundColor));
    return layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const isSeen = (element) => \
element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const found = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.nodeValue.trim() || !isSeen(element)) continue;
    const style = getComputedStyle(element);
    const back = backdrop(element);
    const front = over(rgba(style.color), back);
    const [high, low] = [light(front), light(back)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (isLarge ? 3 : 4.5)) found.add(`${element.className || element.tagName}: \
${ratio.toFixed(2)}`);
  }
  return [...found];
}"""
"""A function of a page that gives the parts whose text has less contrast than level AA asks for."""
