import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { connect } from 'amqplib';
import { brokerEnvironment, controlEnvironment } from './rabbitmq/environment.js';
import { startEpmd, type Epmd } from './rabbitmq/epmd.js';
import { findRabbitMq, type FoundRabbitMq } from './rabbitmq/installation.js';
import { hasQueueCounts } from './rabbitmq/queue-counts.js';
import { writeSettings, type RabbitMqSettings } from './rabbitmq/settings.js';
import { startServerProcess, type ServerProcess } from './server-process.js';
import { START_MS } from './start-patience.js';
import { startServerAt, type Place, type StartedServer } from './started-server.js';

const STOP_TIMEOUT_MS = 10_000;
const HANDSHAKE_TIMEOUT_MS = 2_000;
const CONTROL_TIMEOUT_MS = 30_000;

export interface StartRabbitMqOptions extends Place {
  /**
   * Besides, or instead of, those that it has: `{ consumer_timeout: 500 }` closes the channel of a consumer that has
   * not acknowledged for half a second.
   */
  readonly settings?: RabbitMqSettings;
}

export interface RabbitMqServer extends StartedServer {
  /** Of the virtual host `/`, with the user `guest`. */
  readonly url: string;
  /** Runs rabbitmqctl for this broker and returns what it writes. */
  control(...args: string[]): Promise<string>;
}

/**
 * Starts a RabbitMQ of one's own on 127.0.0.1, without plugins, and waits until it takes a client. Where `dir` is
 * given, what is persistent survives `stop()`, and SIGKILL if its queue was saved: `saveQueues`.
 */
export async function startRabbitMq(options: StartRabbitMqOptions = {}): Promise<RabbitMqServer> {
  const programs = findRabbitMq();
  if (programs === undefined) {
    throw new Error(
      'rabbitmq-server was not found: install it (Debian: apt-get install rabbitmq-server) or name it in RABBITMQ_SERVER_BIN',
    );
  }
  const server = await startServerAt('rabbitmq', options, async (port, dir) => {
    writeSettings(dir, options.settings ?? {});
    const broker = await launch(programs, port, dir, await startEpmd(programs, dir));
    if (options.dir !== undefined) return broker;
    // An orderly end takes a second, and there is nothing to save.
    const stop = () => {
      broker.kill('SIGKILL');
      return broker.stop();
    };
    return { ...broker, stop };
  });
  return { ...server, url: urlOf(server.port) };
}

async function launch(
  programs: FoundRabbitMq,
  port: number,
  dir: string,
  epmd: Epmd,
): Promise<ServerProcess & Pick<RabbitMqServer, 'control'>> {
  try {
    const broker = await startServerProcess({
      name: 'rabbitmq-server',
      program: programs.server,
      args: [],
      dir,
      env: brokerEnvironment(port, dir, epmd.port),
      readyLog: /completed with \d+ plugins/,
      isReady: async () => hasQueueCounts(dir) && (await takesClient(port)),
      startTimeoutMs: START_MS,
      stopTimeoutMs: STOP_TIMEOUT_MS,
    });
    return {
      ...broker,
      stop: async () => {
        await broker.stop();
        await epmd.stop();
      },
      control: async (...args) => {
        const env = controlEnvironment(dir, epmd.port);
        const options = { env, cwd: dir, timeout: CONTROL_TIMEOUT_MS };
        return (await promisify(execFile)(programs.control, args, options)).stdout;
      },
    };
  } catch (error) {
    await epmd.stop();
    throw error;
  }
}

function urlOf(port: number): string {
  return `amqp://guest:guest@127.0.0.1:${String(port)}`;
}

async function takesClient(port: number): Promise<boolean> {
  try {
    const connection = await connect(urlOf(port), { timeout: HANDSHAKE_TIMEOUT_MS });
    connection.on('error', () => undefined);
    await connection.close();
    return true;
  } catch {
    return false;
  }
}
