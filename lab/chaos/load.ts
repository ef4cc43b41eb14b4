import { setTimeout as delay } from 'node:timers/promises';
import { isSuccess, type ApiResponse } from '../faults/response.js';
import type { LabClient } from '../faults/client.js';
import type { Mishap } from '../faults/worker/mishap.js';
import { Random } from '../../test/integration/differential/random.js';
import type { Plan } from './plan.js';
import type { WorkerPool } from './worker-pool.js';

/** How many clients ask for one key at a time. */
const CLIENTS_PER_KEY = 2;

/** How long a client that got no success waits: less than `Retry-After` asks for. */
const RETRY_PAUSE_MS = 20;

/**
 * How long beyond its lease a key is asked for until it counts as stuck. Longer than any trouble lasts on a
 * busy machine: a key that is given up too early is not seen to come free.
 */
const TIMEOUT_MS = 60_000;

/** What the load asks of the faults. */
export interface Troubles {
  /** Whether they were injected often enough. */
  readonly areDone: () => boolean;
  readonly mishap: (random: Random) => Mishap | undefined;
}

/** Asks for many keys at a time, each of them many times. */
export class Load {
  keysDone = 0;
  #keysBegun = 0;

  constructor(
    private readonly plan: Plan,
    private readonly client: LabClient,
    private readonly pool: WorkerPool,
    private readonly troubles: Troubles,
  ) {}

  /** @returns when every key that was begun has had its requests, and there were enough of them. */
  async run(): Promise<void> {
    const { keysAtOnce, requests, duplicates } = this.plan;
    const wanted = Math.ceil(requests / duplicates);
    const sendKeys = async () => {
      while (this.#keysBegun < wanted || !this.troubles.areDone()) {
        this.#keysBegun += 1;
        await this.#askOften(this.#keysBegun);
        this.keysDone += 1;
      }
    };
    await Promise.all(Array.from({ length: keysAtOnce }, sendKeys));
  }

  /** Asks for every key once more. @returns the keys that gave no success in time. */
  async askAgain(): Promise<string[]> {
    const { keysAtOnce } = this.plan;
    const stuck: string[] = [];
    let next = 0;
    const sendKeys = async () => {
      while (next < this.#keysBegun) {
        next += 1;
        const key = this.#keyOf(next);
        if (!isSuccess(await this.#askUntilSuccess(key))) stuck.push(key);
      }
    };
    await Promise.all(Array.from({ length: keysAtOnce }, sendKeys));
    return stuck;
  }

  async #askOften(number: number): Promise<void> {
    const { duplicates, seed } = this.plan;
    const key = this.#keyOf(number);
    const random = new Random(seed * 1_000_003 + number);
    const mishap = this.troubles.mishap(random);
    const giveUpAt = performance.now() + this.plan.leaseMs + TIMEOUT_MS;
    let left = duplicates;
    let hasSucceeded = false;
    const ask = async (client: number) => {
      // A client never gives up a payment halfway, and the release of a key shows only to a request for it.
      while (left > 0 || (!hasSucceeded && performance.now() < giveUpAt)) {
        const url = this.pool.urlOf(this.#slotFor(number + client, random));
        if (url === undefined) {
          if (performance.now() >= giveUpAt) return;
          await delay(RETRY_PAUSE_MS);
          continue;
        }
        // Any of the first requests may become the attempt that meets the fault.
        const isEarly = left > duplicates - CLIENTS_PER_KEY;
        left -= 1;
        const response = await this.client.send(url, key, isEarly ? { mishap } : {});
        if (isSuccess(response)) hasSucceeded = true;
        else await delay(RETRY_PAUSE_MS);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS_PER_KEY }, (_, client) => ask(client)));
  }

  /** The clients of a key use different workers: a frozen one delays only one of them. */
  #slotFor(client: number, random: Random): number {
    const share = Math.max(1, Math.floor(this.pool.size / CLIENTS_PER_KEY));
    return random.integer(0, share - 1) * CLIENTS_PER_KEY + (client % CLIENTS_PER_KEY);
  }

  #askUntilSuccess(key: string): Promise<ApiResponse> {
    const limitMs = this.plan.leaseMs + TIMEOUT_MS;
    return this.client.ask(() => this.pool.urls, key, { limitMs });
  }

  #keyOf(number: number): string {
    return `chaos-${this.plan.seed}-${number}`;
  }
}
