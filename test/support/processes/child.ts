import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { typescriptNodeOptions } from '../typescript/node-options.js';
import { startProfile, stopProfile } from './profiler.js';

export interface ChildOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Another Node than this one. */
  readonly execPath?: string;
  readonly nodeOptions?: readonly string[];
  /** What lets Node run its TypeScript, if it belongs to another checkout. */
  readonly loader?: string;
}

/**
 * V8 collects all garbage of a process that has been idle for eight seconds, and with it what its optimized
 * code depends on: a contender that waited its turn would answer its next few thousand requests three times
 * as slowly.
 */
const AS_UNDER_STEADY_LOAD = '--no-memory-reducer';

interface ApiResponse {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}

/** A separate process, so that its cost is its own. It ends with this one. */
export class Child {
  private readonly waiting = new Map<number, PromiseWithResolvers>();
  private calls = 0;

  private constructor(private readonly child: ChildProcess) {
    child.on('message', (response: ApiResponse) => this.settle(response));
    child.once('exit', (code, signal) => {
      const error = new Error(`A process of the benchmark ended: ${String(code ?? signal)}`);
      for (const { reject } of this.waiting.values()) reject(error);
    });
  }

  /** Resolves when the process serves calls, see {@link serve}. */
  static async start(file: URL, options: ChildOptions = {}): Promise<Child> {
    const { env, execPath = process.execPath, nodeOptions = [], loader } = options;
    const typescript = loader === undefined ? typescriptNodeOptions : ['--import', loader];
    const child = fork(file, {
      execPath,
      execArgv: [AS_UNDER_STEADY_LOAD, ...typescript, ...nodeOptions],
      env: { ...process.env, NODE_ENV: 'production', ...env },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const started = new Child(child);
    await started.call('ready');
    return started;
  }

  call<T>(method: string, argument?: unknown): Promise<T> {
    const id = (this.calls += 1);
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      // A process that has just been forked accepts messages before it listens, and receives them then.
      this.child.send({ id, method, argument });
    });
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.waiting.clear();
    const exited = once(this.child, 'exit');
    this.child.disconnect();
    await exited;
  }

  private settle({ id, value, error }: ApiResponse): void {
    const call = this.waiting.get(id);
    this.waiting.delete(id);
    if (error === undefined) call?.resolve(value);
    else call?.reject(new Error(error));
  }
}

interface PromiseWithResolvers {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

type Methods = Readonly<Record<string, (argument: never) => unknown>>;

/** The other side: answers the calls of {@link Child} until the parent is gone. */
export function serve(methods: Methods): void {
  const all: Methods = { ready: () => undefined, startProfile, stopProfile, ...methods };
  process.on('message', ({ id, method, argument }: Call) => {
    void (async () => {
      try {
        process.send?.({ id, value: await all[method]?.(argument as never) });
      } catch (error) {
        process.send?.({ id, error: error instanceof Error ? error.stack : String(error) });
      }
    })();
  });
  process.once('disconnect', () => process.exit());
}

interface Call {
  readonly id: number;
  readonly method: string;
  readonly argument: unknown;
}
