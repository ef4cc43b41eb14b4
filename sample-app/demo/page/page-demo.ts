import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { recordKey } from 'nestjs-idempotency/store';
import { demoTokens } from '../../src/auth/user.js';
import type { Environment } from '../../src/config/environment.js';
import { SERVICE } from '../../src/config/idempotency.js';
import { TcpProxy } from '../processes/tcp-proxy.js';
import { ApiWorker } from './api-worker.js';
import { Executions } from './executions.js';
import { type Fault, LoadBalancer } from './load-balancer.js';
import { totalActivity } from './total-activity.js';

const FAULTS: ReadonlySet<unknown> = new Set<Fault>(['lose the response', 'kill the process']);

/**
 * Two processes of the API behind a load balancer, which share a PostgreSQL and a ledger's file, and the faults of the page:
 * `/demo/events` shows it what the processes do, `/activity` what they have counted together, `/demo/faults` and `/demo/store` are its
 * buttons.
 */
export class PageDemo {
  readonly #server = createServer((incoming, response) => this.#handle(incoming, response));
  readonly #executions = new Executions();
  readonly #pages = new Set<() => void>();
  #storeIsBack: { readonly at: number; readonly timer: NodeJS.Timeout } | undefined;
  #store: TcpProxy | undefined;
  #workers: readonly ApiWorker[] = [];
  #balancer: LoadBalancer | undefined;

  constructor(
    private readonly environment: Environment,
    private readonly databaseUrl: string,
    private readonly ledgerFile: string,
    /** How long the store can be away: another visitor finds it. */
    private readonly storeAwayMs: number,
  ) {}

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** @throws Error if the port is in use, or the API does not start. */
  async start(): Promise<void> {
    this.#server.listen(this.environment.PORT, '127.0.0.1');
    await once(this.#server, 'listening');
    const store = await TcpProxy.open(this.databaseUrl);
    this.#store = store;
    const settings = {
      STORE: 'postgres',
      DATABASE_URL: store.url,
      LEDGER_FILE: this.ledgerFile,
      BLOBS_DIRECTORY: this.environment.BLOBS_DIRECTORY,
      LEASE: String(this.environment.LEASE),
    };
    this.#workers = ['A', 'B'].map((name) => new ApiWorker(name, settings, () => store.isOpen));
    for (const worker of this.#workers) this.#watch(worker);
    await Promise.all(this.#workers.map((worker) => worker.start()));
    this.#balancer = new LoadBalancer(this.#workers, 2 * this.environment.PROVIDER_DELAY_MS);
  }

  /** Shuts down gracefully, at any stage of the start. */
  async close(): Promise<void> {
    clearTimeout(this.#storeIsBack?.timer);
    this.#server.close();
    await Promise.all(this.#workers.map((worker) => worker.close()));
    this.#server.closeAllConnections();
    this.#store?.close();
  }

  #watch(worker: ApiWorker): void {
    worker.on('report', (report) => {
      if (report.type === 'began' || report.type === 'ended') {
        this.#executions.add(worker.name, report);
      }
      this.#show();
    });
    worker.on('ended', () => {
      this.#executions.endAllOf(worker.name);
      this.#show();
    });
  }

  #show(): void {
    for (const show of this.#pages) show();
  }

  #handle(incoming: IncomingMessage, response: ServerResponse): void {
    // Where a used connection breaks, a browser sends the request again by itself, and the page would not see the loss.
    response.shouldKeepAlive = false;
    const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://localhost');
    const route = `${incoming.method ?? ''} ${pathname}`;
    if (route === 'GET /demo/events') this.#events(searchParams.get('key') ?? '', response);
    else if (route === 'GET /activity') void this.#activity(response);
    else if (route === 'POST /demo/faults') this.#command(incoming, response, this.#planFault);
    else if (route === 'POST /demo/store') this.#command(incoming, response, this.#switchStore);
    else if (this.#balancer === undefined) response.writeHead(503, { 'retry-after': '1' }).end();
    else this.#balancer.forward(incoming, response);
  }

  /** Sends the state to a page, and again whenever it changes (server-sent events). */
  #events(key: string, response: ServerResponse): void {
    let shown = '';
    const show = () => {
      const state = JSON.stringify(this.#stateFor(key));
      if (state !== shown) response.write(`data: ${state}\n\n`);
      shown = state;
    };
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    this.#pages.add(show);
    response.on('close', () => this.#pages.delete(show));
    show();
  }

  async #activity(response: ServerResponse): Promise<void> {
    const urls = this.#workers.flatMap(({ url }) => url ?? []);
    const activity = JSON.stringify(await totalActivity(urls));
    response.writeHead(200, { 'content-type': 'application/json' }).end(activity);
  }

  #stateFor(key: string) {
    const users = key === '' ? [] : [...demoTokens.values()];
    return {
      processes: this.#workers.map(({ name, pid, url }) => ({
        name,
        pid,
        isRunning: url !== undefined,
      })),
      isStoreAvailable: this.#store?.isOpen ?? false,
      storeIsBackAt: this.#storeIsBack?.at,
      executions: users.flatMap(({ id }) => {
        const identity = { service: SERVICE, scope: [id], operation: 'payments.create', key };
        const record = recordKey(identity);
        return this.#executions.of(record).map((execution) => ({ ...execution, user: id }));
      }),
    };
  }

  readonly #planFault = ({ fault, key }: Readonly<Record<string, unknown>>): boolean => {
    if (!FAULTS.has(fault) || typeof key !== 'string') return false;
    this.#balancer?.plan(fault as Fault, key);
    return true;
  };

  readonly #switchStore = ({ isAvailable }: Readonly<Record<string, unknown>>): boolean => {
    if (typeof isAvailable !== 'boolean') return false;
    clearTimeout(this.#storeIsBack?.timer);
    if (isAvailable) {
      this.#storeIsBack = undefined;
      this.#store?.reopen();
    } else {
      const timer = setTimeout(() => this.#switchStore({ isAvailable: true }), this.storeAwayMs);
      this.#storeIsBack = { at: Date.now() + this.storeAwayMs, timer };
      this.#store?.shut();
    }
    this.#show();
    return true;
  };

  /** Its content type keeps other pages out: they would have to ask for permission first (CORS), and get none. */
  #command(
    incoming: IncomingMessage,
    response: ServerResponse,
    run: (command: Readonly<Record<string, unknown>>) => boolean,
  ): void {
    const isJson = incoming.headers['content-type'] === 'application/json';
    const body: Promise<unknown> = isJson ? json(incoming) : Promise.resolve(undefined);
    void body
      .then((command) => typeof command === 'object' && command !== null && run({ ...command }))
      .catch(() => false)
      .then((isDone) => response.writeHead(isDone ? 204 : 400).end());
  }
}
