import { randomBytes } from 'node:crypto';
import { KeepAliveConnection } from '../../../test/support/http/wire/raw-client.js';
import { Child } from '../../../test/support/processes/child.js';
import { until } from '../../../test/support/waiting/until.js';
import { PAYMENT } from '../http/requests.js';
import { median } from '../measuring/statistics.js';
import type { CountedSetup } from './app.js';

/** Until V8 has compiled what it will: optimized code allocates less. */
const WARM_UP = 4_000;
const REQUESTS = 2_000;
const COUNTED_PROMISES = 50;
const HELD = 400;
const KIB = 1_024;

const BODY = Buffer.from(PAYMENT);
let keys = 0;
const run = randomBytes(6).toString('hex');
const newKey = () => `${run}-${(keys += 1).toString(36).padStart(12, '0')}`;

/** An application in a process of its own, and one connection to it. */
export class CountedApp {
  private constructor(
    private readonly child: Child,
    private readonly port: number,
    private readonly connection: KeepAliveConnection,
  ) {}

  static async start(setup: CountedSetup): Promise<CountedApp> {
    const child = await Child.start(new URL('app.ts', import.meta.url), {
      env: { COUNTED_SETUP: JSON.stringify(setup) },
      nodeOptions: ['--expose-gc'],
    });
    const port = await child.call<number>('port');
    return new CountedApp(child, port, new KeepAliveConnection(port));
  }

  /** What one request of each kind allocates, in KiB, and the promises that it creates. */
  async count(path: string, kind: 'first' | 'replay') {
    const known = newKey();
    const keyOf = kind === 'first' ? newKey : () => known;
    const send = async (count: number) => {
      for (let i = 0; i < count; i += 1) await post(this.connection, path, keyOf());
    };
    await send(WARM_UP);
    await this.child.call('startAllocations');
    await send(REQUESTS);
    const bytes = await this.child.call<number>('stopAllocations');
    await this.child.call('startPromises');
    await send(COUNTED_PROMISES + 1);
    const promises = await this.child.call<number[]>('stopPromises');
    return { kib: bytes / REQUESTS / KIB, promises: median(promises) };
  }

  /** What one request keeps of the heap while its handler runs, in KiB. */
  async inFlight(path: string): Promise<number> {
    const rounds: number[] = [];
    // The first one compiles, and fills pools.
    for (let round = 0; round < 3; round += 1) rounds.push(await this.heldBytes(path));
    return Math.min(...rounds) / HELD / KIB;
  }

  private async heldBytes(path: string): Promise<number> {
    const connections = Array.from({ length: HELD }, () => new KeepAliveConnection(this.port));
    for (const connection of connections) await post(connection, '/bare', newKey());
    const [before, begun] = [await this.heap(), await this.effects()];
    const responses = connections.map((connection) => post(connection, path, newKey()));
    await until(async () => (await this.effects()) === begun + HELD);
    const bytes = (await this.heap()) - before;
    await this.child.call('release');
    await Promise.all(responses);
    for (const connection of connections) connection.close();
    return bytes;
  }

  private heap(): Promise<number> {
    return this.child.call('heap');
  }

  private effects(): Promise<number> {
    return this.child.call('effects');
  }

  async stop(): Promise<void> {
    this.connection.close();
    await this.child.stop();
  }
}

async function post(connection: KeepAliveConnection, path: string, key: string): Promise<void> {
  const lines = [
    ['Idempotency-Key', key],
    ['Content-Type', 'application/json'],
  ] as const;
  const { status, text } = await connection.exchange({ method: 'POST', path, lines, body: BODY });
  if (status !== 201) throw new Error(`${path} answered ${status}: ${text}`);
}
