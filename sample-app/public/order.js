import { newIdempotencyKey } from '../client/index.js';

/** One order: its key, and every request that was sent with it. */
export class Order {
  key = newIdempotencyKey();
  /** The same in every request of the order, so that the ledger's charges for it can be counted. */
  description = `Order ${this.key.slice(0, 8)}`;
  requests = [];

  send(title, url, init) {
    const sent = new SentRequest(this.requests.length + 1, title, url, init);
    this.requests.push(sent);
    return sent;
  }

  /** Nothing runs any more: it has its outcome. */
  get isDone() {
    return this.requests.some(({ verdict }) => verdict === 'first' || verdict === 'replay');
  }

  /** The requests by result. */
  get counts() {
    const counts = { requests: this.requests.length };
    for (const { verdict } of this.requests) {
      counts[verdict ?? 'under way'] = (counts[verdict ?? 'under way'] ?? 0) + 1;
    }
    return counts;
  }
}

class SentRequest {
  sentAt = Date.now();

  constructor(number, title, url, { method, headers, body }) {
    this.number = number;
    this.title = title;
    this.url = new URL(url, document.baseURI);
    this.method = method;
    this.headers = linesOf(new Headers(headers));
    // The library's client sends bytes, the same in every try.
    this.sentBody = typeof body === 'string' ? body : new TextDecoder().decode(body);
  }

  receive(response, body) {
    this.endedAt = Date.now();
    this.response = response;
    this.body = body;
    this.verdict = verdictOn(response, body);
  }

  lose() {
    this.endedAt = Date.now();
    this.verdict = 'lost';
  }

  /** What is the same for equal answers to equal requests. */
  get sameness() {
    return [this.verdict, this.response?.status, this.requestText].join('\n');
  }

  get requestText() {
    const { method, url, headers, sentBody } = this;
    return [`${method} ${url.pathname}`, ...headers, '', sentBody].join('\n');
  }

  get responseText() {
    if (this.response === undefined)
      return this.verdict === undefined ? 'None yet.' : 'None: it was lost.';
    const { status, statusText, headers } = this.response;
    return [`${status} ${statusText}`, ...linesOf(headers), '', this.body].join('\n');
  }

  get curl() {
    const headers = this.headers.map((line) => `-H ${quoted(line)}`);
    return ['curl -i', this.url.href, ...headers, `-d ${quoted(this.sentBody)}`].join(' ');
  }
}

function linesOf(headers) {
  return [...headers].map(([name, value]) => `${name}: ${value}`);
}

/** For a POSIX shell. */
function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function verdictOn({ status, headers }, body) {
  if (headers.get('idempotent-replayed') === 'true') return 'replay';
  const code = codeIn(body);
  if (code === 'idempotency_in_progress') return 'conflict';
  if (code === 'idempotency_key_reused') return 'mismatch';
  if (code === 'no_process' || code?.startsWith('idempotency_')) return 'rejected';
  return status < 500 ? 'first' : 'failed';
}

/** The code of a problem; `undefined` for a body that is none. */
function codeIn(body) {
  try {
    return JSON.parse(body).code;
  } catch {
    return undefined;
  }
}
