import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { useRedis } from '../../support/redis/use-redis.js';
import { NOTHING_TOLERATED } from '../../../lab/faults/expectations.js';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';
import type { StoreSettings } from '../../../lab/faults/worker/settings.js';

const WORKERS = 3;
const DUPLICATES = 300;
const BYTES = 5_000_000;
const LIMIT_MS = 20_000;
/** Longer than anything in here takes. */
const LEASE_MS = 60_000;

describe(`${WORKERS} processes on one Redis`, () => {
  const redis = useRedis();
  let lab: Lab;
  let store: StoreSettings;
  let workers: LabWorker[];

  beforeAll(async () => {
    lab = await Lab.set();
    store = { kind: 'redis', url: redis.url };
    const options = {
      lease: { duration: LEASE_MS },
      outcome: { maxBytes: 2 * BYTES },
    };
    const start = (mode: 'reject' | 'wait') => {
      const duplicates = { mode, timeout: LEASE_MS };
      return lab.start(store, { options: { ...options, duplicates }, effectDelayMs: 100 });
    };
    const ways = ['reject', 'wait', 'reject'] as const;
    workers = await Promise.all(ways.slice(0, WORKERS).map(start));
  }, 60_000);

  afterAll(() => lab.clear());

  const urlOf = (number: number) => workers[number % WORKERS]!.url;
  const askAll = (key: string) => lab.client.ask(() => [urlOf(0)], key, { limitMs: LIMIT_MS });

  it(`execute once what ${DUPLICATES} clients request at the same time [P01]`, async () => {
    const key = 'at-once';
    const responses = await Promise.all(
      Array.from({ length: DUPLICATES }, (_, number) => lab.client.send(urlOf(number), key)),
    );

    const [effect, ...more] = lab.effects(key);
    expect(more).toEqual([]);
    const first = responses.filter(({ status, replayed }) => status === 201 && !replayed);
    expect(first).toHaveLength(1);
    for (const response of responses) {
      if (response.status !== 409) expect(response).toMatchObject({ execution: effect!.execution });
    }
    // A waiting duplicate is not asked to retry.
    const waiting = responses.filter((_, number) => number % WORKERS === 1);
    expect(new Set(waiting.map(({ status }) => status))).toEqual(new Set([201]));
  });

  it('replay 5 MB of bytes that are not text, the same in every process [P02]', async () => {
    const key = 'large';
    const body = { bytes: BYTES };
    const first = await lab.client.send(urlOf(0), key, { body });
    const others = await Promise.all([1, 2].map((n) => lab.client.send(urlOf(n), key, { body })));

    expect(first).toMatchObject({ status: 201, replayed: false });
    for (const other of others) {
      expect(other).toMatchObject({ status: 201, replayed: true, digest: first.digest });
    }
    expect(lab.effects(key)).toHaveLength(1);
  });

  it('keep the outcome of a client that left while its handler was running [P35]', async () => {
    const key = 'left';
    const leave = new AbortController();
    const mishap = { point: 'in_handler', action: { kind: 'hold' } } as const;
    const left = lab.client.send(urlOf(0), key, { mishap, signal: leave.signal });
    await lab.untilBegan(key);
    leave.abort();
    expect(await left).toMatchObject({ error: 'ABORT_ERR' });
    workers[0]!.releaseUnowned();

    const response = await askAll(key);

    expect(response).toMatchObject({ status: 201, replayed: true });
    expect(lab.effects(key)).toMatchObject([{ attempt: 1, execution: response.execution }]);
  });

  it('leave nothing for the oracle to object to', () => {
    const { objections } = lab.judge({ ...NOTHING_TOLERATED, brokenConnections: true });
    expect(objections).toEqual([]);
  });
});
