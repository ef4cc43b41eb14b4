import { Controller, Post } from '@nestjs/common';
import { IdempotencyEvents, Idempotent } from 'nestjs-idempotency';
import { redisStore } from 'nestjs-idempotency/redis';
import { PROTOCOL_DEFAULTS } from '../../../test/support/internals/core/operation.js';
import type { Platform } from '../../../test/support/http/combinations.js';
import { startApp, type TestApp } from '../../../test/support/http/start-app.js';
import { expectResponses, figuresOf, type Figures } from './figures.js';
import { HttpClient } from './http-client.js';
import type { Outage } from './outages.js';

const { commandTimeoutMs } = PROTOCOL_DEFAULTS.storeErrors;

/** What an answer may take on top of the time that the store has. */
const OVERHEAD_MS = 100;
/** What an answer may take that does not ask the store. */
const OPEN_CIRCUIT_MS = 5;

const WARM_UP = 200;
const AT_ONCE = 25;
const RECOVERIES = 5;
const GIVE_UP_MS = 60_000;

@Controller()
class MeasuredController {
  @Post('fail-closed')
  @Idempotent()
  failClosed() {
    return { done: true };
  }

  /** What the machine itself takes at this moment. */
  @Post('bare')
  bare() {
    return { done: true };
  }

  @Post('fail-open')
  @Idempotent({ storeErrors: { whenUnavailable: 'execute' } })
  failOpen() {
    return { done: true };
  }
}

export interface Measurement {
  readonly platform: Platform;
  readonly outage: string;
  readonly breaker: 'off' | 'open';
  readonly what: string;
  readonly figures: Figures;
  /** The limit of the 99th percentile in milliseconds; absent if it is only reported. */
  readonly budgetMs?: number;
}

/** One application, one kind of outage: how long answers take during it, and until all is well after it. */
export async function measureOutage(
  platform: Platform,
  outage: Outage,
  breaker: boolean,
  requests: number,
): Promise<Measurement[]> {
  const app = await startApp({
    platform,
    store: redisStore({ url: outage.url, onConnectionError: () => undefined }),
    controllers: [MeasuredController],
    guard: { canActivate: () => true },
    options: { breaker, caller: { scope: () => 'measurer' }, limits: { shutdownTimeoutMs: 1_000 } },
  });
  const client = new HttpClient(app.port);
  const row = (what: string, durations: readonly number[], budgetMs?: number): Measurement => ({
    platform,
    outage: outage.name,
    breaker: breaker ? 'open' : 'off',
    what,
    figures: figuresOf(durations),
    ...(budgetMs === undefined ? {} : { budgetMs }),
  });
  const during = async (path: string, policy: 'reject' | 'execute') => {
    const responses = await client.postMany(path, requests, breaker ? 1 : AT_ONCE);
    expectResponses(responses, policy);
    const budgetMs = breaker ? OPEN_CIRCUIT_MS : commandTimeoutMs + OVERHEAD_MS;
    return row(
      policy === 'reject' ? 'fail closed: 503' : 'fail open: 201',
      durationsOf(responses),
      budgetMs,
    );
  };
  try {
    await untilHealthy(client);
    await client.postMany('/fail-closed', WARM_UP, AT_ONCE);
    const circuit = new CircuitState(app);
    await outage.begin();
    const rows: Measurement[] = [];
    const bare = await client.postMany('/bare', requests, 1);
    rows.push(row('no library: 201', durationsOf(bare)));
    if (breaker) rows.push(row('until the circuit opens', [await untilOpen(client, circuit)]));
    rows.push(await during('/fail-closed', 'reject'));
    rows.push(await during('/fail-open', 'execute'));
    const recoveries: number[] = [];
    while (recoveries.length < RECOVERIES) {
      await outage.end();
      recoveries.push(await untilHealthy(client));
      await outage.begin();
      if (breaker) await untilOpen(client, circuit);
      else expectResponses([await client.post('/fail-closed')], 'reject');
    }
    rows.push(row('until healthy again', recoveries));
    await outage.end();
    await untilHealthy(client);
    return rows;
  } finally {
    client.close();
    await app.close();
  }
}

class CircuitState {
  isOpen = false;

  constructor({ nest }: TestApp) {
    nest.get(IdempotencyEvents).subscribe(({ type }) => {
      if (type === 'breaker_opened') this.isOpen = true;
      if (type === 'breaker_closed') this.isOpen = false;
    });
  }
}

/** @returns how long it took, in milliseconds, with as many requests at once as can be under way. */
async function untilOpen(client: HttpClient, circuit: CircuitState): Promise<number> {
  return untilSo(async () => {
    await client.postMany('/fail-closed', AT_ONCE, AT_ONCE);
    return circuit.isOpen;
  });
}

/** @returns how long it took, in milliseconds. */
async function untilHealthy(client: HttpClient): Promise<number> {
  return untilSo(async () => (await client.post('/fail-closed')).status === 201);
}

async function untilSo(condition: () => Promise<boolean>): Promise<number> {
  const startedAt = performance.now();
  while (!(await condition())) {
    if (performance.now() - startedAt > GIVE_UP_MS)
      throw new Error('it took a minute, and is not so');
  }
  return performance.now() - startedAt;
}

function durationsOf(responses: readonly { readonly tookMs: number }[]): number[] {
  return responses.map(({ tookMs }) => tookMs);
}
