import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { RedisProxy } from '../../support/redis/proxy/redis-proxy.js';
import { isTestAll } from '../../support/jest/test-all.js';
import { useRedis } from '../../support/redis/use-redis.js';
import { NOTHING_TOLERATED, UNAVAILABLE } from '../../../lab/faults/expectations.js';
import { Lab } from '../../../lab/faults/lab.js';
import type { LabWorker } from '../../../lab/faults/lab-worker.js';

const LIMIT_MS = 20_000;

const RESPONSES = [
  ['respond', 'with the outcome all the same', { status: 201, replayed: false }],
  ['error', 'with 503', { status: 503, code: 'idempotency_store_unavailable' }],
] as const;

describe('a worker whose store is unavailable when its outcome is to be stored', () => {
  const redis = useRedis();
  let proxy: RedisProxy | undefined;
  let lab: Lab;
  let other: LabWorker;

  beforeAll(async () => {
    proxy = await RedisProxy.start(redis.port);
    lab = await Lab.set();
    other = await lab.start({ kind: 'redis', url: redis.url });
  }, 60_000);

  afterAll(async () => {
    await lab.clear();
    await proxy?.stop();
  });

  it.each(isTestAll ? RESPONSES : RESPONSES.slice(0, 1))(
    'responds %s, and stores the outcome once the store is back [P40]',
    async (whenNotSaved, _, expected) => {
      // The heartbeats fail, too: the lease has to last until the store is back.
      const options = {
        lease: { duration: 60_000 },
        storeErrors: { saveTimeout: 300, whenNotSaved },
      };
      const worker = await lab.start({ kind: 'redis', url: proxy!.url }, { options });
      const key = `gone-${whenNotSaved}`;
      const mishap = { point: 'after_effect', action: { kind: 'hold' } } as const;
      const asked = lab.client.send(worker.url, key, { mishap });
      await lab.untilBegan(key);
      proxy!.hangUp();
      worker.releaseUnowned();

      const response = await asked;
      const meanwhile = await lab.client.send(other.url, key);
      proxy!.heal();
      const later = await lab.client.ask(() => [other.url], key, { limitMs: LIMIT_MS });

      expect(response).toMatchObject(expected);
      expect(meanwhile).toMatchObject({ status: 409, code: 'idempotency_in_progress' });
      const [effect, ...more] = lab.effects(key);
      expect(more).toEqual([]);
      expect(later).toMatchObject({
        status: 201,
        replayed: true,
        execution: effect!.execution,
        ...(response.digest !== undefined &&
          response.status === 201 && { digest: response.digest }),
      });
      expect(lab.eventsOf(key)).toContainEqual(expect.objectContaining({ type: 'save_delayed' }));
    },
  );

  it('leaves nothing for the oracle to object to', () => {
    const otherResponses = [...NOTHING_TOLERATED.otherResponses, ...UNAVAILABLE];
    expect(lab.judge({ ...NOTHING_TOLERATED, otherResponses }).objections).toEqual([]);
  });
});
