import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { freePort } from '../../../support/free-port.js';

/** A redis-server that can die and come back on the same port, with arguments of its own each time. */
export class RestartableRedis {
  private child: ChildProcess | undefined;

  private constructor(readonly port: number) {}

  static async onFreePort(): Promise<RestartableRedis> {
    return new RestartableRedis(await freePort());
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Does not wait until the server answers. */
  start(...args: string[]): void {
    const always = ['--port', String(this.port), '--bind', '127.0.0.1', '--save', ''];
    this.child = spawn('redis-server', [...always, ...args], { stdio: 'ignore' });
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
