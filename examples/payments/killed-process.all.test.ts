import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { TalkingProcess } from '../../test/support/processes/talking-process.js';
import { useRedis } from '../../test/support/redis/use-redis.js';
import { untilSettled, until } from '../../test/support/waiting/until.js';
import { ProviderServer } from './provider-server.js';

const redis = useRedis();
const payment = { card: '4242', amount: 4999 };
let provider: ProviderServer;

beforeEach(async () => {
  provider = await ProviderServer.start();
});
afterEach(() => {
  provider.stop();
});

describe('A payment whose process is killed after the charge', () => {
  let processes: TalkingProcess<{ port: number }>[] = [];
  afterEach(() => Promise.all(processes.map((process) => process.kill())));

  it.each([
    ['finds the charge', true, 1],
    ['sends it again with the same key, where the provider finds none,', false, 2],
  ])(
    '%s and is charged once',
    async (_, canFind, times) => {
      provider.canFind = canFind;
      provider.plan = ['hang'];
      const settings = { redisUrl: redis.url, providerUrl: provider.url, leaseMs: 500 };
      const script = new URL('payments.process.ts', import.meta.url);
      processes = [1, 2].map(() => new TalkingProcess<{ port: number }>(script, settings));
      const [owner, heir] = await Promise.all(processes.map((process) => process.next()));
      const pay = ({ port }: { port: number }) =>
        fetch(`http://127.0.0.1:${port}/payments`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'idempotency-key': `killed-${times}` },
          body: JSON.stringify(payment),
        });
      const lost = pay(owner!);
      lost.catch(() => undefined);
      await until(() => provider.ledger.length === 1);
      await processes[0]!.kill();
      await expect(lost).rejects.toThrow();

      let response: Response | undefined;
      await untilSettled(async () => {
        response = await pay(heir!);
        return response.status === 201;
      });
      expect(await response!.json()).toEqual(provider.ledger[0]);
      expect([provider.ledger.length, provider.asked.length]).toEqual([1, times]);
      expect([provider.lookUps, new Set(provider.asked).size]).toEqual([[provider.asked[0]], 1]);
    },
    180_000,
  );
});
