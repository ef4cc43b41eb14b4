import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startRedis } from '../../../test/support/redis/redis-server.js';
import { entryOf, type ContenderId } from '../http/contenders.js';
import { entryUrl } from '../library/built-entry.js';
import { interleave, type Sample } from '../measuring/interleave.js';
import { withResources } from '../measuring/resources.js';
import { frameworkVersions, peerVersions } from '../measuring/versions.js';
import { roundsOf, type Part, type PartContext } from './part.js';

const run = promisify(execFile);

const ROUNDS = {
  quick: { rounds: 3, roundMs: 0, warmUpMs: 0 },
  default: { rounds: 9, roundMs: 0, warmUpMs: 0 },
} as const;
const CONTENDERS: readonly ContenderId[] = ['bare', 'redis', 'node-idempotency'];
const APP = fileURLToPath(new URL('../startup/app.mjs', import.meta.url));

/** How long it takes to load and to start an application of one route, in a new process each time. */
export const startupPart: Part = {
  name: 'startup',
  needsPeers: true,
  run: (context) => measureStartup(context),
};

function measureStartup(context: PartContext) {
  const { library, onProgress } = context;
  return withResources(async (resources) => {
    const redis = await startRedis();
    resources.defer(() => redis.stop());
    const [root, store] = [entryUrl(library, '.'), entryUrl(library, './redis')];
    const entrants = CONTENDERS.map((contender) => ({
      name: entryOf(contender).name,
      run: () => startOnce({ contender, root, store, redisUrl: redis.url }),
    }));
    const rounds = roundsOf(context, ROUNDS);
    const measurements = await interleave([{ factors: {}, entrants }], rounds, (round) =>
      onProgress(`round ${round} of ${rounds.rounds}`),
    );
    const versions = { ...frameworkVersions(), ...peerVersions(CONTENDERS) };
    return { measurements, rounds, versions };
  });
}

async function startOnce(setup: object): Promise<Sample> {
  const env = { ...process.env, NODE_OPTIONS: '', BENCH_STARTUP: JSON.stringify(setup) };
  const { stdout } = await run(process.execPath, [APP], { env });
  return JSON.parse(stdout) as Sample;
}
