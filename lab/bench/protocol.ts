/**
 * What the processes of the benchmark say to each other. `lab -- bench check` drives the workers of other commits by it,
 * so it has to stay as it is: add to it, and change nothing.
 *
 * - A worker is `store/worker.ts` or `http/server.ts` below the folder of the benchmark, run by
 *   `test/support/typescript/register.mjs` of its own commit.
 * - It answers `{ id, method, argument }` with `{ id, value }` or `{ id, error }`, and ends when its channel does.
 *   `ready` is a method of all of them, besides those that are named below.
 * - The server has `POST /payments` and `POST /held`, which take the body of `http/requests.ts` and an
 *   `Idempotency-Key`; `/held` answers after `release`.
 */
import type { Surroundings } from './http/contender.js';
import type { ContenderId } from './http/contenders.js';
import type { ClientName } from './store/clients.js';
import type { Via } from './store/tasks.js';

/** `BENCH_ENTRANT`, in the environment of `store/worker.ts`. */
export type StoreEntrant =
  | {
      readonly kind: 'store';
      /** Folder of the built library. */
      readonly library: string;
      /** @defaultValue ioredis */
      readonly client?: ClientName;
    }
  | { readonly kind: 'raw' }
  | { readonly kind: 'scripts' }
  | { readonly kind: 'by-hand'; readonly client: ClientName };

/** The name of a round between processes: `bench check` drives the workers of older commits, which know only this one. */
export const ROUND = 'turn';

/** What a round takes; its value has `count`, `perSecond` and `cpuUs`. */
export interface StoreRound {
  readonly task: 'pair' | 'replay';
  readonly via: Via;
  readonly bytes: number;
  readonly inFlight: number;
  readonly ms: number;
  /** Ends it earlier, where records would fill the memory. */
  readonly atMost?: number;
}

/** `BENCH_SERVER`, in the environment of `http/server.ts`, whose methods are `url`, `state`, `release` and `renew`. */
export interface ServerSetup extends Surroundings {
  readonly contender: ContenderId;
}

/** What a server has paid and done since it was started. */
export interface ServerState {
  readonly cpuUs: number;
  readonly effects: number;
}
