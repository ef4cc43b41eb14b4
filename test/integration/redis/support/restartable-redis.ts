import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { freePort } from '../../../support/free-port.js';

/** A redis-server that can die and come back on the same port, with arguments of its own each time. */
export class RestartableRedis {
  private child: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    private readonly env: Readonly<Record<string, string>>,
  ) {}

  /** @param env - environment variables besides those of this process. */
  static async onFreePort(env: Readonly<Record<string, string>> = {}): Promise<RestartableRedis> {
    return new RestartableRedis(await freePort(), env);
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Does not wait until the server answers. */
  start(...args: string[]): void {
    const always = ['--port', String(this.port), '--bind', '127.0.0.1', '--save', ''];
    const env = { ...process.env, ...this.env };
    this.child = spawn('redis-server', [...always, ...args], { stdio: 'ignore', env });
  }

  async die(): Promise<void> {
    const { child } = this;
    if (child === undefined) return;
    this.child = undefined;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  stop(): Promise<void> {
    return this.die();
  }
}
