import { execFileSync } from 'node:child_process';
import { NODES, nodeOf } from '../node.js';
import type { ContenderId } from '../http/contenders.js';
import { measureHttp } from './http.js';
import { roundsOf, type Findings, type Part, type PartContext } from './part.js';
import { conditions, measureStore } from './store.js';

const CONTENDERS: readonly ContenderId[] = ['bare', 'redis', 'node-idempotency'];

const ROUNDS = {
  quick: { rounds: 3, roundMs: 250, warmUpMs: 500, settleMs: 150 },
  default: { rounds: 6, roundMs: 500, warmUpMs: 2_000, settleMs: 150 },
} as const;

/** The same on several versions of Node. */
export const nodesPart: Part = {
  name: 'nodes',
  needsPeers: true,
  run: (context) => measureNodes(context),
};

async function measureNodes(context: PartContext): Promise<Findings> {
  const { library } = context;
  const rounds = roundsOf(context, ROUNDS);
  const nodes: { name: string; execPath: string }[] = [];
  for (const major of NODES) {
    const execPath = await nodeOf(major);
    const version = execFileSync(execPath, ['-p', 'process.versions.node'], { encoding: 'utf8' });
    nodes.push({ name: `Node ${version.trim()}`, execPath });
  }
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
