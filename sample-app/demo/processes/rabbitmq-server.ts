import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findProgram } from './find-program.js';
import { freePort } from '../../src/free-port.js';

/** Debian's program on the PATH switches to the user "rabbitmq"; this is the server itself. */
const DEBIAN_FOLDER = '/usr/lib/rabbitmq/bin';

const NODE = 'orders-demo@localhost';

const INSTALL =
  'The demo needs rabbitmq-server, and its Erlang on the PATH. On Debian and Ubuntu: apt-get install rabbitmq-server. Or name a broker: BROKER_URL=amqp://127.0.0.1:5672';

/** A RabbitMQ without plugins on a free port of 127.0.0.1, with its files in a temporary folder. */
export class RabbitMqServer {
  readonly #children: ChildProcess[] = [];
  #isStopped = false;
  #port = 0;
  #version = '';

  constructor(private readonly folder: string) {}

  get url(): string {
    return `amqp://guest:guest@127.0.0.1:${this.#port}`;
  }

  get version(): string {
    return this.#version;
  }

  /** @throws Error with the way to install RabbitMQ if it is missing. */
  async start(): Promise<void> {
    const program =
      process.env.RABBITMQ_SERVER_BIN ?? findProgram('rabbitmq-server', [DEBIAN_FOLDER]);
    if (program === undefined) throw new Error(INSTALL);
    await mkdir(this.folder);
    await writeFile(join(this.folder, '.erlang.cookie'), 'ONLY_FOR_THE_DEMO', { mode: 0o400 });
    await writeFile(join(this.folder, 'enabled_plugins'), '[].');
    // epmd, Erlang's register of nodes: one started by Erlang would outlive the demo.
    const epmdPort = await freePort();
    const where = ['-address', '127.0.0.1', '-port', String(epmdPort)];
    await this.#run('epmd', ['-d', ...where], {}, /epmd running/);
    this.#port = await freePort();
    const environment = serverEnvironment(this.folder, this.#port, epmdPort);
    const log = await this.#run(program, [], environment, /completed with \d+ plugins/);
    this.#version = /RabbitMQ ([\d.]+)/.exec(log)?.[1] ?? '';
  }

  /** Kills it at once, even while it starts: none of its data is kept. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#children.map(end));
  }

  /** Starts a program and waits until it logs that it is ready. */
  async #run(
    program: string,
    args: readonly string[],
    environment: Readonly<Record<string, string>>,
    readyLog: RegExp,
  ): Promise<string> {
    if (this.#isStopped) throw new Error('The demo is over');
    const child = spawn(program, args, {
      cwd: this.folder,
      // Without the settings of a broker installed on this machine.
      env: { PATH: process.env.PATH, HOME: this.folder, LANG: 'C.UTF-8', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#children.push(child);
    return new Promise((resolve, reject) => {
      let log = '';
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (chunk: Buffer) => {
          log += chunk.toString();
          if (readyLog.test(log)) resolve(log);
        });
      }
      child.once('error', (cause) => reject(new Error(INSTALL, { cause })));
      child.once('exit', () => reject(new Error(`${program} did not start:\n${log}`)));
    });
  }
}

async function end(child: ChildProcess): Promise<void> {
  const isGone = child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
  if (isGone) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

function serverEnvironment(folder: string, port: number, epmdPort: number) {
  return {
    RABBITMQ_NODENAME: NODE,
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_MNESIA_BASE: join(folder, 'mnesia'),
    RABBITMQ_LOG_BASE: join(folder, 'log'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_CONF_ENV_FILE: join(folder, 'rabbitmq-env.conf'),
    RABBITMQ_CONFIG_FILES: join(folder, '*.conf'),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq.conf'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(folder, 'advanced.config'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    ERL_EPMD_PORT: String(epmdPort),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    ERL_CRASH_DUMP_SECONDS: '0',
    // Replaces the start script by the server, so that signals reach the server.
    RUNNING_UNDER_SYSTEMD: 'true',
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `-sname ${NODE} -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}`,
  };
}
