import { expect, it } from '@jest/globals';
import { describeWithClock } from '../../support/clocks/server-clock.js';
import { lateAfterTimeout, lateBegin, lateHeartbeat } from './scenarios.js';
import { labRequest } from './support/requests.js';
import { useScene } from './support/use-scene.js';

const succeed = () => undefined;
const fail = () => Promise.reject(new Error('declined'));

const used = useScene();

describeWithClock('A copy that reaches the server late', () => {
  it('of a begin whose caller has given up acquires nothing: late [P46]', async () => {
    expect(await lateAfterTimeout(used.scene)).toEqual([]);
  });

  it('of a begin whose attempt was released acquires nothing: stale_begin [P46]', async () => {
    expect(await lateBegin(used.scene)).toEqual([]);
  });

  it('of a heartbeat does not change the retention of a completed record: not_in_progress [P08]', async () => {
    expect(await lateHeartbeat(used.scene)).toEqual([]);
  });

  it.each([
    ['begin', 'completed'],
    ['complete', 'already'],
  ] as const)(
    'of a %s changes nothing once the outcome is stored: %s [P08]',
    async (step, reply) => {
      const { scene } = used;
      const worker = await scene.worker();
      const request = labRequest();
      const captured = worker.proxy.capture(step, 'break');
      await worker.request(request);
      const key = scene.redisKey(request);
      const before = [await scene.admin.get(key), await scene.admin.pexpiretime(key)];

      const [kind] = await (await captured).deliver();

      expect(kind).toBe(reply);
      expect([await scene.admin.get(key), await scene.admin.pexpiretime(key)]).toEqual(before);
      expect(await worker.request(request)).toMatchObject({ kind: 'success', replayed: true });
      expect(scene.objections()).toEqual([]);
    },
  );

  it.each([
    ['complete', 'superseded', succeed],
    ['release', 'lost', fail],
  ] as const)(
    "of a %s changes nothing once a successor's outcome is stored: %s [P09]",
    async (step, reply, prepare) => {
      const { scene } = used;
      const owner = await scene.worker({ connection: { socketTimeout: 300 } });
      const successor = await scene.worker();
      const request = labRequest({ storeErrors: { saveTimeoutMs: 60_000 } });
      const captured = owner.proxy.capture(step, 'silence');
      const late = owner.request(request, prepare);
      const command = await captured;
      owner.proxy.swallowEverything();
      await scene.pass(request.options.lease.durationMs);
      const taken = await successor.request(request);
      const record = await scene.admin.get(scene.redisKey(request));

      const [kind] = await command.deliver();

      expect(kind).toBe(reply);
      expect(await scene.admin.get(scene.redisKey(request))).toBe(record);
      owner.proxy.heal();
      const reported = step === 'complete' ? { ...taken, replayed: true } : { kind: 'failure' };
      expect(await late).toEqual(reported);
      expect(scene.objections()).toEqual([]);
    },
  );
});
