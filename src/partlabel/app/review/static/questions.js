// The questions of the chosen queue: loaded page by page, with a place in them.

import { queueAddress } from "./choice.js";
import { ask } from "./server.js";
import { pair } from "./wording.js";

const PAGE = 120;
/** So many questions before the end of what is loaded, the next page is fetched. */
const AHEAD = 60;

/**
 * @typedef {{image: number, picture: string, class: number, class_name: string, score: number | null,
 *   value: string | null, origin: string | null, answer: "yes" | "no" | "skip" | null, conflict: boolean,
 *   mine?: boolean, pending?: boolean}} Item
 */

/** Fires "change". `items` are pictures, without a class, in the queue "pictures". */
export class Questions extends EventTarget {
  /** @type {Item[]} */
  items = [];
  total = 0;
  /** Place of the current question; `items.length` when all are done. */
  place = 0;
  /** @type {"loading" | "ready" | "failed"} */
  state = "loading";
  /** Why it failed. */
  trouble = "";
  /** What the list leaves out, in words; empty where it holds everything. */
  scope = "";
  /** All that the server has is here. */
  complete = false;
  #known = new Set();
  /** Questions past the expected start of the next page that turned out to be known. */
  #passed = 0;
  /** @type {AbortController | null} */
  #fetching = null;

  /** @param {import("./outbox.js").Outbox} outbox */
  constructor(outbox) {
    super();
    this.outbox = outbox;
  }

  get current() {
    return this.items[this.place] ?? null;
  }

  /** Start again with this choice. @param {import("./choice.js").Choice} choice */
  async load(choice) {
    this.choice = { ...choice };
    this.#fetching?.abort();
    this.#fetching = null;
    Object.assign(this, { items: [], total: 0, place: 0, complete: false, scope: "", state: "loading" });
    this.#known.clear();
    this.#passed = 0;
    this.#changed();
    await this.#more();
  }

  /** Ask again for what failed. */
  async retry() {
    if (this.state === "failed") this.state = this.items.length ? "ready" : "loading";
    this.#changed();
    await this.#more();
  }

  /** @param {number} place */
  goTo(place) {
    this.place = Math.max(0, Math.min(place, this.items.length));
    this.#changed();
    if (!this.complete && this.place + AHEAD >= this.items.length) this.#more();
  }

  /** The first place after the current one that nobody answered. */
  nextOpen() {
    let place = this.place + 1;
    while (place < this.items.length && this.items[place].answer) place += 1;
    this.goTo(place);
  }

  /** Put questions that came back (undo) where they were, or here, and go to the first. @param {Item[]} back */
  bring(back) {
    for (const item of back) {
      const held = this.items.find((other) => pair(other) === pair(item));
      if (held) Object.assign(held, item, { mine: false, pending: false });
      else {
        this.items.splice(this.place, 0, item);
        this.#known.add(pair(item));
      }
    }
    const first = this.items.findIndex((item) => back.some((other) => pair(other) === pair(item)));
    this.goTo(first < 0 ? this.place : first);
  }

  /** Something of an item changed. */
  touched() {
    this.#changed();
  }

  async #more() {
    if (this.#fetching) return;
    const fetching = new AbortController();
    this.#fetching = fetching;
    try {
      const reply = await ask(queueAddress(this.choice, this.#offset(), PAGE), undefined, fetching.signal);
      this.#take(reply);
    } catch (error) {
      if (fetching.signal.aborted) return;
      this.state = "failed";
      this.trouble = error.message;
    }
    this.#fetching = null;
    this.#changed();
    // A page of questions that were all known already: those behind it are still to come.
    if (this.state === "ready" && !this.complete && this.place + AHEAD >= this.items.length) await this.#more();
  }

  /** Where the next page starts: with "open only" the server leaves out what it knows to be answered. */
  #offset() {
    if (!this.choice.open || this.choice.queue === "pictures") return this.items.length;
    return this.items.filter((item) => !item.answer || item.pending).length + this.#passed;
  }

  #take(reply) {
    const offset = this.#offset();
    const waiting = this.outbox.latest();
    const fresh = reply.items.filter((item) => !this.#known.has(pair(item)));
    for (const item of fresh) {
      this.#known.add(pair(item));
      const mine = waiting.get(pair(item));
      if (mine) Object.assign(item, { answer: mine.answer, mine: true, pending: true });
    }
    const before = this.items.length;
    this.items.push(...fresh);
    this.total = Math.max(reply.total + before - (offset - this.#passed), this.items.length);
    this.scope = reply.scope ?? "";
    this.#passed = fresh.length ? 0 : this.#passed + reply.items.length;
    this.complete = offset + reply.items.length >= reply.total || reply.items.length === 0;
    this.state = "ready";
    if (this.place === 0 && this.current?.pending) this.nextOpen();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
