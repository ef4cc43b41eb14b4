import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { keepReport, type Row } from '../../test/support/docs/figures/report.js';
import { startRedis } from '../../test/support/redis/redis-server.js';
import { versionOf } from '../bench/http/load-package.js';
import { ensureInstalled, PEERS } from '../bench/install.js';
import { fromCommandLine, valuesOf } from '../command-line.js';
import { contenders, LOCK_MS, type ContenderName } from './contenders.js';
import { Scene } from './scene.js';

/**
 * What a client's retries come to once the handler has had its effect, with each package: a process that dies, a
 * timeout around a handler that goes on, and a store that is away for longer than a lock.
 */
const USAGE = 'npm run lab -- after-effect [--report NAME]';

/** Clients of Redis have connected again by then. */
const RECONNECTED_MS = 5_000;
/** A lock is over by then. */
const AFTER_LOCK_MS = LOCK_MS + 2_000;

const { report } = fromCommandLine(USAGE, valuesOf({}));
await ensureInstalled(PEERS);
const redis = await startRedis();
const observer = new Redis(redis.url);
const [, version = ''] = /redis_version:(\S+)/.exec(await observer.info('server')) ?? [];
observer.disconnect();
await redis.stop();
const rows: Row[] = [];
const versions: Record<string, string> = { Redis: version };
for (const name of Object.keys(contenders) as ContenderName[]) {
  const seen = await Promise.all([crash(name), timedOut(name), outage(name)]);
  const [crashed, late, away] = seen;
  rows.push({
    package: name,
    'its process dies after the effect': crashed,
    'a timeout answers, the handler goes on': late,
    'the store is away for longer than a lock': away,
  });
  for (const each of contenders[name].packages) versions[each] = versionOf(each);
  console.error(name, seen);
}
console.table(rows);
keepReport(report, 'after-effect', [], versions, rows);

/** The process is killed after the effect. The client asks another one at once, and when a lock is over. */
async function crash(name: ContenderName): Promise<string> {
  const scene = await Scene.set(name);
  const first = scene.post({ beforeMs: 0 });
  await scene.untilCharged();
  await scene.kill();
  await first;
  await scene.post({ beforeMs: 0, afterMs: 0 });
  await delay(AFTER_LOCK_MS);
  await scene.post({ beforeMs: 0, afterMs: 0 });
  return scene.end();
}

/** A timeout answers while the handler goes on, which charges later. The client retries at once, and after its end. */
async function timedOut(name: ContenderName): Promise<string> {
  const scene = await Scene.set(name, true);
  await scene.post({ beforeMs: 5_000, afterMs: 0 });
  await scene.post({ beforeMs: 5_000, afterMs: 0 });
  await delay(AFTER_LOCK_MS);
  await scene.post({ beforeMs: 0, afterMs: 0 });
  return scene.end();
}

/** The store is away from before the handler's end. The client retries meanwhile, and when the store is back. */
async function outage(name: ContenderName): Promise<string> {
  const scene = await Scene.set(name);
  const first = scene.post({ beforeMs: 0, afterMs: 500 });
  await scene.untilCharged();
  scene.proxy.hangUp();
  await Promise.race([first, delay(2_000)]);
  const during = scene.post({ beforeMs: 0, afterMs: 0 });
  await Promise.all([first, during, delay(AFTER_LOCK_MS)]);
  scene.proxy.heal();
  await delay(RECONNECTED_MS);
  await scene.post({ beforeMs: 0, afterMs: 0 });
  return scene.end();
}
