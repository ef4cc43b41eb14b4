import { expect, it } from '@jest/globals';
import { startRedis } from '../support/redis/redis-server.js';
import { describeWithClock } from '../support/clocks/server-clock.js';
import { useServer } from '../support/servers/use-server.js';
import { MUTANTS } from './mutants.js';
import { DrivenTime } from '../support/clocks/driven-time.js';
import { Scene } from './store/support/scene.js';

const time = useServer(
  () => new DrivenTime(),
  (it) => it.remove(),
);
const redis = useServer(() => startRedis({ env: time.env }));

// test/faults/store checks that the scenarios have no objection to the scripts as they are.
describeWithClock('A scenario objects to [P08]', () => {
  it.each(MUTANTS)('$mistake', async ({ scenario, objection, scripts }) => {
    time.start();
    const scene = new Scene(redis.port, { time, scripts: scripts() });
    try {
      expect(await scenario(scene)).toContainEqual(expect.stringContaining(objection));
    } finally {
      await scene.admin.config('SET', 'maxmemory', '0');
      await scene.stop();
      time.stop();
    }
  });
});
