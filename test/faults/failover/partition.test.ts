import { describe, expect, it } from '@jest/globals';
import { success } from '../../support/engine/worker.js';
import { labRequest } from '../store/support/requests.js';
import { LONG_TIMEOUTS } from './support/long-timeouts.js';
import { usePartition } from './support/use-partition.js';

const used = usePartition();

// The other cases: partition.all.test.ts.
describe('A partitioned old primary that accepts writes alone', () => {
  it('gives one key to two owners; the one in flight is notified at the reunion [P56]', async () => {
    const { scene, alice } = used;
    const [taken, untaken] = [labRequest(LONG_TIMEOUTS), labRequest(LONG_TIMEOUTS)];
    const partition = await used.part();
    const bob = await used.newcomer();
    const [running, alone] = [await alice.run(taken), await alice.run(untaken)];
    const response = await bob.request(taken);
    expect(response).toMatchObject({ kind: 'success', replayed: false });
    await partition.heal();

    const settlement = await running.complete(success(alice.effect(taken, running)));
    expect(settlement).toMatchObject({ kind: 'other', state: 'completed' });
    expect(alice.reported).toContain('superseded');
    expect(await alice.request(taken)).toEqual({ ...response, replayed: true });

    const execution = alice.effect(untaken, alone);
    expect(await alone.complete(success(execution))).toEqual({ kind: 'own' });
    expect(alice.reported).toContain('record_lost');
    expect(await bob.request(untaken)).toEqual({ kind: 'success', execution, replayed: true });
    expect(scene.objections()).toEqual([]);
  });
});
