// Talking to the server: one place that tells "the server said no" from "the server is away".

const PATIENCE = 15_000;
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15_000;

/** The server answered, and the answer was no; `status` says why. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** The header that names a review: run, table and images. */
const REVIEW = "X-Partlabel-Review";
/** Which review this page was loaded from; its numbers mean nothing in another. */
let review = "";

/** @param {string} id */
export function setReview(id) {
  review = id;
}

/** No answer: the server is stopped, out of reach or broken. */
export class Away extends Error {}

/**
 * JSON from the server.
 * @param {string} path
 * @param {object} [body] sent as POST where given
 * @param {AbortSignal} [signal]
 * @throws {Refused | Away}
 */
export async function ask(path, body, signal) {
  const limit = AbortSignal.timeout(PATIENCE);
  let response;
  try {
    response = await fetch(path, {
      method: body ? "POST" : "GET",
      headers: { [REVIEW]: review, ...(body ? { "Content-Type": "application/json" } : {}) },
      body: body ? JSON.stringify(body) : undefined,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    connection.lost();
    throw new Away("The server does not answer.");
  }
  const reply = await response.json().catch(() => null);
  const shown = response.headers.get(REVIEW);
  if (review && shown && shown !== review) connection.moved();
  if (signal?.aborted) throw new DOMException("Not needed any more.", "AbortError");
  if (response.ok && reply) {
    connection.found();
    return reply;
  }
  if (response.status >= 500 || response.ok) {
    connection.reason = reply?.error ?? "";
    connection.lost();
    throw new Away(reply?.error ?? "The server has a problem of its own.");
  }
  connection.found();
  throw new Refused(reply?.error ?? `The server refused with ${response.status}.`, response.status);
}

/**
 * Whether the server is there. Fires "change" and, when it comes back, "back"; while it is away it is asked again. Fires
 * "moved" when the server shows another run or table than this page.
 */
class Connection extends EventTarget {
  away = false;
  /** Why it counts as away, where it said so. */
  reason = "";
  #moved = false;
  /** When it is asked again, in milliseconds since 1970. */
  nextTry = 0;
  /** What a try sends; answers that wait come first. @type {() => Promise<unknown>} */
  probe = () => ask("/api/conflicts");
  #pause = FIRST_PAUSE;
  #timer = 0;

  lost() {
    if (this.away && this.#timer) return;
    this.away = true;
    this.nextTry = Date.now() + this.#pause;
    this.#timer = window.setTimeout(() => this.tryNow(), this.#pause);
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE);
    this.dispatchEvent(new Event("change"));
  }

  found() {
    if (!this.away) return;
    this.away = false;
    this.reason = "";
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.dispatchEvent(new Event("change"));
    this.dispatchEvent(new Event("back"));
  }

  moved() {
    if (this.#moved) return;
    this.#moved = true;
    this.dispatchEvent(new Event("moved"));
  }

  /** The pause starts again from its shortest: called when work came through. */
  rest() {
    this.#pause = FIRST_PAUSE;
  }

  async tryNow() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.nextTry = 0;
    this.dispatchEvent(new Event("change"));
    await this.probe().catch(() => {});
  }
}

export const connection = new Connection();
window.addEventListener("online", () => connection.away && connection.tryNow());
