import { readFileSync } from 'node:fs';
import { Idempotent, IdempotencyModule, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import type { OpenContender } from '../bench/http/contender.js';
import { nodeIdempotency } from '../bench/http/contenders/node-idempotency.js';
import { powertools } from '../bench/http/contenders/powertools.js';

/** The lock of Powertools is that of its contender, ten seconds, which is the default of a lease here. */
export const LOCK_MS = 10_000;

/** A charge, as the provider keeps it: a line of JSON. */
export interface Charge {
  readonly key: string;
}

export const chargesOf = (ledger: string): Charge[] =>
  readFileSync(ledger, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Charge);

type LeaseOptions = NonNullable<IdempotencyModuleOptions['lease']>;

/** The package with its defaults, but for one option. */
const ours =
  (lease?: (ledger: string) => LeaseOptions): OpenContender =>
  ({ redisUrl }) => ({
    modules: [
      IdempotencyModule.forRoot({
        service: 'lab',
        store: redisStore({ url: redisUrl }),
        caller: { scope: () => 'everyone' },
      }),
    ],
    mark: Idempotent(lease && { lease: lease(process.env.LEDGER!) }),
  });

/** Asks the provider whether there is a charge of this key. */
const asking = (ledger: string): LeaseOptions => ({
  onTakeover: ({ key }) =>
    Promise.resolve(
      chargesOf(ledger).some((charge) => charge.key === key) ? { value: { key } } : 'run',
    ),
});

/** Each with its defaults, on Express and Redis. */
export const contenders = {
  'nestjs-idempotency': { open: ours(), packages: [] },
  'nestjs-idempotency, `lease.onTakeover` asks the provider': { open: ours(asking), packages: [] },
  '@node-idempotency/nestjs': { open: nodeIdempotency, packages: ['@node-idempotency/nestjs'] },
  '@aws-lambda-powertools/idempotency': {
    open: powertools,
    packages: ['@aws-lambda-powertools/idempotency'],
  },
} as const satisfies Record<string, { open: OpenContender; packages: readonly string[] }>;

export type ContenderName = keyof typeof contenders;
