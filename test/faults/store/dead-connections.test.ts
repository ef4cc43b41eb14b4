import { expect, it } from '@jest/globals';
import { until } from '../../support/waiting/until.js';
import type { RedisProxy } from '../../support/redis/proxy/redis-proxy.js';
import { labRequest } from './support/requests.js';
import { useScene } from './support/use-scene.js';

const used = useScene();

it.each<[string, (proxy: RedisProxy) => void]>([
  ['whose server side has closed silently', (proxy) => proxy.loseServerSide()],
  ['that loses all replies', (proxy) => proxy.silenceOpenConnections()],
])(
  'A connection %s is replaced in the middle of an attempt, which continues',
  async (_, breakIt) => {
    const { scene } = used;
    const worker = await scene.worker({ connection: { socketTimeout: 300 } });
    const other = await scene.worker();
    const request = labRequest();
    const response = await worker.request(request, async ({ signal }) => {
      breakIt(worker.proxy);
      expect(await other.request(request)).toEqual({ kind: 'rejected', reason: 'in_progress' });
      expect(signal.aborted).toBe(false);
    });
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    expect(worker.proxy.connections).toBe(2);
    expect(worker.reported).toEqual(['acquired', 'completed']);
    expect(await other.request(request)).toMatchObject({ kind: 'success', replayed: true });
    expect(scene.objections()).toEqual([]);
  },
);

it("A black hole rejects begins in time, and does not lose an attempt's outcome [P39]", async () => {
  const { scene } = used;
  const worker = await scene.worker({ connection: { socketTimeout: 300 } });
  const [running, fresh] = [
    labRequest({ storeErrors: { saveTimeoutMs: 20_000 } }),
    labRequest({ storeErrors: { commandTimeoutMs: 300 } }),
  ];
  const withLongTimeout = { ...fresh, options: labRequest().options };
  const response = await worker.request(running, async () => {
    worker.proxy.swallowEverything();
    expect(await worker.request(fresh)).toEqual({ kind: 'rejected', reason: 'store_unavailable' });
    await until(() => worker.proxy.connections > 1);
    worker.proxy.heal();
  });
  expect(response).toMatchObject({ kind: 'success', replayed: false });
  expect(await worker.insist(withLongTimeout)).toMatchObject({ kind: 'success', replayed: false });
  expect(scene.ledger.effectsOn(fresh)).toMatchObject([{ isTakeover: false }]);
  expect(scene.objections()).toEqual([]);
});
