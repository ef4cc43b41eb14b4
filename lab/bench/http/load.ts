import { createHistogram } from 'node:perf_hooks';
import { percentiles, record } from '../measuring/closed-loop.js';
import { serve } from '../../../test/support/processes/child.js';
import { loadPackage } from './load-package.js';

export interface LoadOrder {
  readonly url: string;
  readonly connections: number;
  /** How long, or how many requests. */
  readonly ms?: number;
  readonly amount?: number;
  readonly body: string;
  /** A key for all requests; without it each has its own. */
  readonly key?: string;
  /** What every answer has to be. */
  readonly expected?: string;
}

export type TimedOrder = LoadOrder & { readonly ms: number };

export interface LoadResult {
  readonly count: number;
  readonly seconds: number;
  readonly statuses: Readonly<Record<string, number>>;
  readonly errors: number;
  /** Answers that were not as expected. */
  readonly mismatches: number;
  /** Of the generator, for all requests together. */
  readonly cpuUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
}

/** How often autocannon checks whether to stop. */
const TICK_MS = 20;

const autocannon = loadPackage('autocannon') as Autocannon;
let keys = 0;

serve({ load });

function load({
  url,
  connections,
  ms,
  amount,
  body,
  key,
  expected,
}: LoadOrder): Promise<LoadResult> {
  const latencies = createHistogram();
  const statuses: Record<string, number> = {};
  let count = 0;
  const started = performance.now();
  let last = started;
  const clients: Client[] = [];
  const cpu = process.cpuUsage();
  return new Promise((resolve, reject) => {
    const instance = autocannon(
      {
        url,
        method: 'POST',
        connections,
        sampleInt: TICK_MS,
        setupClient: (client: Client) => clients.push(client),
        ...(amount === undefined ? { duration: 3_600 } : { amount }),
        ...(expected === undefined ? {} : { expectBody: expected }),
        headers: key === undefined ? {} : headersWith(key),
        body,
        ...(key === undefined ? { requests: [{ setupRequest: withNewKey }] } : {}),
      },
      (error, result) => {
        if (error) {
          reject(error);
          return;
        }
        const { errors, mismatches } = result;
        const seconds = (last - started) / 1000;
        const times = percentiles(latencies) as Pick<LoadResult, 'p50Ms' | 'p99Ms' | 'p999Ms'>;
        const { user, system } = process.cpuUsage(cpu);
        const cpuUs = user + system;
        resolve({ count, seconds, statuses, errors, mismatches, cpuUs, ...times });
      },
    );
    instance.on('response', (_client, status, _bytes, responseMs) => {
      count += 1;
      last = performance.now();
      statuses[status] = (statuses[status] ?? 0) + 1;
      record(latencies, responseMs);
    });
    if (ms === undefined) return;
    // A machine that is busy with other things may not have answered anything by then.
    const stop = () => {
      if (count >= connections) for (const client of clients) client.responseMax = client.reqsMade;
      else setTimeout(stop, TICK_MS);
    };
    setTimeout(stop, ms);
  });
}

function headersWith(key: string): Record<string, string> {
  return { 'content-type': 'application/json', 'idempotency-key': key };
}

function withNewKey(request: RequestToSend): RequestToSend {
  keys += 1;
  request.headers = headersWith(`first-${process.pid}-${keys.toString(36).padStart(12, '0')}`);
  return request;
}

interface RequestToSend {
  headers: Record<string, string>;
}

/** A connection, which ends when it has been answered so many times: unlike `stop`, that leaves nothing under way. */
interface Client {
  responseMax?: number;
  readonly reqsMade: number;
}

/** What is used of autocannon. */
type Autocannon = (
  options: object,
  done: (error: Error | null, result: { errors: number; mismatches: number }) => void,
) => {
  on(
    event: 'response',
    listener: (client: unknown, status: number, bytes: number, responseMs: number) => void,
  ): void;
};
