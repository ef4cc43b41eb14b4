import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';
import type { ApiWorker } from './api-worker.js';

/** A fault of one request. */
export type Fault =
  /** The process handles it; the connection breaks before the first byte of the response. */
  | 'lose the response'
  /** Its process is killed after the card was charged, before the response. */
  | 'kill the process';

const HOP_BY_HOP = new Set<string | undefined>(['connection', 'keep-alive', 'transfer-encoding']);

/** Forwards each request to one of the processes, in turn. */
export class LoadBalancer {
  readonly #faults = new Map<string, Fault>();
  #nextIndex = 0;

  /** @param killAfterMs - kills the process of a payment that is not charged by then. */
  constructor(
    private readonly workers: readonly ApiWorker[],
    private readonly killAfterMs: number,
  ) {}

  /** Injects a fault into the next request with this idempotency key. */
  plan(fault: Fault, key: string): void {
    this.#faults.set(key, fault);
  }

  forward(incoming: IncomingMessage, response: ServerResponse): void {
    const worker = this.#next();
    if (worker?.url === undefined) {
      reject(response);
      return;
    }
    const fault = this.#faultOf(incoming);
    const { hostname: host, port } = worker.url;
    const { method, url: path, rawHeaders: headers } = incoming;
    // A connection each: a kept one may belong to a process that was killed.
    const upstream = request({ host, port, method, path, headers, agent: false });
    const breakOff = () => incoming.socket.destroy();
    const disarm = fault === 'kill the process' ? this.#killDuring(worker) : () => undefined;
    upstream.on('response', (responded) => {
      disarm();
      if (fault === 'lose the response') {
        responded.resume().once('close', breakOff);
        return;
      }
      response.writeHead(responded.statusCode ?? 502, endToEnd(responded.rawHeaders));
      pipeline(responded, response, () => undefined);
    });
    upstream.on('error', breakOff);
    upstream.on('close', disarm);
    response.on('close', () => upstream.destroy());
    pipeline(incoming, upstream, () => undefined);
  }

  #next(): ApiWorker | undefined {
    const listening = this.workers.filter(({ url }) => url !== undefined);
    return listening[this.#nextIndex++ % listening.length];
  }

  #faultOf({ method, headers }: IncomingMessage): Fault | undefined {
    const field = headers['idempotency-key'];
    if (method !== 'POST' || typeof field !== 'string') return undefined;
    // The library's client sends the key as a string of a structured field, in quotes.
    const key = field.replaceAll('"', '');
    const fault = this.#faults.get(key);
    this.#faults.delete(key);
    return fault;
  }

  /** @returns how to leave it alive after all, when the response is there first. */
  #killDuring(worker: ApiWorker): () => void {
    const kill = () => worker.kill();
    const onReport = ({ type }: { readonly type: string }) => {
      if (type === 'charged') kill();
    };
    const timer = setTimeout(kill, this.killAfterMs);
    worker.on('report', onReport);
    return () => {
      clearTimeout(timer);
      worker.off('report', onReport);
    };
  }
}

function reject(response: ServerResponse): void {
  const code = 'no_process';
  const detail = 'No process of the API is running. One starts within seconds.';
  response
    .writeHead(503, { 'content-type': 'application/problem+json', 'retry-after': '1' })
    .end(JSON.stringify({ status: 503, code, title: 'Service unavailable', detail }));
}

/** Without the headers that are about the connection to the process. */
function endToEnd(rawHeaders: readonly string[]): string[] {
  const names = rawHeaders.map((text, index) => (index % 2 === 0 ? text : rawHeaders[index - 1]));
  return rawHeaders.filter((_, index) => !HOP_BY_HOP.has(names[index]?.toLowerCase()));
}
