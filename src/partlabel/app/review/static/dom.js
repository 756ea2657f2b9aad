// Elements are made here and nowhere else, so that text from the server can only ever become text.

/** What acts on a text instead of being read; see partlabel.core.text. */
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Attributes that people read or hear. */
const SAID = new Set(["title", "alt", "aria-label"]);

const SVG = "http://www.w3.org/2000/svg";

/** Line drawings on a 24 x 24 field; the stroke is the text colour. */
const DRAWINGS = {
  yes: "M4 13l5 5L20 6",
  no: "M5 5l14 14M19 5L5 19",
  skip: "M5 12h14",
  undo: "M9 5L4 10l5 5M4 10h10a6 6 0 0 1 0 12h-3",
  search: "M11 4a7 7 0 1 1 0 14a7 7 0 0 1 0-14zM16 16l5 5",
  filter: "M3 6h18M6 12h12M10 18h4",
  single: "M3 5h18v14H3z",
  grid: "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z",
  sun: "M12 8a4 4 0 1 1 0 8a4 4 0 0 1 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
  help: "M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 18v.5",
  export: "M12 15V3M8 7l4-4l4 4M4 15v5h16v-5",
  close: "M6 6l12 12M18 6L6 18",
  previous: "M15 5l-7 7l7 7",
  next: "M9 5l7 7l-7 7",
  away: "M3 3l18 18M7 18a4 4 0 0 1-1-8M10 6a6 6 0 0 1 8 5a3.500 3.500 0 0 1 2 6",
  clash: "M4 7h12l-3-3M20 17H8l3 3",
  zoom: "M11 4a7 7 0 1 1 0 14a7 7 0 0 1 0-14zM16 16l5 5M11 8v6M8 11h6",
};

/**
 * An element with its attributes, listeners and children; a string child becomes a text node.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `on`: listeners by event; `true` sets an empty attribute; null and false none
 * @param {...(Node | string | number | null | undefined | false)} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, SAID.has(name) ? visible(String(value)) : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false).map(asChild));
  return element;
}

/** @param {Node | string | number} child */
function asChild(child) {
  return child instanceof Node ? child : visible(String(child));
}

/**
 * A text with control characters and marks of direction written out, as commands print them.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(HIDDEN, (found) => {
    const code = found.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/**
 * A drawing beside a text that says the same, so hidden from screen readers.
 * @param {keyof DRAWINGS} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("class", "icon");
  drawing.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", DRAWINGS[name]);
  drawing.append(path);
  return drawing;
}

/** Text in an element, written only when it differs, so that live regions speak once. */
export function say(element, text) {
  const said = visible(text);
  if (element.textContent !== said) element.textContent = said;
}

/** The element of the page with this id. @param {string} id @returns {any} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`The page has no #${id}.`);
  return element;
}

/** A button with a drawing, a text and the key that does the same. */
export function button(text, { drawing = null, key = null, label = null, ...attributes } = {}) {
  return el(
    "button",
    { type: "button", "aria-label": label, "aria-keyshortcuts": key, ...attributes },
    drawing && icon(drawing),
    text && el("span", { class: "button-text" }, text),
    key && el("kbd", { "aria-hidden": "true" }, key),
  );
}
