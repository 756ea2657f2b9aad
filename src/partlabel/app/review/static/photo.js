// The large picture: loading without a flash, looking closer, swiping, and the pictures that come next.

import { button, el, say } from "./dom.js";
import { ask } from "./server.js";
import { imageAddress, pair } from "./wording.js";

const CLOSER = 2.5;
const PREFETCHED = 12;
const SWIPE = 80;

/** Pictures fetched before they are needed; the browser's cache does the rest. @type {Map<string, HTMLImageElement>} */
const prefetched = new Map();

/** @param {string} address */
export function prefetch(address) {
  if (prefetched.has(address)) return;
  const image = new Image();
  image.src = address;
  prefetched.set(address, image);
  if (prefetched.size > 8 * PREFETCHED) prefetched.delete(prefetched.keys().next().value);
}

/**
 * @param {{move: (by: number) => void, swipe: (answer: "yes" | "no") => void}} act
 */
export function photoStage(act) {
  const image = el("img", { class: "photo", alt: "", draggable: "false" });
  const behind = el("img", { class: "photo photo-behind", alt: "", "aria-hidden": "true" });
  const trouble = el("p", { class: "photo-trouble", hidden: true });
  const hint = el("p", { class: "swipe-hint", "aria-hidden": "true" });
  const frame = el("div", { class: "frame" }, behind, image, hint, trouble);
  const closer = button("", {
    class: "tool over closer",
    drawing: "zoom",
    label: "Look closer",
    title: "Look closer (Z)",
    "aria-pressed": "false",
    on: { click: () => zoom() },
  });
  const step = (by, name, key) =>
    button("", { class: `tool over step step-${name}`, drawing: name, label: `${name === "next" ? "Next" : "Previous"} (${key})`, on: { click: () => act.move(by) } });
  const element = el("div", { class: "stage" }, frame, step(-1, "previous", "left arrow"), step(1, "next", "right arrow"), closer);
  /** @type {{image: number, picture: string, content: string} | null} */
  let shown = null;

  const zoom = (on = !frame.hasAttribute("data-closer"), x = 50, y = 50) => {
    frame.toggleAttribute("data-closer", on);
    closer.setAttribute("aria-pressed", String(on));
    image.style.transformOrigin = `${x}% ${y}%`;
    image.style.setProperty("--closer", on ? String(CLOSER) : "1");
  };
  const place = (event) => {
    const box = frame.getBoundingClientRect();
    return [(100 * (event.clientX - box.left)) / box.width, (100 * (event.clientY - box.top)) / box.height];
  };
  frame.addEventListener("dblclick", (event) => zoom(undefined, ...place(event)));
  frame.addEventListener("pointermove", (event) => {
    if (frame.hasAttribute("data-closer")) image.style.transformOrigin = place(event).map((at) => `${at}%`).join(" ");
  });
  swipes(frame, image, hint, act.swipe);
  image.addEventListener("error", () => {
    if (!shown || !image.getAttribute("src")) return;
    trouble.hidden = false;
    say(trouble, "This image could not be loaded. You can skip it, or go on and come back.");
    const asked = image.getAttribute("src");
    ask(asked).catch((error) => error.status === 404 && asked === image.getAttribute("src") && say(trouble, error.message));
    frame.removeAttribute("data-loading");
  });
  image.addEventListener("load", () => {
    trouble.hidden = true;
    frame.removeAttribute("data-loading");
  });

  /** @param {{image: number, picture: string, content: string}} item */
  const show = (item) => {
    image.alt = `Image ${item.picture}`;
    if (shown && pair(item) === pair(shown)) return;
    shown = { image: item.image, picture: item.picture, content: item.content };
    trouble.hidden = true;
    zoom(false);
    // The thumbnail stands in until the photo is there: no blank frame in between.
    frame.setAttribute("data-loading", "");
    behind.src = imageAddress("thumbnail", item);
    image.src = imageAddress("photo", item);
  };
  const again = () => {
    if (shown && !trouble.hidden) {
      const item = shown;
      shown = null;
      image.removeAttribute("src");
      show(item);
    }
  };
  return { element, show, zoom: () => zoom(), again };
}

/** A finger drags the picture: right is yes, left is no. */
function swipes(frame, image, hint, swipe) {
  let start = null;
  const end = () => {
    start = null;
    image.style.removeProperty("--drag");
    hint.removeAttribute("data-answer");
  };
  frame.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch" || !event.isPrimary || frame.hasAttribute("data-closer")) return;
    start = { x: event.clientX, y: event.clientY };
  });
  frame.addEventListener("pointermove", (event) => {
    if (!start || !event.isPrimary) return;
    const by = event.clientX - start.x;
    image.style.setProperty("--drag", `${by}px`);
    if (Math.abs(by) > SWIPE) {
      hint.dataset.answer = by > 0 ? "yes" : "no";
      say(hint, by > 0 ? "Yes" : "No");
    } else hint.removeAttribute("data-answer");
  });
  frame.addEventListener("pointerup", (event) => {
    const by = start ? event.clientX - start.x : 0;
    const flat = start && Math.abs(event.clientY - start.y) < Math.abs(by);
    end();
    if (flat && Math.abs(by) > SWIPE) swipe(by > 0 ? "yes" : "no");
  });
  frame.addEventListener("pointercancel", end);
}
