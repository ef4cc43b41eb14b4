import { conditions, measureStore, type StoreConditions } from './store.js';
import { roundsOf, type Part } from './part.js';

const ROUNDS = {
  quick: { rounds: 4, roundMs: 300, warmUpMs: 600 },
  default: { rounds: 20, roundMs: 500, warmUpMs: 1_500 },
} as const;

/** Verdicts of the budget rest on these. */
const JUDGED = conditions('pair', 'TCP', 'on', 200, [32]);

const OTHERS: readonly StoreConditions[] = [
  ...conditions('pair', 'TCP', 'on', 200, [1]),
  ...conditions('replay', 'TCP', 'on', 200, [32]),
];

/** The store by the clients besides ioredis, each beside the same client with the same scripts and nothing around them. */
export const clientsPart: Part = {
  name: 'clients',
  needsPeers: false,
  isJudged: true,
  run: (context) => {
    const { library, isJudgedOnly } = context;
    const entrants = {
      'by node-redis': { kind: 'store', library, client: 'node-redis' },
      'node-redis by hand': { kind: 'by-hand', client: 'node-redis' },
      'by GLIDE': { kind: 'store', library, client: 'valkey-glide' },
      'GLIDE by hand': { kind: 'by-hand', client: 'valkey-glide' },
    } as const;
    const measured = isJudgedOnly ? JUDGED : [...JUDGED, ...OTHERS];
    return measureStore(context, roundsOf(context, ROUNDS), measured, entrants);
  },
};
