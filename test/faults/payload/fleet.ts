import { setTimeout as delay } from 'node:timers/promises';
import type { LabClient } from '../../../lab/faults/client.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import { isSuccess, type ApiResponse } from '../../../lab/faults/response.js';
import { Tally } from '../../support/waiting/tally.js';

export const DUPLICATES = 8;
/** How many of them are sent together. The others come when so many later keys have been asked for. */
const AT_ONCE = 5;
const LATER = 40;

/** How many requests are under way at a time. */
const CLIENTS = 24;
/** Shorter than `Retry-After` asks for, to find keys that are still open. */
const RETRY_PAUSE_MS = 20;
/** After so long, clients take the answer that they have. */
const LIMIT_MS = 120_000;

/** The processes that serve, as their load balancer sees them, and their load. */
export class Fleet {
  /** Clients that have their answer. */
  readonly answered = new Tally();
  /** Responses 5xx. */
  readonly refusals: ApiResponse[] = [];
  /** With the requests that are under way. */
  readonly #serving = new Map<LabWorker, Set<Promise<unknown>>>();

  constructor(private readonly client: LabClient) {}

  enter(worker: LabWorker): void {
    this.#serving.set(worker, new Set());
  }

  /** It gets no further request. Resolves when the last one has its response. */
  async leave(worker: LabWorker): Promise<void> {
    const underWay = [...(this.#serving.get(worker) ?? [])];
    this.#serving.delete(worker);
    await Promise.all(underWay);
  }

  /** Sends {@link DUPLICATES} requests for each key. @returns the keys of which one had no success. */
  async load(keys: readonly string[]): Promise<string[]> {
    const requests = keys
      .flatMap((key, index) =>
        Array.from({ length: DUPLICATES }, (_, duplicate) => ({
          key,
          turn: index + duplicate,
          place: index + (duplicate < AT_ONCE ? 0 : LATER),
        })),
      )
      .sort((a, b) => a.place - b.place)
      .values();
    const stuck = new Set<string>();
    const giveUpAt = performance.now() + LIMIT_MS;
    const ask = async () => {
      for (const { key, turn } of requests) {
        if (!isSuccess(await this.#ask(key, turn, giveUpAt))) stuck.add(key);
        this.answered.add();
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, ask));
    return [...stuck];
  }

  /** Asks again, and the next process, until there is a success. */
  async #ask(key: string, firstTurn: number, giveUpAt: number): Promise<ApiResponse> {
    for (let turn = firstTurn; ; turn += 1) {
      const serving = [...this.#serving];
      const [{ url }, underWay] = serving[turn % serving.length]!;
      const sent = this.client.send(url, key);
      underWay.add(sent);
      const response = await sent;
      underWay.delete(sent);
      if ((response.status ?? 0) >= 500) this.refusals.push(response);
      if (isSuccess(response) || performance.now() >= giveUpAt) return response;
      await delay(RETRY_PAUSE_MS);
    }
  }
}
