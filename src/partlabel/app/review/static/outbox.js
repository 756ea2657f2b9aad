// Answers on their way: kept in the browser's storage until the server has written them down.

import { ask, Away, connection } from "./server.js";
import { pair } from "./wording.js";

/**
 * @typedef {{picture: string, class_name: string, content: string, answer: "yes" | "no" | "skip", queue: string}} Answer
 * @typedef {{id: string, answers: Answer[], resolve: boolean, about: string, refusal: string | null, tried?: boolean}} Batch
 */

const PREFIX = "partlabel.pending.";

/** A random name. @returns {string} */
export function randomName() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The name of this browser, the same in all its tabs. */
export function browserName() {
  try {
    const name = localStorage.getItem("partlabel.browser") ?? randomName();
    localStorage.setItem("partlabel.browser", name);
    return name;
  } catch {
    return randomName();
  }
}

/**
 * Sends batches of answers one after the other, in the order they were given.
 *
 * Fires "change" (something waits, or no longer), "saved" (detail: batch and reply) and "refused" (detail: batch).
 * Each batch has an entry of its own in localStorage, so that two tabs do not overwrite each other's.
 */
export class Outbox extends EventTarget {
  /** @type {Batch[]} */
  batches = [];
  /** False when the storage is full or closed: then only this page knows the answers. */
  kept = true;
  #sending = false;

  /**
   * @param {string} store names the store of answers of a run, so that they never reach another
   * @param {string} run its name for people @param {string} browser
   */
  constructor(store, run, browser) {
    super();
    this.store = store;
    this.run = run;
    this.prefix = `${PREFIX}${store}.`;
    this.browser = browser;
    this.#adopt();
    connection.addEventListener("back", () => this.flush());
  }

  /** How many answers the server has not confirmed. */
  get waiting() {
    return this.batches.reduce((sum, batch) => sum + batch.answers.length, 0);
  }

  /** The batches that the server would not take. */
  get refused() {
    return this.batches.filter((batch) => batch.refusal);
  }

  /** The latest waiting answer to each pair. @returns {Map<string, Answer>} */
  latest() {
    return new Map(this.batches.flatMap(({ answers }) => answers.map((answer) => [pair(answer), answer])));
  }

  /** @param {Answer[]} answers @param {string} about what the live region says once they are saved */
  add(answers, about, resolve = false) {
    /** @type {Batch} */
    const batch = { id: `${String(Date.now()).padStart(15, "0")}-${randomName()}`, answers, resolve, about, refusal: null };
    this.batches.push(batch);
    this.#keep(batch);
    this.#changed();
    // While the server is known to be away nothing is sent, so that the answer can still be taken back here.
    if (!connection.away) this.flush();
    return batch;
  }

  /** Send all that waits. Stops at the first that does not come through; the connection calls again. */
  async flush() {
    if (this.#sending) return;
    this.#sending = true;
    try {
      for (let batch = this.#next(); batch; batch = this.#next()) if (!(await this.#send(batch))) return;
    } finally {
      this.#sending = false;
      this.#changed();
    }
  }

  /** What a try to reach the server sends. */
  async probe() {
    if (this.#next()) await this.flush();
    else await ask("/api/conflicts").then(() => connection.rest());
  }

  /**
   * Take back the latest batch: unsent ones here, saved ones on the server.
   * @returns {Promise<{local: Answer[]} | {reply: any}>}
   * @throws {import("./server.js").Refused | Away}
   */
  async undo() {
    while (this.#sending) await new Promise((done) => this.addEventListener("change", done, { once: true }));
    const batch = this.batches.at(-1);
    // A batch whose sending was tried may have arrived although no reply did: only the server can take it back.
    if (batch && !batch.tried) {
      this.#drop(batch);
      return { local: batch.answers };
    }
    if (batch && !batch.refusal) throw new Away("The server is away: this answer can be taken back when it returns.");
    return { reply: await ask("/api/undo", { store: this.store, browser: this.browser }) };
  }

  /** Send the refused batches again. */
  again() {
    for (const batch of this.refused) batch.refusal = null;
    return this.flush();
  }

  /** Give the refused batches up. @returns {Answer[]} */
  discard() {
    const gone = this.refused;
    gone.forEach((batch) => this.#drop(batch));
    return gone.flatMap(({ answers }) => answers);
  }

  #next() {
    return this.batches.find((batch) => !batch.refusal);
  }

  async #send(batch) {
    if (this.#sentElsewhere(batch)) {
      this.#drop(batch);
      return true;
    }
    batch.tried = true;
    try {
      const { answers, resolve, id } = batch;
      const reply = await ask("/api/answers", { store: this.store, browser: this.browser, batch: id, answers, resolve });
      connection.rest();
      this.#drop(batch);
      this.dispatchEvent(new CustomEvent("saved", { detail: { batch, reply } }));
      return true;
    } catch (error) {
      // Another run is served: the batch waits here until its own is again.
      if (error instanceof Away || error.status === 409) return false;
      batch.refusal = error.message;
      this.dispatchEvent(new CustomEvent("refused", { detail: { batch } }));
      this.#changed();
      return true;
    }
  }

  #adopt() {
    try {
      const keys = Object.keys(localStorage).filter((key) => key.startsWith(this.prefix));
      for (const key of keys.sort()) {
        const batch = JSON.parse(localStorage.getItem(key) ?? "null");
        if (Array.isArray(batch?.answers)) this.batches.push({ ...batch, refusal: null, tried: true });
      }
    } catch {
      this.kept = false;
    }
  }

  #keep(batch) {
    try {
      localStorage.setItem(this.prefix + batch.id, JSON.stringify({ ...batch, run: this.run }));
    } catch {
      this.kept = false;
    }
  }

  /** Answers of this browser that wait for other runs. @returns {Map<string, number>} by the name of the run */
  elsewhere() {
    const found = new Map();
    try {
      for (const key of Object.keys(localStorage)) {
        if (!key.startsWith(PREFIX) || key.startsWith(this.prefix)) continue;
        const batch = JSON.parse(localStorage.getItem(key) ?? "null");
        if (batch?.run) found.set(batch.run, (found.get(batch.run) ?? 0) + batch.answers.length);
      }
    } catch {
      // Without storage nothing waits.
    }
    return found;
  }

  /** Another tab found the batch in the storage and delivered it. */
  #sentElsewhere(batch) {
    return this.kept && localStorage.getItem(this.prefix + batch.id) === null;
  }

  #drop(batch) {
    this.batches = this.batches.filter((other) => other !== batch);
    try {
      localStorage.removeItem(this.prefix + batch.id);
    } catch {
      this.kept = false;
    }
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
