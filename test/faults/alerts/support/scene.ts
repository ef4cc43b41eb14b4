import { Redis } from 'ioredis';
import { startRedis, type RedisServer } from '../../../support/redis/redis-server.js';
import type { Lab, StartOptions } from '../../../../lab/faults/lab.js';
import type { LabWorker } from '../../../../lab/faults/lab-worker.js';
import { CALLER } from '../../../../lab/faults/client.js';
import type { Mishap } from '../../../../lab/faults/worker/mishap.js';
import { CALLER_HEADER, SERVICE } from '../../../../lab/faults/worker/settings.js';
import { scrape, type Round } from './scrapes.js';

/** The attempt stands still until its worker is released. */
export const HELD: Mishap = { point: 'after_effect', action: { kind: 'hold' } };

/** Longer than a test. */
const LONG_LEASE = { duration: 60_000 };

/** Workers on a Redis of their own, and what Prometheus would have scraped of them. */
export class Scene {
  readonly rounds: Round[] = [];
  private readonly workers: LabWorker[] = [];

  private constructor(
    readonly lab: Lab,
    readonly redis: RedisServer,
    readonly admin: Redis,
  ) {}

  static async open(lab: Lab): Promise<Scene> {
    const redis = await startRedis();
    const admin = new Redis(redis.url);
    // A scenario may stop the server.
    admin.on('error', () => undefined);
    return new Scene(lab, redis, admin);
  }

  async worker({ options, ...others }: StartOptions = {}): Promise<LabWorker> {
    const journal = { service: SERVICE, version: '1' };
    const worker = await this.lab.start(
      { kind: 'redis', url: this.redis.url, options: { journal } },
      { metrics: true, options: { lease: LONG_LEASE, ...options }, ...others },
    );
    this.workers.push(worker);
    return worker;
  }

  /** Waits for the scrape of all workers that run. */
  async scrape(): Promise<Round> {
    const round = await scrape(this.workers);
    this.rounds.push(round);
    return round;
  }

  /** Scrapes until a scrape shows what `isShown` looks for; the others count as never taken. */
  async scrapeUntil(isShown: (round: Round) => boolean): Promise<void> {
    for (;;) {
      const round = await scrape(this.workers);
      if (isShown(round)) {
        this.rounds.push(round);
        return;
      }
    }
  }

  /** One request for each key. */
  send(worker: LabWorker, keys: readonly string[], options: { bytes?: number } = {}) {
    return Promise.all(keys.map((key) => this.lab.client.send(worker.url, key, { body: options })));
  }

  /** Attempts that had their effect, and stand still. */
  async held(worker: LabWorker, keys: readonly string[]) {
    const responses = keys.map((key) => this.lab.client.send(worker.url, key, { mishap: HELD }));
    for (const key of keys) await this.lab.untilEffect(key);
    return { responses: Promise.all(responses) };
  }

  /** As clients do that know of no keys. */
  /** @param others - further header fields. */
  async sendWithoutKey(
    worker: LabWorker,
    count: number,
    others: Readonly<Record<string, string>> = {},
  ): Promise<number[]> {
    const headers = { [CALLER_HEADER]: CALLER, 'content-type': 'application/json', ...others };
    const requests = Array.from({ length: count }, () =>
      fetch(`${worker.url}/effects`, { method: 'POST', headers, body: '{}' }),
    );
    return (await Promise.all(requests)).map(({ status }) => status);
  }

  /** The store refuses to write: its server takes itself for a replica. */
  async rejectWrites(): Promise<void> {
    await this.admin.replicaof('127.0.0.1', '1');
  }

  async acceptWrites(): Promise<void> {
    await this.admin.replicaof('NO', 'ONE');
  }

  async close(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.kill()));
    this.admin.disconnect();
    await this.redis.stop();
  }
}

/** Names of keys. */
export function keys(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index}`);
}
