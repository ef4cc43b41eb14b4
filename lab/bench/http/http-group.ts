import { randomUUID } from 'node:crypto';
import type { Child } from '../../../test/support/processes/child.js';
import type { Entrant, Group, Sample } from '../measuring/interleave.js';
import type { RedisCpu } from '../measuring/redis-cpu.js';
import type { LoadResult, TimedOrder } from './load.js';
import { OTHER_PAYMENT, PAYMENT } from './requests.js';
import type { RunningServer } from './running-server.js';
import { runWrk, type WrkResult } from './wrk.js';

export type Scenario = 'first' | 'replay' | 'conflict' | 'mismatch';

export interface HttpConditions {
  readonly platform: string;
  readonly scenario: Scenario;
  readonly connections: number;
}

/** What the turns of all servers share. */
export interface LoadSource {
  /** The process that sends the requests, and looks at every answer. */
  readonly generator: Child;
  /** Whether wrk, which takes less of the machine, sends those that count. */
  readonly hasWrk: boolean;
  readonly redis: RedisCpu;
}

export function httpGroup(
  servers: readonly RunningServer[],
  conditions: HttpConditions,
  source: LoadSource,
  { body = PAYMENT, every }: HttpGroupOptions = {},
): Group {
  const checked = { ...source, hasWrk: false };
  return {
    factors: { ...conditions },
    entrants: servers.map((server): Entrant => ({
      name: server.name,
      run: (ms) => round(server, conditions, source, body, ms),
      settle: (ms) => round(server, conditions, checked, body, ms),
      every: every?.(server) ?? 1,
    })),
  };
}

interface HttpGroupOptions {
  readonly body?: string;
  /** See {@link Entrant.every}. */
  readonly every?: (server: RunningServer) => number;
}

async function round(
  server: RunningServer,
  { scenario, connections }: HttpConditions,
  source: LoadSource,
  body: string,
  ms: number,
): Promise<Sample> {
  await source.redis.flush();
  await server.renew();
  const order = { url: `${server.url}/payments`, connections, ms, body };
  const { replays, conflict = 0, mismatch = 0 } = server.entry;
  if (scenario === 'first') return measure(server, source, order, 201, true);
  const key = randomUUID();
  if (scenario === 'conflict') {
    const held = await server.hold(key, body);
    const heldOrder = { ...order, url: `${server.url}/held`, key };
    const sample = await measure(server, source, heldOrder, conflict, false);
    await server.release();
    expectStatus(server, await held.response, 201);
    return sample;
  }
  const first = await server.post('/payments', key, body);
  expectStatus(server, first, 201);
  if (scenario === 'mismatch') {
    return measure(server, source, { ...order, key, body: OTHER_PAYMENT }, mismatch, false);
  }
  const expected = await first.text();
  await untilStored(server, key, body);
  return measure(server, source, { ...order, key, expected }, 201, !replays);
}

/** Some store the outcome after they have answered. */
export async function untilStored(server: RunningServer, key: string, body: string): Promise<void> {
  const { replays, conflict } = server.entry;
  if (!replays) return;
  let status = conflict;
  while (status === conflict) ({ status } = await server.post('/payments', key, body));
}

/** Sends the load, and objects to answers and effects that are not what this is a measurement of. */
async function measure(
  server: RunningServer,
  { generator, redis, hasWrk }: LoadSource,
  order: TimedOrder,
  status: number,
  runsHandler: boolean,
): Promise<Sample> {
  const [before, redisBefore] = [await server.state(), await redis.microseconds()];
  const result = hasWrk ? await runWrk(order) : await generator.call<LoadResult>('load', order);
  const [after, redisAfter] = [await server.state(), await redis.microseconds()];
  if (hasWrk) await redis.untilQuiet();
  const effects = after.effects - before.effects;
  const { count, seconds, cpuUs, p50Ms, p99Ms, p999Ms } = result;
  const isRight = 'statuses' in result ? isAsExpected(result, status) : isAsGood(result, status);
  // wrk leaves what is under way at the end.
  const underWay = 'statuses' in result ? 0 : order.connections;
  const isDone = runsHandler ? effects >= count && effects <= count + underWay : effects === 0;
  if (!isRight || !isDone) {
    const found = JSON.stringify({ effects, ...result });
    throw new Error(`${server.name} did not answer ${status} to all: ${found}`);
  }
  return {
    perSecond: count / seconds,
    cpuUs: (after.cpuUs - before.cpuUs) / count,
    redisUs: (redisAfter - redisBefore) / count,
    loadUs: cpuUs / count,
    p50Ms,
    p99Ms,
    p999Ms,
  };
}

function isAsExpected(result: LoadResult, status: number): boolean {
  const { count, statuses, errors, mismatches } = result;
  return statuses[status] === count && errors === 0 && mismatches === 0;
}

/** As far as wrk sees it. */
function isAsGood({ count, failures, errors }: WrkResult, status: number): boolean {
  return count > 0 && errors === 0 && failures === (status < 400 ? 0 : count);
}

function expectStatus({ name }: RunningServer, { status }: Response, expected: number): void {
  if (status !== expected) throw new Error(`${name} answered ${status} instead of ${expected}`);
}
