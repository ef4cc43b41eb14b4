import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ensureInstalled } from '../install.js';
import type { ContenderId } from '../http/contenders.js';
import type { Rounds } from '../measuring/interleave.js';
import { measureHttp } from './http.js';
import type { Findings, Part, PartContext, Profile } from './part.js';
import { conditions, measureStore } from './store.js';

const FOLDER = join(import.meta.dirname, '../nodes');
const NAMES = ['node20', 'node22', 'node24'];
const CONTENDERS: readonly ContenderId[] = [
  'bare',
  'empty',
  'two-commands',
  'redis',
  'node-idempotency',
];

const ROUNDS: Readonly<Record<Profile, Rounds>> = {
  quick: { rounds: 3, roundMs: 250, warmUpMs: 1_500, settleMs: 150 },
  default: { rounds: 5, roundMs: 500, warmUpMs: 2_500, settleMs: 200 },
  full: { rounds: 9, roundMs: 2_000, warmUpMs: 5_000, settleMs: 500 },
};

/** The same on several versions of Node. */
export const nodesPart: Part = {
  name: 'nodes',
  needsPeers: true,
  isOptional: true,
  run: (context) => measureNodes(context),
};

async function measureNodes(context: PartContext): Promise<Findings> {
  await ensureInstalled(FOLDER);
  const { profile, library } = context;
  const rounds = ROUNDS[profile];
  const nodes = NAMES.map((name) => {
    const execPath = join(FOLDER, 'node_modules', name, 'bin/node');
    const version = execFileSync(execPath, ['-p', 'process.versions.node'], { encoding: 'utf8' });
    return { name: `Node ${version.trim()}`, execPath };
  });
  const store = await measureStore(
    context,
    rounds,
    [
      ...conditions('pair', 'TCP', 'on', 200, [32]),
      ...conditions('replay', 'TCP', 'on', 200, [32]),
    ],
    Object.fromEntries(
      nodes.map(({ name, execPath }) => [name, { kind: 'store', library, execPath } as const]),
    ),
  );
  const http = await measureHttp(
    context,
    rounds,
    [
      { scenario: 'first', connections: 64 },
      { scenario: 'replay', connections: 64 },
    ],
    nodes.flatMap(({ name, execPath }) =>
      CONTENDERS.map((contender) => ({ contender, library, execPath, factors: { node: name } })),
    ),
  );
  return {
    measurements: [...store.measurements, ...http.measurements],
    rounds,
    versions: { ...store.versions, ...http.versions },
  };
}
