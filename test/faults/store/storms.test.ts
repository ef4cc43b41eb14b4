import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { Random } from '../../integration/differential/random.js';
import { during } from '../../support/waiting/during.js';
import { load } from './support/load.js';
import type { RemoteWorker } from './support/remote-worker.js';
import { useScene } from './support/use-scene.js';

const KEYS = 150;
const LONG_TIMEOUTS = { storeErrors: { commandTimeoutMs: 20_000, saveTimeoutMs: 20_000 } };
/** Between two disturbances; on a starved machine there may be no quiet moment between them. */
const PAUSE_MS = 10;
const FAULTS = 100;

const used = useScene();

/** Sends every request to both workers while the store is disturbed. */
async function weather(injectFaults: () => unknown): Promise<RemoteWorker[]> {
  const { scene } = used;
  const workers = [await scene.worker(), await scene.worker()];
  let left = FAULTS;
  const requests = await during(load(workers, KEYS, LONG_TIMEOUTS), async () => {
    if (left > 0) await injectFaults();
    left -= 1;
    await delay(PAUSE_MS);
  });
  for (const request of requests) {
    expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 1, isTakeover: false }]);
  }
  expect(scene.objections()).toEqual([]);
  return workers;
}

it('A CLIENT KILL storm has every operation run once, and every client get a response [P01]', async () => {
  const workers = await weather(() =>
    used.scene.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
  );
  for (const { proxy } of workers) expect(proxy.connections).toBeGreaterThan(1);
});

it('SCRIPT FLUSH every 10 ms has every operation run once, and no client notice [P01]', async () => {
  const workers = await weather(() => used.scene.admin.script('FLUSH'));
  expect(await used.scene.admin.info('errorstats')).toContain('NOSCRIPT');
  for (const { reported } of workers) expect(reported).not.toContain('store_unavailable');
});

it('Replies that are lost at random have every operation run once [P01]', async () => {
  const { scene } = used;
  const workers = [await scene.worker(), await scene.worker()];
  for (const [seed, { proxy }] of workers.entries()) {
    const random = new Random(seed);
    proxy.loseReplies(() => random.chance(0.1));
  }
  const requests = await load(workers, KEYS / 2, LONG_TIMEOUTS);
  for (const { proxy } of workers) expect(proxy.lostReplies).toBeGreaterThan(0);
  for (const request of requests) {
    expect(scene.ledger.effectsOn(request)).toMatchObject([{ attempt: 1, isTakeover: false }]);
  }
  expect(scene.objections()).toEqual([]);
});
