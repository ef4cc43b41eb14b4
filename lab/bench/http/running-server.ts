import type { Profiler } from 'node:inspector';
import type { Child } from '../../../test/support/processes/child.js';
import { startWorker, type WorkerOptions } from '../measuring/worker.js';
import type { ServerSetup, ServerState } from '../protocol.js';
import { entryOf, type ContenderId, type Entry } from './contenders.js';

export interface ServerOptions extends WorkerOptions {
  /** How the entrant is called in the results, where not like its contender. */
  readonly name?: string;
}

/** A contender's application, in a process of its own. */
export class RunningServer {
  private constructor(
    readonly name: string,
    readonly contender: ContenderId,
    readonly entry: Entry,
    readonly url: string,
    private readonly child: Child,
  ) {}

  static async start(setup: ServerSetup, options: ServerOptions = {}): Promise<RunningServer> {
    const { contender } = setup;
    const entry = entryOf(contender);
    const env = { BENCH_SERVER: JSON.stringify(setup) };
    const child = await startWorker('http/server.ts', env, options);
    const url = await child.call<string>('url');
    return new RunningServer(options.name ?? entry.name, contender, entry, url, child);
  }

  state(): Promise<ServerState> {
    return this.child.call('state');
  }

  /** Forgets the records that are not in Redis: a store that is empty starts each slot. */
  renew(): Promise<void> {
    return this.child.call('renew');
  }

  /** Lets the handlers of `/held` answer. */
  release(): Promise<void> {
    return this.child.call('release');
  }

  post(path: string, key: string, body: string): Promise<Response> {
    return fetch(this.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body,
    });
  }

  /** Sends the first request of a key, and resolves when its handler has it; `answer` comes after {@link release}. */
  async hold(key: string, body: string): Promise<{ readonly response: Promise<Response> }> {
    const { effects } = await this.state();
    const response = this.post('/held', key, body);
    while ((await this.state()).effects === effects) await new Promise(setImmediate);
    return { response };
  }

  /** The bytes of V8's heap that its process allocates during the work; undefined where a commit cannot count them. */
  async allocatedDuring(work: () => Promise<unknown>): Promise<number | undefined> {
    await this.child.call('startAllocations');
    await work();
    return this.child.call('stopAllocations');
  }

  startProfile(): Promise<void> {
    return this.child.call('startProfile');
  }

  stopProfile(): Promise<Profiler.Profile> {
    return this.child.call('stopProfile');
  }

  stop(): Promise<void> {
    return this.child.stop();
  }
}
