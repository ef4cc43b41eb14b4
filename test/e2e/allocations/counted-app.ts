import { Child } from '../../support/processes/child.js';
import { KeepAliveConnection } from '../../support/http/wire/raw-client.js';
import type { Allocations } from './allocations.js';
import type { CountedSetup } from './setup.js';

const WARM_UP = 200;
/** This many consecutive requests must have equal counts. */
const REQUESTS = 1_000;

export interface Exchange {
  readonly path: string;
  /** Called for each request. */
  readonly key: () => string;
  readonly replayed: boolean;
}

/** An application in its own process, where nothing else allocates. */
export class CountedApp {
  private constructor(
    private readonly child: Child,
    private readonly connection: KeepAliveConnection,
  ) {}

  static async start(setup: CountedSetup): Promise<CountedApp> {
    const child = await Child.start(new URL('app.ts', import.meta.url), {
      env: { COUNTED_SETUP: JSON.stringify(setup) },
    });
    return new CountedApp(child, new KeepAliveConnection(await child.call('port')));
  }

  /** What each of a thousand consecutive requests creates. */
  async count(exchange: Exchange): Promise<Allocations[]> {
    for (let sent = 0; sent < WARM_UP; sent += 1) await this.send(exchange);
    await this.child.call('takeArrivals');
    // The count of a request is known when the next one arrives.
    for (let sent = 0; sent <= REQUESTS; sent += 1) await this.send(exchange);
    const arrivals = await this.child.call<Allocations[]>('takeArrivals');
    return arrivals.slice(1).map((after, request) => minus(after, arrivals[request]!));
  }

  /** @throws Error on any other response. */
  async send({ path, key, replayed }: Exchange): Promise<void> {
    const lines = [
      ['Idempotency-Key', key()],
      ['Content-Type', 'application/json'],
    ] as const;
    const body = Buffer.from('{"amount":1990}');
    const response = await this.connection.exchange({ method: 'POST', path, lines, body });
    if (response.status !== 201 || response.replayed !== replayed) {
      throw new Error(`${path} responded with ${response.status}: ${response.text}`);
    }
  }

  async stop(): Promise<void> {
    this.connection.close();
    await this.child.stop();
  }
}

export function minus(all: Allocations, other: Allocations): Allocations {
  return { promises: all.promises - other.promises, timers: all.timers - other.timers };
}
