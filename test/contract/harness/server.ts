import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { outsideEnvironment } from '../../support/processes/processes.js';
import { ContractScenario } from './contract-scenario.js';

/** A server that the clauses are tested on. */
export interface Server {
  readonly port: number;
  /** A test's scenario, with the clause's requests in `requests/`. */
  scenario(clause: string): ContractScenario;
  /** Another process on the same store, if the store can be shared. */
  readonly peer: Server | undefined;
}

/** A running server, and an optional peer of it. */
export class ForeignServer implements Server {
  readonly peer: Server | undefined;

  constructor(
    private readonly url: string,
    peerUrl?: string,
  ) {
    this.peer = peerUrl === undefined ? undefined : new ForeignServer(peerUrl);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  scenario(clause: string): ContractScenario {
    return new ContractScenario(this.port, clause);
  }
}

/** Whether Nest's streams of interceptors are skipped. */
export type RequestPath = 'fast' | 'beside' | 'streams';

/** The application of this suite in a separate process. */
export class AppProcess implements Server {
  peer: Server | undefined;
  #child: ChildProcess | undefined;
  #port: number | undefined;

  constructor(
    readonly platform: 'express' | 'fastify',
    private readonly store: string,
    private readonly path: RequestPath,
  ) {}

  /** Starts the program and waits until it listens. */
  async start(program: string, environment: NodeJS.ProcessEnv): Promise<void> {
    this.#child = spawn(process.execPath, [program], {
      env: {
        ...outsideEnvironment(),
        ...environment,
        PLATFORM: this.platform,
        STORE: this.store,
        REQUEST_PATH: this.path,
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    let log = '';
    this.#child.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()));
    for await (const line of createInterface(this.#child.stdout!)) {
      log += `${line}\n`;
      const url = /^listening on (.*)$/.exec(line)?.[1];
      if (url === undefined) continue;
      this.#port = Number(new URL(url).port);
      return;
    }
    throw new Error(`the application ended before it listened:\n${log}`);
  }

  get port(): number {
    if (this.#port === undefined) throw new Error('the server was not started');
    return this.#port;
  }

  scenario(clause: string): ContractScenario {
    return new ContractScenario(this.port, clause);
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'close');
    // Handlers that a test left at a gate are not worth waiting for.
    child.kill('SIGKILL');
    await ended;
  }
}
