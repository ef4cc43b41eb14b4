import { beforeEach, describe, expect, it } from '@jest/globals';
import { withOptions } from '../../support/engine/worker.js';
import { until } from '../../support/waiting/until.js';
import { labRequest } from '../store/support/requests.js';
import { WORKER } from './support/partition.js';
import { LONG_TIMEOUTS } from './support/long-timeouts.js';
import { usePartition } from './support/use-partition.js';

/** Without the Sentinels, ioredis would retry them every minute. */
const LISTENING = { failoverDetector: true, sentinelReconnectStrategy: () => null };

const used = usePartition();

describe('A partitioned old primary that accepts writes alone', () => {
  it('loses at the reunion what it confirmed meanwhile: the loss is undetectable [P56]', async () => {
    const { scene, alice } = used;
    const request = labRequest(LONG_TIMEOUTS);
    const partition = await used.part();
    await alice.request(request);
    await partition.heal();
    const bob = await used.newcomer();
    expect(await bob.request(request)).toMatchObject({ kind: 'success', replayed: false });
    expect(alice.reported).toEqual(['acquired', 'completed']);
    expect(scene.objections()).toEqual([
      expect.stringContaining('1 × executed again after a success'),
      expect.stringContaining('1 × different successes for one key'),
    ]);
  });
});

describe('A partitioned old primary whose worker still receives the Sentinels’ messages', () => {
  it('is abandoned by its worker, if the connection subscribes to them [P61]', async () => {
    const { group, scene } = used;
    const request = labRequest(LONG_TIMEOUTS);
    const listening = await scene.sentinelWorker(group, { ...WORKER, ...LISTENING });
    await listening.request(labRequest(LONG_TIMEOUTS));
    const partition = await used.part();
    const bob = await used.newcomer();
    const response = await bob.request(request);
    await until(async () => {
      const own = labRequest(LONG_TIMEOUTS);
      await listening.request(own);
      return (await bob.begin(own)).kind === 'replay';
    });
    expect(await listening.request(request)).toEqual({ ...response, replayed: true });
    await partition.heal();
  });
});

describe('A partitioned old primary with min-replicas-to-write 1', () => {
  beforeEach(async () => {
    const { group } = used;
    for (const node of group.nodes) {
      await node.call('CONFIG', 'SET', 'min-replicas-max-lag', 1, 'min-replicas-to-write', 1);
    }
  });

  it('rejects writes (NOREPLICAS): 503, while the other side continues with the key [P56]', async () => {
    const { scene, alice } = used;
    const request = labRequest(LONG_TIMEOUTS);
    const partition = await used.part();
    const withShortTimeout = withOptions(request, { storeErrors: { commandTimeout: 200 } });
    expect(await alice.request(withShortTimeout)).toEqual({
      kind: 'rejected',
      reason: 'store_unavailable',
    });
    const [{ error } = {}] = alice.eventsOf('store_unavailable');
    expect(error?.message).toContain('NOREPLICAS');
    const bob = await used.newcomer();
    const response = await bob.request(request);
    await partition.heal();
    expect(await alice.request(request)).toEqual({ ...response, replayed: true });
    expect(scene.ledger.effectsOn(request)).toHaveLength(1);
    expect(scene.objections()).toEqual([]);
  });
});
